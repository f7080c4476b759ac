"""Publish requests: to the right topic, never to one that does not exist, evenly over its partitions."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence

from ._apart import Apart
from ._claims import Claims, Sending
from ._route import Route
from .broker import Acknowledgement, Admin, AtOnce, BrokerError, NoSuchPlace, NotAllowed, Outgoing, OutOfTurn, Producer
from .errors import HeadraceError, PayloadTooLarge, UnknownModel
from .rights import Operation, Resource, Right
from .topics import Topics

LOOK_AGAIN_S = 1.0  # how soon a missing topic is looked for again
LISTING_AGE_S = 60.0  # how long a topic that was there is taken to be there still

Failed = Callable[[str, HeadraceError], None]


class Sender:
    """The sending side of one client. Belongs to its event loop.

    `failed` is told the id of a request whose publish was refused once `send` has returned.
    """

    def __init__(self, producer: Producer, admin: Admin, topics: Topics, failed: Failed, claims: Claims) -> None:
        self._claims = claims
        self._producer = producer
        self._admin = admin
        self._topics = topics
        self._failed = failed
        self._routes: dict[tuple[str, str], Route] = {}
        self._refused: dict[str, NotAllowed | None] = {}
        self._listing: Mapping[str, int] = {}
        self._listed_at_s = -LISTING_AGE_S
        self._listings = 0
        self._looking = asyncio.Lock()
        self._publish_now = producer.publish_now if isinstance(producer, AtOnce) else None
        self._unacknowledged: deque[tuple[Route, Acknowledgement]] = deque()
        self._sent: dict[Acknowledgement, list[Sending]] = {}  # what each of those acknowledges
        self._watch_wanted = asyncio.Event()
        self._apart = Apart(self._publish_together, self._tell, self._spawn)
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()  # kept: asking for it is a call of the system
        self._spawn(self._watch(), "headrace-acknowledgements")

    def known_route(self, model: str, lane: str) -> Route | None:
        """The route if it was looked up lately."""
        if self._loop is None or self._loop.time() - self._listed_at_s >= LISTING_AGE_S:
            return None
        return self._routes.get((model, lane))

    async def route(self, model: str, lane: str) -> Route:
        """The route to a lane of a model.

        Raises:
            UnknownModel: it has no topic.
            NotAllowed: Kafka does not let this client publish to it.
            BrokerError: the topics could not be listed.
        """
        async with self._looking:
            return await self._find(model, lane)

    async def _find(self, model: str, lane: str) -> Route:
        topic = self._topics.requests(model, lane)
        now_s = asyncio.get_running_loop().time()
        age_s = now_s - self._listed_at_s
        if age_s >= LISTING_AGE_S or (topic not in self._listing and age_s >= LOOK_AGAIN_S):
            try:
                await self._list(now_s)
            except BrokerError:
                if topic not in self._listing:
                    raise
                self._listed_at_s = now_s  # a known topic is most likely still there: ask again later
        partitions = self._listing.get(topic)
        if not partitions:
            raise await self._hidden(topic) or self._unknown(model, topic)
        route = self._routes.get((model, lane))
        if route is None:
            route = self._routes[model, lane] = Route(topic, partitions, model, lane)
        route.resize(partitions)
        return route

    async def _hidden(self, topic: str) -> NotAllowed | None:
        """That the topic may be there, but is not for this client; asked once for each look."""
        if topic not in self._refused:
            self._refused[topic] = await self._admin.missing([Right(Operation.WRITE, Resource.TOPIC, topic)])
        return copy.copy(self._refused[topic])  # each caller's gets the id of its own request

    async def publish(self, route: Route, record: Outgoing) -> Acknowledgement:
        """Hand over a record; await the result for its acknowledgement."""
        seen = self._listings
        try:
            return await self._producer.publish(route.topic, record, route.next_partition())
        except PayloadTooLarge as err:
            raise self._claims.advised(err) from err
        except NoSuchPlace:
            await self._renew(route, seen)
            return await self._producer.publish(route.topic, record, route.next_partition())

    async def deliver(self, route: Route, sending: Sending) -> None:
        """Publish a request and wait for its acknowledgement. One whose topic was made anew is placed anew."""
        if sending.claim is not None:
            sending = await self._claims.store(sending)
        acknowledgement = await self.publish(route, sending.record)
        try:
            await self._acknowledged(route, sending, acknowledgement)
        except NoSuchPlace:
            await self._renew(route, self._listings)
            await self._acknowledged(route, sending, await self.publish(route, sending.record))

    async def _acknowledged(self, route: Route, sending: Sending, acknowledgement: Acknowledgement) -> None:
        """Wait for the acknowledgement of a request, which may have been refused for others with it or before it."""
        try:
            try:
                await acknowledgement
            except (PayloadTooLarge, OutOfTurn):
                await self._apart.publish(route, [sending])
        except PayloadTooLarge as err:
            raise self._claims.advised(err) from err

    async def _renew(self, route: Route, seen: int) -> None:
        """Count the partitions again after a topic was made anew. Many who find out together ask once.

        Raises:
            UnknownModel: the topic is gone.
            BrokerError: the topics could not be listed.
        """
        async with self._looking:
            if self._listings == seen:
                await self._list(asyncio.get_running_loop().time())
            if not self._listing.get(route.topic):
                raise self._unknown(route.model, route.topic)
            route.resize(self._listing[route.topic])

    def send_now(self, route: Route, sending: Sending) -> bool:
        """As `send`, without a wait; False where that cannot be: nothing was handed over then."""
        if self._publish_now is None or sending.claim is not None:
            return False
        try:
            acknowledgement = self._publish_now(route.topic, sending.record, route.partition)
        except PayloadTooLarge as err:
            raise self._claims.advised(err) from err
        if acknowledgement is None:
            return False
        route.advance()
        self._await(route, sending, acknowledgement)
        return True

    def _await(self, route: Route, sending: Sending, acknowledgement: Acknowledgement) -> None:
        others = self._sent.get(acknowledgement)
        if others is not None:
            others.append(sending)
            return
        self._sent[acknowledgement] = [sending]
        self._unacknowledged.append((route, acknowledgement))
        self._watch_wanted.set()

    async def send(self, route: Route, sending: Sending) -> None:
        """Hand over a request, stored first where it is large; a refusal that comes later is told to `failed`."""
        if sending.claim is not None:
            sending = await self._claims.store(sending)
        self._await(route, sending, await self.publish(route, sending.record))

    async def send_alone(self, route: Route, sending: Sending) -> None:
        """Hand over a request; every refusal is told to `failed`."""
        try:
            await self.send(route, sending)
        except HeadraceError as err:
            self._tell(sending.id, err)

    def send_together(self, route: Route, sendings: Sequence[Sending]) -> None:
        """Hand over requests for one partition together, large ones each alone; every refusal is told to `failed`."""
        small = [sending for sending in sendings if sending.claim is None]
        for sending in sendings if len(small) < len(sendings) else ():
            if sending.claim is not None:
                self._spawn(self.send_alone(route, sending), "headrace-send-large")
        if small:
            self._spawn(self._send_together(route, small), "headrace-send")

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _list(self, now_s: float) -> None:
        listing = await self._admin.topics()
        if listing != self._listing:
            self._routes.clear()
        self._listing = listing
        self._refused.clear()
        self._listings += 1
        self._listed_at_s = now_s

    @staticmethod
    def _unknown(model: str, topic: str) -> UnknownModel:
        return UnknownModel(f"model {model!r} is not known here: there is no topic {topic}")

    async def _send_together(self, route: Route, sendings: Sequence[Sending]) -> None:
        try:
            await self._publish_together(route, sendings)
        except HeadraceError as err:
            if isinstance(err, OutOfTurn) or (isinstance(err, PayloadTooLarge) and len(sendings) > 1):
                self._apart.send(route, sendings)
                return
            for sending in sendings:
                self._tell(sending.id, err)

    async def _publish_together(self, route: Route, sendings: Sequence[Sending]) -> None:
        """Publish requests in a batch of their own until acknowledged; placed anew where their topic was made anew."""
        seen, records = self._listings, [sending.record for sending in sendings]
        try:
            await self._producer.publish_batch(route.topic, route.next_partition(), records)
        except NoSuchPlace:
            await self._renew(route, seen)
            await self._producer.publish_batch(route.topic, route.next_partition(), records)

    async def _watch(self) -> None:
        while True:
            await self._watch_wanted.wait()
            while self._unacknowledged:
                route, acknowledgement = self._unacknowledged.popleft()
                try:
                    await acknowledgement
                except HeadraceError as err:
                    self._refused_together(route, self._sent.pop(acknowledgement), err)
                else:
                    del self._sent[acknowledgement]
            self._watch_wanted.clear()

    def _refused_together(self, route: Route, sendings: Sequence[Sending], err: HeadraceError) -> None:
        if isinstance(err, PayloadTooLarge | OutOfTurn):
            self._apart.send(route, sendings)  # even a single one: others may have shared its batch
            return
        for sending in sendings:
            if isinstance(err, NoSuchPlace):
                self._spawn(self._send_again(route, sending), "headrace-send-again")
            else:
                self._tell(sending.id, err)

    async def _send_again(self, route: Route, sending: Sending) -> None:
        """Place a request anew whose topic went away while it waited there; only once."""
        try:
            await self._renew(route, self._listings)
            await self._acknowledged(route, sending, await self.publish(route, sending.record))
        except HeadraceError as err:
            self._tell(sending.id, err)

    def _tell(self, id: str, err: HeadraceError) -> None:
        own = copy.copy(err)  # several requests may have failed by one error
        if isinstance(own, PayloadTooLarge):
            own = self._claims.advised(own)
        own.id = id
        self._failed(id, own)

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
