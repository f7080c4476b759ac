"""Which models are served: what the workers announce on the control topic, kept up to date by one reader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ._follow import Follower
from .announcements import HEARTBEATS_UNTIL_STALE, Announcement, ModelState, decode_announcement
from .broker import Broker, BrokerError, Record, TopicPartition
from .system_topics import ensure_system_topics
from .topics import Topics

MAX_KEYS = 10_000
FORGOTTEN_AFTER_S = 3600.0  # a model that no live worker has announced for so long is unknown again
CATCH_UP_S = 30.0
_WORKER_KEY = b"worker/"
_ORDER = (ModelState.READY, ModelState.LOADING, ModelState.UNAVAILABLE)


class ModelView(Struct, frozen=True):
    """A model as its workers announce it.

    Attributes:
        name: of the model.
        versions: served by workers that are READY, else announced by any; the newest announcement's come last.
        state: READY if any live worker is, else LOADING if any is, else UNAVAILABLE.
        newest: the newest announcement of a worker in that state; signature and limits are read from it.
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
    until_ms: float


def model_view(announcements: Iterable[Announcement], now_ms: int) -> ModelView | None:
    """What announcements of one model amount to; None when all were forgotten long ago."""
    known = [a for a in announcements if now_ms - a.at_ms <= FORGOTTEN_AFTER_S * 1000]
    if not known:
        return None
    live = [a for a in known if not a.is_stale(now_ms)]
    state = next((s for s in _ORDER if any(a.state is s for a in live)), ModelState.UNAVAILABLE)
    best = sorted((a for a in live if a.state is state), key=lambda a: a.at_ms) or [max(known, key=lambda a: a.at_ms)]
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
    """Keeps the newest announcement of each worker and model. Belongs to one event loop."""

    def __init__(self, broker: Broker, topics: Topics, max_keys: int = MAX_KEYS) -> None:
        self._broker = broker
        self._topics = topics
        self._max_keys = max_keys
        self._announced: dict[bytes, Announcement] = {}
        self._by_model: dict[str, dict[bytes, Announcement]] = {}
        self._remembered: dict[str, _Remembered] = {}
        self._follower = Follower(broker, TopicPartition(topics.control, 0), self._take, from_end=False)

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

    def models(self, now_ms: int | None = None) -> dict[str, ModelView]:
        """The models known at a point in time (epoch milliseconds, None is now), by name in order."""
        now_ms = int(time.time() * 1000) if now_ms is None else now_ms
        views = {name: self.get(name, now_ms) for name in sorted(self._by_model)}
        return {name: view for name, view in views.items() if view is not None}

    def get(self, model: str, now_ms: int | None = None) -> ModelView | None:
        """One model; None when it is unknown."""
        announced = self._by_model.get(model)
        if announced is None:
            return None
        now_ms = int(time.time() * 1000) if now_ms is None else now_ms
        remembered = self._remembered.get(model)
        if remembered is None or now_ms > remembered.until_ms:
            remembered = _Remembered(
                model_view(announced.values(), now_ms), _next_change_ms(announced.values(), now_ms)
            )
            self._remembered[model] = remembered
        return remembered.view

    def _take(self, records: Sequence[Record]) -> None:
        for record in records:
            if record.key is None or not record.key.startswith(_WORKER_KEY):
                continue
            if record.value is None:
                self._drop(record.key)
                continue
            announcement = decode_announcement(record.value)
            if announcement is not None and announcement.key == record.key:
                self._replace(record.key, announcement)

    def _replace(self, key: bytes, announcement: Announcement) -> None:
        self._drop(key)
        if len(self._announced) >= self._max_keys:
            self._drop(min(self._announced, key=lambda k: self._announced[k].at_ms))
        self._announced[key] = announcement
        self._by_model.setdefault(announcement.model, {})[key] = announcement
        self._remembered.pop(announcement.model, None)

    def _drop(self, key: bytes) -> None:
        old = self._announced.pop(key, None)
        if old is None:
            return
        self._remembered.pop(old.model, None)
        of_model = self._by_model[old.model]
        del of_model[key]
        if not of_model:
            del self._by_model[old.model]


def _next_change_ms(announcements: Iterable[Announcement], now_ms: int) -> float:
    """Until when a view stays true if nothing is announced; a view asked for an earlier time is not kept apart."""
    ends = [
        a.at_ms + life_s * 1000
        for a in announcements
        for life_s in (HEARTBEATS_UNTIL_STALE * a.heartbeat_s, FORGOTTEN_AFTER_S)
    ]
    return min((end for end in ends if end >= now_ms), default=float("inf"))
