"""What became of a request, written in the request's own form. Pure; publish.py sends it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from producer_sdk import dead_letters
from producer_sdk.broker import Outgoing, Record
from producer_sdk.errors import DeadlineExceeded, HeadraceError, Internal, PayloadTooLarge
from producer_sdk.oip import encode_json_error, encode_json_reply
from producer_sdk.topics import ReplyTo, Topics
from producer_sdk.wire import Form, encode_error

from .reply_pen import Cut, written
from .retry import Failure, Span
from .retry_records import origin_of
from .runners.engine import DEAD_LETTER_CODES
from .work import Answer, Batch, Outcome, Part, Rejected, Work

OK = "OK"
MOVED = "RETRY"  # not an outcome: the record waits on the retry topic
RECORD_OVERHEAD_BYTES = 512  # key, headers and framing of one record
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
    ) -> None:
        self._model = model
        self._version = version
        self._group = topics.group(model)
        self._results_address = ReplyTo(topics.results(model), None)
        self._dead = ReplyTo(topics.dead(model), None)
        self._retry = ReplyTo(topics.retry(model), None)
        self._max_value_bytes = max_record_bytes - RECORD_OVERHEAD_BYTES
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
        for alike in _neighbours_alike(works):
            rows, arrived, request = alike[0].rows, alike[0].arrived, alike[0].request
            queue_ms = round((started - arrived) * 1000, 3)
            told = {"batch_rows": batch_rows, "queue_ms": queue_ms, "run_ms": run_ms}
            wanted = cuts if request.outputs is None else [cut for cut in cuts if cut.block.name in request.outputs]
            ids = [work.request.id for work in alike]
            if request.form is Form.JSON:
                places = range(row, row + rows * len(alike), rows)
                values: Sequence[bytes | HeadraceError] = [
                    self._json(id, wanted, at, rows, told) for id, at in zip(ids, places, strict=True)
                ]
            else:
                values = written(ids, self._model, self._version, told, wanted, row, rows)
            outcomes += self._results(alike, values, now)
            row += rows * len(alike)
        return outcomes

    def _results(self, works: Sequence[Work], values: Sequence[bytes | HeadraceError], now: float) -> list[Outcome]:
        """The outcomes of requests whose results these are. In one pass: calls for each would cost as much again."""
        most, results, form = self._max_value_bytes, self._results_address, works[0].request.form
        return [
            Outcome(
                (request := work.request).id,
                OK,
                request.reply_to or results,
                _record(Outgoing, (request.id.encode(), value, (), None)),
                work.source,
                work.lane,
                work.arrived,
                form,
                None,
                work.fingerprint,
            )
            if type(value) is bytes and len(value) <= most and (work.expires is None or work.expires > now)
            else self._no_result(work, value, now)
            for work, value in zip(works, values, strict=True)
        ]

    def _no_result(self, work: Work, value: bytes | HeadraceError, now: float) -> Outcome:
        """The outcome of a request that is too late for this result, or that it is none."""
        if work.expires is not None and work.expires <= now:
            return self.failed(work, DeadlineExceeded("the deadline passed while the model ran"))
        return self.failed(work, value if isinstance(value, HeadraceError) else self._too_large(len(value)))

    def _json(
        self, id: str, cuts: Sequence[Cut], row: int, rows: int, told: Mapping[str, Any]
    ) -> bytes | HeadraceError:
        tensors = {cut.block.name: cut.tensor(row, rows) for cut in cuts}
        nbytes = sum(len(tensor.data) for tensor in tensors.values())
        # No JSON text is shorter than a quarter of the bytes; writing out what cannot be sent would hold up the loop.
        if nbytes // 4 > self._max_value_bytes:
            return self._too_large(nbytes)
        try:
            return encode_json_reply(id, self._model, self._version, tensors, told)
        except HeadraceError as err:  # the model gave names that no reply can hold
            return err

    def _outcome(self, work: Work, code: str, value: bytes, evidence: Outgoing | None = None) -> Outcome:
        request = work.request
        return Outcome(
            request.id,
            code,
            request.reply_to or self._results_address,
            Outgoing(request.id.encode(), value),
            work.source,
            work.lane,
            work.arrived,
            request.form,
            evidence,
        )

    def _too_large(self, nbytes: int) -> PayloadTooLarge:
        return PayloadTooLarge(
            f"the reply takes {nbytes} bytes, more than the {self._max_value_bytes} that a record may hold: ask for "
            "fewer rows or fewer outputs, or raise max_record_bytes here and on the broker"
        )

    def failed(self, work: Work, error: HeadraceError) -> Outcome:
        """The error reply to a request, with a dead letter where its code asks for one."""
        evidence = None
        if error.code in self._dead_letter_codes:
            evidence = self._dead_letter(work.record, error, max(1, work.attempts))
        return self._outcome(work, error.code, self._error_value(work.request.id, work.request.form, error), evidence)

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
        error, record, evidence = rejected.error, rejected.record, None
        assert record is not None  # the decoder passes it with each rejection
        if rejected.dead is not None:
            address, outgoing = self._dead, self._dead_letter(record, error)
        else:
            address = rejected.reply_to or self._results_address
            outgoing = Outgoing(rejected.id.encode(), self._error_value(rejected.id, rejected.form, error))
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
        return replace(
            outcome,
            code=error.code,
            address=self._results_address if elsewhere else outcome.address,
            outgoing=Outgoing(outcome.id.encode(), value),
        )

    def is_last_resort(self, topic: str) -> bool:
        """Whether what is for that topic can go nowhere else: it is sent until it is acknowledged."""
        return topic in (self._results_address.topic, self._dead.topic)

    def letter_of(self, outcome: Outcome) -> Outcome:
        """The evidence of an outcome as one to be published by itself, before its reply."""
        assert outcome.evidence is not None
        return replace(outcome, address=self._dead, outgoing=outcome.evidence, evidence=None)

    def _error_value(self, id: str, form: Form, error: HeadraceError) -> bytes:
        if form is Form.JSON:
            return encode_json_error(id, error)
        return encode_error(id, self._model, self._version, error)

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


def _neighbours_alike(works: Sequence[Work]) -> Iterable[Sequence[Work]]:
    """Neighbours whose results differ in id and in content alone; the records of one haul arrived together."""
    first, start = works[0], 0
    rows, arrived, form, outputs = first.rows, first.arrived, first.request.form, first.request.outputs
    for place, work in enumerate(works):
        request = work.request
        if work.arrived != arrived or work.rows != rows or request.form is not form or request.outputs != outputs:
            yield works[start:place]
            start, rows, arrived, form, outputs = place, work.rows, work.arrived, request.form, request.outputs
    yield works[start:]
