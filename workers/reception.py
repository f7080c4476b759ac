"""decode -> backlog: records become requests that wait for a batch, for their time, or outcomes at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from producer_sdk.broker import Record
from producer_sdk.topics import Lane, Topics

from .backlog import Backlog
from .claims import Claims
from .clock_skew import skew_s
from .commit import PartitionLedger
from .decode import Decoded, Decoder, Now
from .later import Later
from .log import bug
from .quotas import quotas_of
from .reply import Scribe
from .reply_index import ReplyIndex
from .retry import Postponed
from .retry_records import due_of, retry_record
from .runners.engine import ModelSpec
from .work import Outcome, Referred, Rejected, Source, Work


class Reception:
    """Puts requests where they wait. One event loop touches it; one task calls `receive`, many call `welcome`.

    `hand_over` takes outcomes that are to be published.
    """

    def __init__(
        self,
        spec: ModelSpec,
        topics: Topics,
        decoder: Decoder,
        scribe: Scribe,
        backlog: Backlog,
        later: Later,
        index: ReplyIndex | None,
        hand_over: Callable[[Sequence[Outcome]], None],
    ) -> None:
        self._model = spec.name
        self._in_place_s = spec.retry.in_place_s
        self._retry_topic = topics.retry(spec.name)
        self._decoder = decoder
        self._scribe = scribe
        self._backlog = backlog
        self._later = later
        self._quotas = quotas_of(spec.batching, backlog.waiting_of)
        self._index = index
        self._hand_over = hand_over
        self.skew_s = 0.0  # how far the last record's timestamp lay ahead of this worker's clock
        self.retries = 0
        self.over_quota = 0
        self.claims: Claims | None = None  # set by who makes both; without it the decoder refuses references

    async def receive(self, records: Sequence[Record], ledger: PartitionLedger, lane: Lane) -> None:
        """Decode records of one partition; each becomes a request that waits, or an outcome."""
        now = Now(time.monotonic(), int(time.time() * 1000))
        if records:
            self.skew_s = skew_s(records[-1].timestamp, now.epoch_ms)
        works: list[Work] = []
        others: list[Referred | Rejected] = []
        place, one_kind = 0, False
        while place < len(records):
            decoded = self._decoded(records, place, ledger, lane, now)
            works += decoded.works
            works += [item for item in decoded.others if isinstance(item, Work)]
            others += [item for item in decoded.others if not isinstance(item, Work)]
            place += len(decoded.works) + len(decoded.others)
            one_kind = decoded.one_kind and len(decoded.works) == len(records)
        rejected = [self._scribe.rejected(item) for item in others if isinstance(item, Rejected)]
        if rejected:
            self._hand_over(rejected)
        if self.claims is not None:
            for each in others:
                if isinstance(each, Referred):
                    self.claims.add(each)
        await self.welcome(works, ledger, now, one_kind=one_kind)

    def _decoded(self, records: Sequence[Record], first: int, ledger: PartitionLedger, lane: Lane, now: Now) -> Decoded:
        try:
            return self._decoder.decode(records, first, ledger, lane, now)
        except Exception as err:  # noqa: BLE001 - the border to foreign bytes, which must not stop the worker
            if len(records) > 1:  # it may be the fault of one behind it: blame only one that is alone
                return self._decoded(records[first : first + 1], 0, ledger, lane, now)
            record, error = records[first], bug("decoding", self._model, err)
            source = Source(ledger, record.offset)
            return Decoded((), (self._decoder.refusals.unreadable(record, error, source, lane, now.monotonic),))

    async def welcome(self, works: list[Work], ledger: PartitionLedger, now: Now, *, one_kind: bool = False) -> None:
        """Let requests that can run wait for it, or for their time; answer those that an earlier run has answered.

        `one_kind`: they share lane, bucket and tenant.
        """
        if self._index is not None and works:
            works = await self._unanswered(works, self._index)
        if ledger.remembers:
            works = [_with_attempts(work, ledger) for work in works]
        if ledger.partition.topic == self._retry_topic:
            works = [work for work in works if not self._is_early(work, now)]
        if self._quotas is not None:
            works, refused = self._quotas.admit(works)
            self.over_quota += len(refused)
            self._hand_over([self._scribe.failed(work, error) for work, error in refused])
        self._backlog.add_all(works, one_kind=one_kind and not ledger.remembers)

    def _is_early(self, work: Work, now: Now) -> bool:
        """Whether a retry is not due yet; then it waits for its time."""
        due = due_of(work.record, now)
        if due is None or due <= now.monotonic:
            return False
        self._later.add(work, due)
        return True

    async def _unanswered(self, works: Sequence[Work], index: ReplyIndex) -> list[Work]:
        """Answer from the reply index what an earlier run has answered; the others."""
        found = await index.find(works)
        ours = [
            pair for pair in zip(works, found, strict=True) if pair[0].source.ledger.is_ours
        ]  # still, after the wait
        self._hand_over([self._scribe.remembered(work, stored.value) for work, stored in ours if stored is not None])
        return [work for work, stored in ours if stored is None]

    def postpone(self, postponed: Sequence[Postponed]) -> None:
        """Try requests again later: after a short pause in place, after a longer one by way of the retry topic."""
        now = Now(time.monotonic(), int(time.time() * 1000))
        moved: list[Outcome] = []
        self.retries += len(postponed)
        for work, delay_s, error in ((each.work, each.delay_s, each.error) for each in postponed):
            if delay_s <= self._in_place_s and not self._later.overfull:
                self._later.add(work, now.monotonic + delay_s)
            else:
                # `now` is rounded down: one more, so that it never runs before its time.
                due_ms = now.epoch_ms + math.ceil(delay_s * 1000) + 1
                moved.append(self._scribe.moved(work, error, retry_record(work, due_ms)))
        if moved:
            self._hand_over(moved)


def _with_attempts(work: Work, ledger: PartitionLedger) -> Work:
    """What an earlier owner of the partition has charged to the record, which then runs by itself."""
    deaths = ledger.attempts(work.source.offset)
    if deaths:
        work.deaths = deaths - ledger.is_trying(work.source.offset)  # one on trial is charged before it begins
        work.attempts = max(work.attempts, work.deaths)
        work.alone = True
    return work
