"""Follow one partition for as long as the process lives, without ever skipping a record."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from .broker import Broker, BrokerError, Consumer, Record, TopicPartition

POLL_S = 0.1  # poll may not be cancelled, so this bounds how long stop() waits for it
LONGEST_POLL_S = 2 * POLL_S  # one that takes longer waited for this process, or for a core
MAX_POLL_RECORDS = 500
FIRST_BACKOFF_S = 0.1
MAX_BACKOFF_S = 5.0

log = logging.getLogger(__name__)


class Follower:
    """Reads one partition in one task of the loop; a lost reader is built anew at the next offset.

    Attributes:
        position: offset of the next record.
        end_at_start: end of the partition when `start` returned.
        failed: why there is no reader now, None while there is one.

    `clock` gives seconds that only go up.
    """

    def __init__(
        self,
        broker: Broker,
        partition: TopicPartition,
        handle: Callable[[Sequence[Record]], None],
        *,
        from_end: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker = broker
        self._partition = partition
        self._handle = handle
        self._from_end = from_end
        self._clock = clock
        self._listened_s = 0.0
        self._polling_since_s: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self.position = 0
        self.end_at_start = 0
        self.caught_up = asyncio.Event()
        self.failed: BrokerError | None = None

    def listened_s(self) -> float:
        """For how many seconds whatever was said would have been heard.

        Time without a reader does not count, nor that in which this process stood still: what is said then is heard
        after it, so that only silence that lasts this long is silence.
        """
        if self._polling_since_s is None:
            return self._listened_s
        return self._listened_s + min(self._clock() - self._polling_since_s, LONGEST_POLL_S)

    async def start(self) -> None:
        """Fix the position, then begin to read.

        Raises:
            BrokerError: the broker did not answer.
        """
        end = None if self._from_end else await self._find_end()
        reader = await self._open()
        self.position = reader.positions()[self._partition]
        self.end_at_start = self.position if end is None else end
        if self.position >= self.end_at_start:
            self.caught_up.set()
        self._task = asyncio.create_task(self._follow(reader), name=f"headrace-follow-{self._partition.topic}")

    async def stop(self) -> None:
        """Stop reading; waits for the poll in progress."""
        self._stopping.set()
        if self._task is not None:
            await asyncio.shield(self._task)  # who gives up waiting must not end it before its reader is closed

    async def _find_end(self) -> int:
        # A started reader would answer `end_offsets` only after its fetch, which waits a second for records.
        at_end = self._broker.reader(frozenset({self._partition}), from_end=True)
        try:
            await at_end.start()
            return at_end.positions()[self._partition]
        finally:
            await at_end.stop()

    async def _open(self) -> Consumer:
        reader = self._broker.reader(frozenset({self._partition}), from_end=self._from_end)
        try:
            await reader.start()
        except BaseException:
            await _discard(reader)
            raise
        return reader

    async def _follow(self, first: Consumer) -> None:
        """Read until told to stop, with one reader after another. However that ends, each reader is closed."""
        reader: Consumer | None = first
        backoff_s = FIRST_BACKOFF_S
        while True:
            try:
                reader = reader or await self._reopen()
                backoff_s = FIRST_BACKOFF_S
                await self._read(reader)
            except Exception as err:  # noqa: BLE001 - the top of this task; `_lost` logs it
                self._lost(err)
            finally:
                if reader is not None:
                    await _discard(reader)
            reader = None
            if not await self._pause(backoff_s):
                return
            backoff_s = min(2 * backoff_s, MAX_BACKOFF_S)

    async def _reopen(self) -> Consumer:
        reader = await self._open()
        reader.seek(self._partition, self.position)
        self.failed = None
        return reader

    async def _read(self, reader: Consumer) -> None:
        while not self._stopping.is_set():
            polled = await self._poll(reader)
            records = polled.get(self._partition, ())
            if records:
                try:
                    self._handle(records)
                except Exception:  # the top of this task: a fault in one haul must not end the following
                    log.exception("Records of %s could not be handled.", self._partition.topic)
                self.position = records[-1].offset + 1
            if not self.caught_up.is_set() and self._is_at_end(reader, bool(records)):
                self.caught_up.set()

    async def _poll(self, reader: Consumer) -> Mapping[TopicPartition, Sequence[Record]]:
        self._polling_since_s = self._clock()
        try:
            return await reader.poll(MAX_POLL_RECORDS, POLL_S)
        finally:
            self._listened_s, self._polling_since_s = self.listened_s(), None

    def _is_at_end(self, reader: Consumer, some: bool) -> bool:
        # Compaction may have removed the last records, so the position alone may never reach the end.
        return self.position >= self.end_at_start or (not some and reader.lag().get(self._partition) == 0)

    def _lost(self, err: Exception) -> None:
        # A bug below must not leave whoever follows deaf for ever without a word.
        self.failed = err if isinstance(err, BrokerError) else BrokerError(f"{type(err).__name__}: {err}")
        log.warning(
            "The reader of %s is lost and will be built anew: %s",
            self._partition.topic,
            self.failed.message,
            exc_info=None if err is self.failed else err,
            extra={"action": "reader_lost"},
        )

    async def _pause(self, seconds: float) -> bool:
        """Wait; False at once when told to stop."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return True
        return False


async def _discard(reader: Consumer) -> None:
    try:
        await reader.stop()
    except BrokerError:
        log.debug("A lost reader did not close cleanly.", exc_info=True)
