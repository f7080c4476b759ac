"""Which models are served: what the workers announce on the control topic, kept up to date by one reader.

Ages count from when the reader heard an announcement, by its own clock: those of the workers may be wrong. Only the
time in which it listened counts: who was deaf for a while cannot call others silent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ._follow import Follower
from .announcements import Announcement, ModelState, read_announcement
from .broker import Broker, BrokerError, Record, TopicPartition
from .errors import InvalidRequest
from .system_topics import ensure_system_topics
from .topics import Topics, shown

MAX_KEYS = 10_000
FORGOTTEN_AFTER_S = 3600.0  # a model that no live worker has announced for so long is unknown again
CATCH_UP_S = 30.0
CLOCK_SKEW_S = 5.0  # how far ahead of ours the clock of a worker is believed
_WORKER_KEY = b"worker/"
_ORDER = (ModelState.READY, ModelState.LOADING, ModelState.UNAVAILABLE)

log = logging.getLogger(__name__)


class Heard(Struct, frozen=True):
    """An announcement and when it was heard, in seconds of the listener's clock."""

    said: Announcement
    at_s: float

    def is_stale(self, now_s: float) -> bool:
        return now_s - self.at_s > self.said.stale_after_s


class ModelView(Struct, frozen=True):
    """A model as its workers announce it.

    Attributes:
        name: of the model.
        versions: served by workers that are READY, else announced by any; those of `newest` come last.
        state: READY if any live worker is, else LOADING if any is, else UNAVAILABLE.
        newest: the announcement last heard of a worker in that state; signature and limits are read from it.
        workers: live workers that announce the model.
        ready_workers: those of them that are READY.
        reasons: why the others are not, each once.
    """

    name: str
    versions: tuple[str, ...]
    state: ModelState
    newest: Announcement
    workers: int
    ready_workers: int
    reasons: tuple[str, ...] = ()


class _Remembered(Struct, frozen=True):
    view: ModelView | None
    until_s: float


def model_view(heard: Iterable[Heard], now_s: float) -> ModelView | None:
    """What announcements of one model, in the order of the log, amount to; None when all were forgotten long ago."""
    # Which came last is told by that order: two of one millisecond have no other, and clocks step back.
    known = [h for h in heard if now_s - h.at_s <= FORGOTTEN_AFTER_S]
    if not known:
        return None
    live = [h.said for h in known if not h.is_stale(now_s)]
    state = next((s for s in _ORDER if any(a.state is s for a in live)), ModelState.UNAVAILABLE)
    best = [a for a in live if a.state is state] or [known[-1].said]
    versions = [version for a in reversed(best) for version in reversed(a.versions)]
    reasons = [a.reason for a in live if a.state is not ModelState.READY and a.reason]
    if not live:
        reasons = ["no live worker announces it"]
    return ModelView(
        best[-1].model,
        tuple(reversed(dict.fromkeys(versions))),
        state,
        best[-1],
        len(live),
        sum(a.state is ModelState.READY for a in live),
        tuple(dict.fromkeys(reasons)),
    )


