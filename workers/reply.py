"""What became of a request, written in the request's own form. Pure; publish.py sends it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from producer_sdk import dead_letters
from producer_sdk.broker import Headers, Outgoing, Record
from producer_sdk.cloudevents import retold
from producer_sdk.errors import Code, DeadlineExceeded, HeadraceError, Internal
from producer_sdk.forms import error_value, headers_of
from producer_sdk.topics import ReplyTo, Topics
from producer_sdk.wire import AnyForm, Form

from .reply_events import EventWriter, size_of
from .reply_pen import Cut, formed, neighbours_alike, too_large, written
from .retry import Failure, Span
from .retry_records import origin_of
from .runners.engine import DEAD_LETTER_CODES
from .store_rule import MAX_STORED_BYTES, RECORD_OVERHEAD_BYTES, StoreRule
from .work import OK, Answer, Batch, Outcome, Part, Rejected, Storing, Work

MOVED = "RETRY"  # not an outcome: the record waits on the retry topic
NOWHERE = StoreRule()
_record = tuple.__new__  # what calling a NamedTuple ends in, at half the cost


class Scribe:
    """Writes the outcomes of one model version. Pure.

    An error whose code is among `dead_letter_codes` leaves evidence: a dead letter beside the error reply.
    """

    def __init__(
        self,
        topics: Topics,
        model: str,
        version: str,
        max_record_bytes: int,
        dead_letter_codes: Collection[str] = DEAD_LETTER_CODES,
        store_rule: StoreRule = NOWHERE,
        *,
        as_events: bool = False,
    ) -> None:
        self._events = EventWriter(topics.prefix, model, always=as_events)
        self._model = model
        self._version = version
        self._group = topics.group(model)
        self._results_address = ReplyTo(topics.results(model), None)
        self._dead = ReplyTo(topics.dead(model), None)
        self._retry = ReplyTo(topics.retry(model), None)
        self._max_value_bytes = max_record_bytes - RECORD_OVERHEAD_BYTES
        self._store_rule = store_rule
        self._most_bytes = MAX_STORED_BYTES if store_rule.can_store else self._max_value_bytes
        # Results up to here are published as they are, and without headers.
        self._plain_bytes = -1 if as_events else store_rule.plain_bytes(self._max_value_bytes)
        self._dead_letter_codes = frozenset(dead_letter_codes)

    def answered(
        self, batch: Batch, span: Span, answer: Answer, started: float, now: float
    ) -> tuple[list[Outcome], list[Failure]]:
        """What came of a run that covered these records of the batch and did not fail as a whole.

        Records that failed by themselves come as failures: they may be tried again.

        Raises:
            Internal: the answer does not cover them, so that nobody knows whose it is.
        """
        outcomes: list[Outcome] = []
        failures: list[Failure] = []
        run_ms = round(answer.run_s * 1000, 3)
        place = span.first
        for part in answer.parts:
            works = batch.works[place : place + part.records]
            place += part.records
            if part.error is not None:
                failures += [Failure(work, part.error) for work in works]
            else:
                outcomes += self._results_of(works, part, batch.rows, run_ms, started, now)
        if place != span.last:
            raise Internal(f"the runner answered {place - span.first} of {len(span)} records")
        return outcomes, failures

    def _results_of(
        self, works: Sequence[Work], part: Part, batch_rows: int, run_ms: float, started: float, now: float
    ) -> list[Outcome]:
        cuts = [Cut(block, part.rows) for block in part.blocks]
        outcomes: list[Outcome] = []
        row = 0
        for alike in neighbours_alike(works):
            rows, arrived, request = alike[0].rows, alike[0].arrived, alike[0].request
            queue_ms = round((started - arrived) * 1000, 3)
            told = {"batch_rows": batch_rows, "queue_ms": queue_ms, "run_ms": run_ms}
            wanted = cuts if request.outputs is None else [cut for cut in cuts if cut.block.name in request.outputs]
            keys = [work.request.id.encode() for work in alike]
            if request.form is Form.MSGPACK:
                values = written(keys, self._model, self._version, told, wanted, row, rows)
            else:
                places = range(row, row + rows * len(alike), rows)
                values = [
                    formed(request.form, work.request.id, self._model, self._version, told, wanted, at, rows,
                           record_bytes=self._max_value_bytes, most_bytes=self._most_bytes)
                    for work, at in zip(alike, places, strict=True)
                ]  # fmt: skip
            outcomes += self._results(alike, keys, values, now, told)
            row += rows * len(alike)
        return outcomes

    def _results(
        self,
        works: Sequence[Work],
        keys: Sequence[bytes],
        values: Sequence[bytes | HeadraceError],
        now: float,
        told: Mapping[str, Any],
    ) -> list[Outcome]:
        """The outcomes of requests whose results these are. In one pass: calls for each would cost as much again."""
        most, results, form = self._plain_bytes, self._results_address, works[0].request.form
        return [
            Outcome(
                (request := work.request).id,
                OK,
                request.reply_to or results,
                _record(Outgoing, (key, value, (), None)),
                work.source,
                work.lane,
                work.arrived,
                form,
                None,
                work.fingerprint,
            )
            if type(value) is bytes
            and len(value) <= most
            and (work.expires is None or work.expires > now)
            and not work.record.headers
            and work.request.store is None
            else self._result(work, value, now, told)
            for work, key, value in zip(works, keys, values, strict=True)
        ]

    def _result(self, work: Work, value: bytes | HeadraceError, now: float, told: Mapping[str, Any]) -> Outcome:
        """The outcome of a request that is too late for this result, or that it is none or no plain one."""
        if work.expires is not None and work.expires <= now:
            return self.failed(work, DeadlineExceeded("the deadline passed while the model ran"))
        if isinstance(value, HeadraceError):
            return self.failed(work, value)
        headers = self._headers(work.record, work.request.id, work.request.form, OK)
        nbytes = len(value) + size_of(headers)
        storing = None if nbytes > self._most_bytes else self._storing(work, nbytes, told)
        if storing is not None and Code.INTERNAL in self._dead_letter_codes:
            lost = Internal("its result could not be stored")
            storing = replace(storing, evidence=self._dead_letter(work.record, lost, max(1, work.attempts)))
        if nbytes > self._max_value_bytes and storing is None:
            most = self._max_value_bytes if nbytes <= self._most_bytes else self._most_bytes
            return self.failed(work, too_large(nbytes, most))
        return self._outcome(work, OK, value, headers=headers, fingerprint=work.fingerprint, storing=storing)

    def _storing(
        self, work: Work, nbytes: int, told: Mapping[str, Any], error: HeadraceError | None = None
    ) -> Storing | None:
        if not self._store_rule.can_store:
            return None
        request = work.request
        return self._store_rule.of(
            request.store, request.reply_to, request.id, request.form, nbytes, work.expires, told, error
        )

    def _outcome(
        self,
        work: Work,
        code: str,
        value: bytes,
        evidence: Outgoing | None = None,
        fingerprint: bytes = b"",
        storing: Storing | None = None,
        headers: Headers | None = None,
    ) -> Outcome:
        request = work.request
        if headers is None:
            headers = self._headers(work.record, request.id, request.form, code)
        return Outcome(
            request.id,
            code,
            request.reply_to or self._results_address,
            Outgoing(request.id.encode(), value, headers),
            work.source,
            work.lane,
            work.arrived,
            request.form,
            evidence,
            fingerprint,
            None,
            storing,
        )

    def _headers(self, record: Record, id: str, form: AnyForm, code: str) -> Headers:
        return self._events.headers(record, id, form, is_error=code != OK)

    def failed(self, work: Work, error: HeadraceError) -> Outcome:
        """The error reply to a request, with a dead letter where its code asks for one."""
        evidence = None
        if error.code in self._dead_letter_codes:
            evidence = self._dead_letter(work.record, error, max(1, work.attempts))
        value = self._error_value(work.request.id, work.request.form, error)
        return self._outcome(work, error.code, value, evidence, storing=self._storing(work, len(value), {}, error))

    def remembered(self, work: Work, value: bytes) -> Outcome:
        """The result that an earlier run gave."""
        return self._outcome(work, OK, value)

    def moved(self, work: Work, error: HeadraceError, record: Outgoing) -> Outcome:
        """A request on its way to the retry topic: not an outcome, but its offset is finished by it."""
        return replace(
            self._outcome(work, MOVED, b""), address=self._retry, outgoing=record, otherwise=self.failed(work, error)
        )

    def rejected(self, rejected: Rejected) -> Outcome:
        """The error reply to a record that cannot run, or its dead letter when nobody can be told."""
        error, record, evidence, storing = rejected.error, rejected.record, None, None
        assert record is not None  # the decoder passes it with each rejection
        if rejected.dead is not None:
            address, outgoing = self._dead, self._dead_letter(record, error)
        else:
            address = rejected.reply_to or self._results_address
            headers = self._headers(record, rejected.id, rejected.form, error.code)
            outgoing = Outgoing(rejected.id.encode(), self._error_value(rejected.id, rejected.form, error), headers)
            storing = self._store_rule.of(
                rejected.store, rejected.reply_to, rejected.id, rejected.form, 0, None, {}, error
            )
            if error.code in self._dead_letter_codes:
                evidence = self._dead_letter(record, error)
        return Outcome(
            rejected.id,
            error.code,
            address,
            outgoing,
            rejected.source,
            rejected.lane,
            rejected.arrived,
            rejected.form,
            evidence,
            storing=storing,
        )

    def instead(self, outcome: Outcome, error: HeadraceError, *, elsewhere: bool = False) -> Outcome:
        """What is sent in place of an outcome that cannot be: an error reply, or as much of a dead letter as fits.

        `elsewhere` sends an error reply to the results topic.
        """
        if outcome.address == self._dead and not elsewhere:
            return replace(outcome, outgoing=dead_letters.shortened(outcome.outgoing))
        if outcome.otherwise is not None:
            return outcome.otherwise
        value = self._error_value(outcome.id, outcome.form, error)
        is_letter = outcome.address == self._dead
        headers = headers_of(outcome.form) if is_letter else retold(outcome.outgoing.headers, is_error=True)
        return replace(
            outcome,
            code=error.code,
            address=self._results_address if elsewhere else outcome.address,
            outgoing=Outgoing(outcome.id.encode(), value, headers),
        )

    def is_last_resort(self, topic: str) -> bool:
        """Whether what is for that topic can go nowhere else: it is sent until it is acknowledged."""
        return topic in (self._results_address.topic, self._dead.topic)

    def letter_of(self, outcome: Outcome) -> Outcome:
        """The evidence of an outcome as one to be published by itself, before its reply."""
        assert outcome.evidence is not None
        return replace(outcome, address=self._dead, outgoing=outcome.evidence, evidence=None, storing=None)

    def _error_value(self, id: str, form: AnyForm, error: HeadraceError) -> bytes:
        return error_value(form, id, self._model, self._version, error)

    def _dead_letter(self, record: Record, error: HeadraceError, attempts: int | None = None) -> Outgoing:
        """The record with the facts of its end; one of the retry topic goes by where it was published first."""
        origin = origin_of(record)
        facts = dead_letters.Facts(
            origin.topic,
            origin.partition,
            origin.offset,
            origin.timestamp_ms,
            self._group,
            origin.attempts if attempts is None else attempts,
            error.code,
            error.message,
        )
        return Outgoing(record.key, record.value, dead_letters.headers(facts, origin.headers))
