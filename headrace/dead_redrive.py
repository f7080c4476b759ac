"""Publishes dead letters again: in chunks, each acknowledged and noted before the next."""

import asyncio
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing

from msgspec import Struct, field

from headrace.dead_judge import Going, Reason, Skipped, Wishes, judge
from headrace.dead_reader import DeadTopic, Letter
from producer_sdk.broker import Acknowledgement, BrokerError, NoSuchPlace, Producer, TopicPartition
from producer_sdk.dead_letters import note
from producer_sdk.errors import HeadraceError, PayloadTooLarge

CHUNK, CHUNK_BYTES = 100, 8 * 1024 * 1024


class Choice(Struct, frozen=True):
    """Which letters: those that match, at these places alone unless None, and at most so many published."""

    wanted: Callable[[Letter], bool]
    places: Collection[tuple[int, int]] | None = None
    limit: int | None = None

    def takes(self, letter: Letter) -> bool:
        """Whether the letter is chosen."""
        place = (letter.record.partition, letter.record.offset)
        return (self.places is None or place in self.places) and self.wanted(letter)

    def starts(self, topic: str) -> dict[TopicPartition, int] | None:
        """Where to begin to read, so that no place is missed."""
        if self.places is None:
            return None
        lowest = dict(sorted(self.places, reverse=True))
        return {TopicPartition(topic, partition): offset for partition, offset in lowest.items()}


WhyNot = Skipped | HeadraceError | None


class Tally(Struct):
    """What has come of a re-drive so far; `stopped` says why it ended early."""

    published: int = 0
    skipped: Counter[Reason] = field(default_factory=Counter)
    failed: int = 0
    stopped: str = ""


class Redrive:
    """One re-drive. `told` is called with each letter and why it was not published; None where it was.

    `partitions` are the topics there are and their partitions.
    """

    def __init__(
        self,
        dead: DeadTopic,
        producer: Producer,
        lanes: Collection[str],
        partitions: Mapping[str, int],
        wishes: Wishes,
        told: Callable[[Letter, WhyNot], None],
        *,
        rate: float | None = None,
        dry_run: bool = False,
    ) -> None:
        self.tally = Tally()
        self._dead = dead
        self._producer = producer
        self._lanes = lanes
        self._partitions = partitions
        self._wishes = wishes
        self._told = told
        self._rate = rate
        self._dry_run = dry_run
        self._chunk_size = CHUNK if rate is None else max(1, min(CHUNK, int(rate)))
        self._began = time.monotonic()
        self._origins: set[tuple[str, int, int, int]] = set()

    async def run(self, choice: Choice) -> None:
        """Publish the letters of a choice, partition by partition, oldest first; notes must have been read."""
        chunk: list[Going] = []
        async with aclosing(self._dead.letters(choice.starts(self._dead.topic))) as letters:
            async for letter in letters:
                if choice.takes(letter) and (going := self._judged(letter)) is not None:
                    chunk.append(going)
                left = math.inf if choice.limit is None else choice.limit - self.tally.published - len(chunk)
                if chunk and (left <= 0 or self._is_full(chunk)):
                    await self._publish(chunk)
                    chunk = []
                if self.tally.stopped or self.tally.published == choice.limit:
                    return
        if chunk:
            await self._publish(chunk)

    def _judged(self, letter: Letter) -> Going | None:
        redriven, now_ms = self._dead.was_redriven(letter), int(time.time() * 1000)
        verdict = judge(letter, self._dead.topic, self._lanes, self._wishes, redriven=redriven, now_ms=now_ms)
        if letter.facts is not None and (isinstance(verdict, Going) or verdict.reason is Reason.REDRIVEN):
            # A worker that dies between a dead letter and its reply leaves the letter to be written once more.
            origin = letter.facts.origin
            if origin in self._origins:
                verdict = Skipped(Reason.TWIN, "the same record as an earlier letter")
            self._origins.add(origin)
        if isinstance(verdict, Going):
            return verdict
        self.tally.skipped[verdict.reason] += 1
        self._told(letter, verdict)
        return None

    def _is_full(self, chunk: Sequence[Going]) -> bool:
        nbytes = sum(len(going.outgoing.value or b"") for going in chunk)
        return len(chunk) >= self._chunk_size or nbytes >= CHUNK_BYTES

    async def _publish(self, chunk: Sequence[Going]) -> None:
        if not self._dry_run:
            await self._pace()
        handed = [(going, None if self._dry_run else await self._hand_over(going)) for going in chunk]
        offsets: defaultdict[int, list[int]] = defaultdict(list)
        for going, handing in handed:
            error = await _error_of(handing)
            if error is None:
                self.tally.published += 1
                offsets[going.letter.record.partition].append(going.letter.record.offset)
            else:
                self.tally.failed += 1
                if isinstance(error, BrokerError) and not isinstance(error, NoSuchPlace):
                    self.tally.stopped = error.message
            self._told(going.letter, error)
        if not self._dry_run:
            await self._note(offsets)

    async def _hand_over(self, going: Going) -> Acknowledgement | HeadraceError:
        topic, partition = going.origin
        count = self._partitions.get(topic, 0)
        if not count:
            return NoSuchPlace(f"there is no topic {topic} any more: make it by `headrace topics create`")
        try:
            # A topic made anew with fewer partitions takes it by its key.
            return await self._producer.publish(topic, going.outgoing, partition if partition < count else None)
        except (BrokerError, PayloadTooLarge) as err:
            return err

    async def _note(self, offsets: Mapping[int, Sequence[int]]) -> None:
        for partition, redriven in offsets.items():
            try:
                await self._producer.publish_batch(self._dead.topic, partition, [note(redriven)])
            except (BrokerError, PayloadTooLarge) as err:
                self.tally.stopped = (
                    f"{len(redriven)} letters were published, but {self._dead.topic} takes no note of it, so that "
                    f"another re-drive would publish them once more: {err.message}"
                )

    async def _pace(self) -> None:
        if self._rate is not None:
            await asyncio.sleep(max(0.0, self._began + self.tally.published / self._rate - time.monotonic()))


async def _error_of(handing: Acknowledgement | HeadraceError | None) -> HeadraceError | None:
    if handing is None or isinstance(handing, HeadraceError):
        return handing
    try:
        await handing
    except (BrokerError, PayloadTooLarge) as err:
        return err
    return None