class ModelDirectory:
    """Keeps the newest announcement of each worker and model. Belongs to one event loop.

    `clock` gives seconds that only go up, those spent listening unless given; `wall_clock` seconds since the epoch.
    """

    def __init__(
        self,
        broker: Broker,
        topics: Topics,
        max_keys: int = MAX_KEYS,
        clock: Callable[[], float] | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._broker = broker
        self._topics = topics
        self._max_keys = max_keys
        self._wall_clock = wall_clock
        self._announced: dict[bytes, Heard] = {}
        self._by_model: dict[str, dict[bytes, Heard]] = {}
        self._refused: set[bytes] = set()
        self._remembered: dict[str, _Remembered] = {}
        self._follower = Follower(broker, TopicPartition(topics.control, 0), self._take, from_end=False)
        self._clock = clock or self._follower.listened_s

    @property
    def caught_up(self) -> bool:
        """Whether all that was announced before `start` has been read."""
        return self._follower.caught_up.is_set()

    @property
    def failed(self) -> BrokerError | None:
        """Why nothing is read at the moment; None while all is well."""
        return self._follower.failed

    async def start(self) -> None:
        """Read all that has been announced so far, and go on reading; creates the control topic where it is missing.

        Raises:
            BrokerError: the broker did not answer, or reading took more than 30 s.
        """
        admin = self._broker.admin()
        try:
            await admin.start()
            await ensure_system_topics(admin, self._topics)
        finally:
            await admin.stop()
        await self._follower.start()
        try:
            async with asyncio.timeout(CATCH_UP_S):
                await self._follower.caught_up.wait()
        except TimeoutError as err:
            await self.close()
            raise BrokerError(f"{self._topics.control} could not be read to its end in {CATCH_UP_S:.0f} s") from err
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop reading; what was read stays."""
        await self._follower.stop()

    def models(self) -> dict[str, ModelView]:
        """The models known now, by name in order."""
        views = {name: self.get(name) for name in sorted(self._by_model)}
        return {name: view for name, view in views.items() if view is not None}

    def get(self, model: str) -> ModelView | None:
        """One model; None when it is unknown."""
        heard = self._by_model.get(model)
        if heard is None:
            return None
        now_s = self._clock()
        remembered = self._remembered.get(model)
        if remembered is None or now_s > remembered.until_s:
            remembered = _Remembered(model_view(heard.values(), now_s), _next_change_s(heard.values(), now_s))
            self._remembered[model] = remembered
        return remembered.view

    def _take(self, records: Sequence[Record]) -> None:
        for record in records:
            if record.key is None or not record.key.startswith(_WORKER_KEY):
                continue
            if record.value is None:
                self._drop(record.key)
                continue
            try:
                self._replace(record.key, self._hear(record.key, record.value, record.timestamp))
            except InvalidRequest as err:
                self._refuse(record.key, err)

    def _hear(self, key: bytes, value: bytes, timestamp_ms: int) -> Heard:
        said = read_announcement(value)
        if said.key != key:
            raise InvalidRequest("it speaks of another worker or model than its key")
        now_s, wall_s = self._clock(), self._wall_clock()
        age_s = max(0.0, wall_s - timestamp_ms / 1000)
        latest_ms = round(1000 * (wall_s - age_s + CLOCK_SKEW_S))
        # What is read at the start may be old; what is read later was said just now, whatever its stamp.
        return Heard(replace(said, at_ms=min(said.at_ms, latest_ms)), now_s if self.caught_up else now_s - age_s)

    def _refuse(self, key: bytes, err: InvalidRequest) -> None:
        if key not in self._refused and len(self._refused) < self._max_keys:
            self._refused.add(key)
            log.warning(
                "Announcements under %s are passed over: %s",
                shown(key.decode("utf-8", "replace")),
                err.message,
                extra={"action": "announcement_refused"},
            )

    def _replace(self, key: bytes, heard: Heard) -> None:
        self._drop(key)
        if len(self._announced) >= self._max_keys:
            self._drop(next(iter(self._announced)))  # the one not heard of for longest
        self._announced[key] = heard
        self._by_model.setdefault(heard.said.model, {})[key] = heard
        self._remembered.pop(heard.said.model, None)

    def _drop(self, key: bytes) -> None:
        old = self._announced.pop(key, None)
        if old is None:
            return
        self._remembered.pop(old.said.model, None)
        of_model = self._by_model[old.said.model]
        del of_model[key]
        if not of_model:
            del self._by_model[old.said.model]


def _next_change_s(heard: Iterable[Heard], now_s: float) -> float:
    """Until when a view stays true if nothing is announced."""
    ends = [h.at_s + life_s for h in heard for life_s in (h.said.stale_after_s, FORGOTTEN_AFTER_S)]
    return min((end for end in ends if end >= now_s), default=float("inf"))
