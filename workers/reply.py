"""What became of a request, written in the request's own form. Pure; publish.py sends it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Raw
from msgspec.msgpack import Ext, encode
from msgspec.structs import replace

from producer_sdk.broker import Outgoing
from producer_sdk.errors import DeadlineExceeded, HeadraceError, Internal, PayloadTooLarge
from producer_sdk.oip import encode_json_error, encode_json_reply
from producer_sdk.tensors import Tensor, tensor_ext
from producer_sdk.topics import ReplyTo, Topics
from producer_sdk.wire import Form, encode_error, encode_reply, sendable

from .retry import Span
from .work import Answer, Batch, Block, Outcome, Part, Rejected, Work

OK = "OK"
RECORD_OVERHEAD_BYTES = 512  # key, headers and framing of one record
MAX_MESSAGE_CHARS = 1000
KEPT_BYTES = 1024  # of the value, and of a key, of a dead letter that is itself too large
_DEAD_PREFIX = "headrace-dead-"
_CUT_HEADER = f"{_DEAD_PREFIX}cut-from-bytes"


class Scribe:
    """Writes the outcomes of one model version. Pure."""

    def __init__(self, topics: Topics, model: str, version: str, max_record_bytes: int) -> None:
        self._model = model
        self._version = version
        self._group = topics.group(model)
        self._results = ReplyTo(topics.results(model), None)
        self._dead = ReplyTo(topics.dead(model), None)
        self._max_value_bytes = max_record_bytes - RECORD_OVERHEAD_BYTES

    def answered(self, batch: Batch, span: Span, answer: Answer, started: float, now: float) -> list[Outcome]:
        """The outcomes of a run that covered these records of the batch and did not fail as a whole.

        Raises:
            Internal: the answer does not cover them, so that nobody knows whose it is.
        """
        outcomes: list[Outcome] = []
        run_ms = round(answer.run_s * 1000, 3)
        place = span.first
        for part in answer.parts:
            works = batch.works[place : place + part.records]
            place += part.records
            if part.error is not None:
                outcomes += [self.failed(work, part.error) for work in works]
            else:
                outcomes += self._results_of(works, part, batch.rows, run_ms, started, now)
        if place != span.last:
            raise Internal(f"the runner answered {place - span.first} of {len(span)} records")
        return outcomes

    def _results_of(
        self, works: Sequence[Work], part: Part, batch_rows: int, run_ms: float, started: float, now: float
    ) -> Iterable[Outcome]:
        cuts = [_Cut(block, part.rows) for block in part.blocks]
        row, arrived, told = 0, -1.0, _Told({})
        for work in works:
            if work.expires is not None and work.expires <= now:
                yield self.failed(work, DeadlineExceeded("the deadline passed while the model ran"))
            else:
                if work.arrived != arrived:  # the records of one haul arrived together
                    arrived = work.arrived
                    queue_ms = round((started - arrived) * 1000, 3)
                    told = _Told({"batch_rows": batch_rows, "queue_ms": queue_ms, "run_ms": run_ms})
                yield self._result(work, cuts, row, told)
            row += work.rows

    def _result(self, work: Work, cuts: Sequence[_Cut], row: int, told: _Told) -> Outcome:
        request = work.request
        if request.outputs is not None:
            cuts = [cut for cut in cuts if cut.block.name in request.outputs]
        try:
            if request.form is Form.JSON:
                value = self._json(request.id, {cut.block.name: cut.tensor(row, work.rows) for cut in cuts}, told)
            else:
                exts = {cut.block.name: cut.ext(row, work.rows) for cut in cuts}
                value = encode_reply(request.id, self._model, self._version, exts, told.encoded)
            if len(value) > self._max_value_bytes:
                raise self._too_large(len(value))
        except HeadraceError as err:  # too large, or the model gave names that no reply can hold
            return self.failed(work, err)
        return self._outcome(work, OK, value)

    def _json(self, id: str, tensors: Mapping[str, Tensor], told: _Told) -> bytes:
        nbytes = sum(len(tensor.data) for tensor in tensors.values())
        # No JSON text is shorter than a quarter of the bytes; writing out what cannot be sent would hold up the loop.
        if nbytes // 4 > self._max_value_bytes:
            raise self._too_large(nbytes)
        return encode_json_reply(id, self._model, self._version, tensors, told.parameters)

    def _outcome(self, work: Work, code: str, value: bytes) -> Outcome:
        request = work.request
        address = request.reply_to or self._results
        outgoing = Outgoing(request.id.encode(), value)
        return Outcome(request.id, code, address, outgoing, work.source, work.lane, work.arrived, request.form)

    def _too_large(self, nbytes: int) -> PayloadTooLarge:
        return PayloadTooLarge(
            f"the reply takes {nbytes} bytes, more than the {self._max_value_bytes} that a record may hold: ask for "
            "fewer rows or fewer outputs, or raise max_record_bytes here and on the broker"
        )

    def failed(self, work: Work, error: HeadraceError) -> Outcome:
        """The error reply to a request."""
        return self._outcome(work, error.code, self._error_value(work.request.id, work.request.form, error))

    def rejected(self, rejected: Rejected) -> Outcome:
        """The error reply to a record that cannot run, or its dead letter when nobody can be told."""
        if rejected.dead is not None:
            address, outgoing = self._dead, self._dead_letter(rejected, rejected.dead)
        else:
            address = rejected.reply_to or self._results
            outgoing = Outgoing(rejected.id.encode(), self._error_value(rejected.id, rejected.form, rejected.error))
        return Outcome(
            rejected.id,
            rejected.error.code,
            address,
            outgoing,
            rejected.source,
            rejected.lane,
            rejected.arrived,
            rejected.form,
        )

    def instead(self, outcome: Outcome, error: HeadraceError, *, elsewhere: bool = False) -> Outcome:
        """What is sent in place of an outcome that cannot be: an error reply, or as much of a dead letter as fits.

        `elsewhere` sends an error reply to the results topic.
        """
        if outcome.address == self._dead and not elsewhere:
            return replace(outcome, outgoing=_shortened(outcome.outgoing))
        value = self._error_value(outcome.id, outcome.form, error)
        return replace(
            outcome,
            code=error.code,
            address=self._results if elsewhere else outcome.address,
            outgoing=Outgoing(outcome.id.encode(), value),
        )

    def is_last_resort(self, topic: str) -> bool:
        """Whether outcomes that cannot be sent elsewhere end there."""
        return topic == self._results.topic

    def _error_value(self, id: str, form: Form, error: HeadraceError) -> bytes:
        if form is Form.JSON:
            return encode_json_error(id, error)
        return encode_error(id, self._model, self._version, error)

    def _dead_letter(self, rejected: Rejected, original: Outgoing) -> Outgoing:
        partition = rejected.source.ledger.partition
        facts = {
            "topic": partition.topic,
            "partition": str(partition.partition),
            "offset": str(rejected.source.offset),
            "timestamp": str(original.timestamp_ms),
            "group": self._group,
            "code": rejected.error.code,
            "message": sendable(rejected.error.message[:MAX_MESSAGE_CHARS]),
        }
        kept = [(name, value) for name, value in original.headers if not name.startswith(_DEAD_PREFIX)]
        ours = [(_DEAD_PREFIX + name, text.encode()) for name, text in facts.items()]
        return Outgoing(original.key, original.value, [*kept, *ours])


def _shortened(letter: Outgoing) -> Outgoing:
    """A dead letter that the broker finds too large: its facts, a short key and the first bytes, and what it was."""
    key, value = letter.key, letter.value or b""
    facts = [(name, text) for name, text in letter.headers if name.startswith(_DEAD_PREFIX)]
    kept_key = key if key is not None and len(key) <= KEPT_BYTES else None
    return Outgoing(kept_key, value[:KEPT_BYTES], [*facts, (_CUT_HEADER, str(len(value)).encode())])


class _Told:
    """What a reply says of its batch, as a mapping and as MessagePack: written once for all records of a haul."""

    __slots__ = ("encoded", "parameters")

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self.parameters = parameters
        self.encoded = Raw(encode(parameters))


class _Cut:
    """Cuts one record's rows out of a block."""

    __slots__ = ("_row_bytes", "_view", "block")

    def __init__(self, block: Block, rows: int) -> None:
        self.block = block
        self._view = memoryview(block.data)
        self._row_bytes = len(self._view) // rows if rows else 0

    def tensor(self, first: int, rows: int) -> Tensor:
        return Tensor(self.block.datatype, self._shape(rows), self._data(first, rows))

    def ext(self, first: int, rows: int) -> Ext:
        return tensor_ext(self.block.datatype, self._shape(rows), self._data(first, rows))

    def _shape(self, rows: int) -> tuple[int, ...]:
        return (rows, *self.block.shape) if self.block.batched else self.block.shape

    def _data(self, first: int, rows: int) -> memoryview:
        if not self.block.batched:
            return self._view
        ends = self.block.row_ends
        if ends:
            return self._view[ends[first - 1] if first else 0 : ends[first + rows - 1]]
        return self._view[first * self._row_bytes : (first + rows) * self._row_bytes]
