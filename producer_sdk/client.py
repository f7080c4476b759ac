"""The client for programs that publish requests and await replies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence

from ._at_once import send_at_once
from ._call import (
    MOST_OUTPUTS_KEPT,
    Call,
    Inputs,
    check_call,
    check_duration,
    check_plain_call,
    check_reply_to,
    encode_call,
    required,
)
from ._claims import Sending
from ._infer import InferWaiter
from ._lifecycle import CLOSE_TIMEOUT_S as CLOSE_TIMEOUT_S
from ._lifecycle import Lifecycle
from ._pending import Outcome, Waiter
from ._route import Route
from ._window import Source, Steps, Window, check_window
from .cancels import Cancel
from .errors import DeadlineExceeded, HeadraceError
from .tensors import Tensor
from .topics import ReplyTo, check_id, new_id
from .wire import Reply, Scalar


class Client(Lifecycle):
    """Publishes requests to the models of one headrace and awaits their replies.

    Belongs to the event loop that it was started in; any task of it may use it, many at once.

        async with Client("localhost:9092") as client:
            reply = await client.infer("resnet", {"image": image})

    Args:
        bootstrap_servers: Kafka's addresses, `host:port` with commas between, or a broker object.
        encoding: how requests are written: `msgpack` (compact, exact), `json` (Open Inference Protocol v2), or the name
            of a codec, as `protobuf`.
        prefix: what the names of all topics begin with.
        client_id: name of this client in the broker's logs; only with `bootstrap_servers` as text.
        options: limits and security of Kafka's clients; only with `bootstrap_servers` as text, as are the next two.
        security: TLS and SASL, in place of that in the options.
        token: gives tokens for SASL OAUTHBEARER, over SASL_SSL where `security` says nothing else.
        reply_partition: the partition of `<prefix>.replies` to read; None takes one at random.
        max_pending: most requests that may wait for replies at once; one more raises QueueFull.
        close_timeout_s: most time that `close` takes to flush what was published.
        s3: where large requests are put and large replies are fetched, as settings or as a store that the caller
            closes; without it requests are as large as the broker takes.

    Raises:
        Misconfigured: there are S3 settings, and boto3 is not installed.
        ValueError: encoding, prefix, `max_pending` or the combination of arguments is not valid.
    """

    async def infer(
        self,
        model: str,
        inputs: Inputs,
        *,
        id: str | None = None,
        version: str | None = None,
        lane: str = "interactive",
        deadline_s: float = 30.0,
        tenant: str | None = None,
        parameters: Mapping[str, Scalar] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Reply:
        """Send one request and wait for its reply. Cancelled by asyncio, it sends a cancel in the background.

        Args:
            model: its name.
            inputs: by name, anything that NumPy takes (the first axis is rows), or a `Tensor`.
            id: names the request everywhere, a fresh one by default; no two that wait may share it.
            version: of the model; None leaves the choice to the worker.
            lane: `interactive`, `async` or `bulk`.
            deadline_s: seconds from now, after which nobody works on it any more.
            tenant: whom it is counted for.
            parameters: text, numbers and booleans passed to the model.
            outputs: names of the outputs wanted; None means all.

        Raises:
            HeadraceError: see `errors`; every one has `code`, `retryable` and `id`.
        """
        call = check_call(model, lane, required(deadline_s), tenant, version, parameters, outputs)
        id = new_id() if id is None else id
        waiter = InferWaiter()
        try:
            route, reply_to = await self._prepare(call, deadline_s)
            sending = self._expect(call, id, inputs, reply_to, waiter)
            connection = self._open()
            try:
                await waiter.send(connection.sender, route, sending)
                outcome = await waiter.outcome
            except asyncio.CancelledError:
                waiter.give_up(connection.canceller, sending)
                raise
            finally:
                self._replies.forget(id)
        except HeadraceError as err:
            err.id = id
            raise
        if isinstance(outcome, HeadraceError):
            raise outcome
        return outcome

    def infer_at_once(
        self,
        model: str,
        inputs: Mapping[str, Tensor],
        waiter: Waiter,
        *,
        id: str,
        version: str | None = None,
        lane: str = "interactive",
        deadline_s: float = 30.0,
        tenant: str | None = None,
        parameters: Mapping[str, Scalar] | None = None,
        outputs: tuple[str, ...] | None = None,
    ) -> bool:
        """As `infer`, for who has no task to wait in: `waiter.settle` is told the outcome, later in this event loop.

        It must not raise, and may be given a `TensorReply`. False where sending takes a wait, as before the first
        reply or with a full buffer: nothing was sent then, and `infer` does it. `give_up` ends it.

        Raises:
            HeadraceError: the request cannot be sent.
        """
        connection = self._open()
        try:
            if parameters or len(outputs or ()) > MOST_OUTPUTS_KEPT:
                call = check_call(model, lane, deadline_s, tenant, version, parameters, outputs)
            else:
                call = check_plain_call(model, lane, tenant, version, outputs)
                check_duration(deadline_s)
            return send_at_once(
                connection, self._replies, call, deadline_s, id, inputs, waiter, self._encoding, self._claims.limit
            )
        except HeadraceError as err:
            err.id = id
            raise

    def give_up(self, id: str) -> None:
        """Wait no longer for what `infer_at_once` sent: its waiter is told nothing, a cancel goes out behind it."""
        published_ms = self._replies.forget(id)
        if published_ms is not None and self._connection is not None:
            self._connection.canceller.send_soon([Cancel(id, published_ms)])

    async def publish(
        self,
        model: str,
        inputs: Inputs,
        *,
        reply_to: str | None = None,
        id: str | None = None,
        version: str | None = None,
        lane: str = "async",
        deadline_s: float | None = None,
        tenant: str | None = None,
        parameters: Mapping[str, Scalar] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> str:
        """Send one request and return its id once the broker has it for good; the model need not be running.

        Args:
            reply_to: `topic` or `topic:partition` under the prefix, or `s3://bucket/prefix/`, where the result is
                stored; None is the model's results topic.
            deadline_s: None never expires, unless the model sets a default. The others are as for `infer`.

        Raises:
            HeadraceError: after a BrokerError the request may have arrived or not; the same id makes a repeat harmless.
        """
        call = check_call(model, lane, deadline_s, tenant, version, parameters, outputs)
        address = check_reply_to(self._topics, reply_to)
        sender = self._open().sender
        id = new_id() if id is None else id
        try:
            sending = encode_call(call, id, inputs, self._encoding, address, self._claims.limit)
            route = sender.known_route(call.model, call.lane) or await sender.route(call.model, call.lane)
            await sender.deliver(route, sending)
        except HeadraceError as err:
            err.id = id
            raise
        return id

    async def cancel(self, id: str) -> None:
        """Ask that the requests of an id that were published up to now end; returns once the broker has it for good.

        Each still gets its one outcome: Cancelled, or the one that was published before the worker read of the cancel.
        An id that is not known is no error. The cancel is kept for an hour; later the id may be used again.

        Raises:
            InvalidRequest: the id is not valid.
            BrokerError: it may have arrived or not; cancelling again is harmless.
        """
        await self._open().canceller.send([Cancel(check_id(id), int(time.time() * 1000))])

    async def resolve(self, reply: Reply, *, timeout_s: float = 60.0) -> Reply:
        """The whole reply that a pointer (`reply.ref`), read from a topic by the caller, points to; others as they are.

        Raises:
            HeadraceError: ResultGone, PayloadUnavailable, PayloadTooLarge, Misconfigured; or the error that is stored.
        """
        outcome = reply if reply.ref is None else await self._stored.fetch(reply, timeout_s)
        if isinstance(outcome, HeadraceError):
            raise outcome
        return outcome

    def map(
        self,
        model: str,
        iterable: Source,
        *,
        window: int | None = None,
        ordered: bool = False,
        version: str | None = None,
        lane: str = "async",
        deadline_s: float = 300.0,
        tenant: str | None = None,
        parameters: Mapping[str, Scalar] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> AsyncGenerator[Outcome, None]:
        """Send one request for each inputs of an iterable and yield the outcomes, each with its place as `index`.

        Errors of single requests are yielded as values. At most `window` items are pulled ahead of what was yielded,
        and none while 64 MiB of requests wait for their outcomes.
        To end early, close the generator (`contextlib.aclosing`): what is still out is cancelled in the background.

        Args:
            iterable: of inputs as for `infer`; plain or asynchronous.
            window: 1 to `max_pending`; None is 256, or `max_pending` where that is less.
            ordered: yield in the order of the iterable, not as the replies come.
            deadline_s: of each request, from its sending. The others are as for `infer`.

        Raises:
            InvalidRequest: an argument is not valid; at the call.
            HeadraceError: the model is unknown or the broker does not answer; at the first item.
        """
        call = check_call(model, lane, required(deadline_s), tenant, version, parameters, outputs)
        size = check_window(window, self._max_pending)

        async def open_steps() -> Steps:
            route, reply_to = await self._prepare(call, deadline_s)
            sender = self._open().sender
            return Steps(
                self._open,
                lambda inputs, waiter: self._expect(call, new_id(), inputs, reply_to, waiter),
                lambda sending: sender.send_alone(route, sending),
                lambda sendings: sender.send_together(route, sendings),
                self._replies.forget,
                self._open().canceller.send_soon,
            )

        return Window(size, ordered=ordered).run(iterable, open_steps)

    async def _prepare(self, call: Call, deadline_s: float) -> tuple[Route, ReplyTo]:
        """Route and return address: at hand in all but the first calls."""
        connection = self._open()
        reply_to = self._replies.address
        route = connection.sender.known_route(call.model, call.lane)
        if route is not None and reply_to is not None:
            return route, reply_to
        try:
            async with asyncio.timeout(deadline_s):
                route = await connection.sender.route(call.model, call.lane)
                return route, await self._replies.start(connection.admin)
        except TimeoutError as err:
            raise DeadlineExceeded("the broker did not answer within the deadline") from err

    def _expect(self, call: Call, id: str, inputs: Inputs, reply_to: ReplyTo, waiter: Waiter) -> Sending:
        sending = encode_call(call, id, inputs, self._encoding, reply_to, self._claims.limit)
        self._replies.expect(id, call.deadline_s or 0.0, waiter, sending.record.timestamp_ms or 0)
        return sending
