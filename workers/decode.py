"""A record becomes a request that can run, or a rejection. One record's fault never raises."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from producer_sdk.broker import Outgoing, Record
from producer_sdk.errors import Cancelled, DeadlineExceeded, HeadraceError, InvalidRequest, UnknownModel
from producer_sdk.records import decode_record
from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.topics import Lane, Topics, derived_id
from producer_sdk.wire import Refused, Request, Undecodable

from .commit import PartitionLedger
from .retry_records import Origin, origin_of
from .runners.engine import Loaded, ModelSpec, TensorSpec
from .work import Now as Now
from .work import Rejected, Source, Work


class KnownCancels(Protocol):
    """Which requests were cancelled; workers/cancels.py gathers them."""

    def __len__(self) -> int: ...

    def covers(self, id: str, published_ms: int) -> bool:
        """Whether the request of this id, published then (epoch milliseconds, -1 unknown), was cancelled."""
        ...


class _Fit(Struct, frozen=True, gc=False):
    """What the inputs of a request amount to."""

    rows: int
    nbytes: int
    bucket: object


class Decoder:
    """Reads the records of one model: of its lanes, and of its retry topic. Pure but for its arguments.

    A deadline counts as passed `clock_skew_allowance_s` later than it says, here and in `Work.expires`: who set it may
    have another clock.
    """

    def __init__(
        self,
        topics: Topics,
        spec: ModelSpec,
        loaded: Loaded,
        *,
        clock_skew_allowance_s: float = 0.0,
        cancels: KnownCancels | None = None,
    ) -> None:
        self._prefix = topics.prefix
        self._lanes = topics.lanes(spec.name)
        self._cancels = cancels
        self._allowance_ms = round(clock_skew_allowance_s * 1000)
        self._may_reply_to = lru_cache(maxsize=1024)(topics.may_reply_to)
        self._model = spec.name
        self._version = spec.version
        self._default_deadline_ms = None if spec.default_deadline_s is None else int(spec.default_deadline_s * 1000)
        self._max_rows = loaded.max_batch_size
        self._inputs = loaded.signature.inputs
        self._outputs = frozenset(output.name for output in loaded.signature.outputs)
        self._varies = any(-1 in spec.shape or not spec.batched for spec in self._inputs)

    def decode(self, record: Record, source: Source, lane: Lane, now: Now) -> Work | Rejected:
        """The request that a record holds, checked against the model's signature, or why it cannot run.

        A record of the retry topic has the lane, and its request the id and the deadline, of the original; `lane` is
        for those that somebody else wrote there.
        """
        origin: Origin | Record = record  # one that was never moved is its own origin
        origin_ms, attempts = record.timestamp, 0
        if record.topic not in self._lanes:
            origin = origin_of(record)
            lane = self._lanes.get(origin.topic, lane)
            origin_ms, attempts = origin.timestamp_ms, origin.attempts
        fallback_id = derived_id(origin.topic, origin.partition, origin.offset)
        timestamp_ms = origin_ms
        # Kafka's -1: the producer gave none. One ahead of this clock would lengthen a relative deadline.
        if not 0 <= timestamp_ms <= now.epoch_ms:
            timestamp_ms = now.epoch_ms
        try:
            request = decode_record(record.value, origin.headers, fallback_id, timestamp_ms)
        except Undecodable as err:
            return self.unreadable(record, err, source, lane, now)
        if type(request) is Refused:
            return self._refuse(request, record, source, lane, now.monotonic)
        assert isinstance(request, Request)
        try:
            self._check_cancelled(request.id, origin_ms)
            self._check_envelope(request)
            fit = self._fit(request.inputs)
            expires = self._expires(request, timestamp_ms, now)
        except (InvalidRequest, UnknownModel, DeadlineExceeded, Cancelled) as err:
            refused = Refused(request.id, err, request.form, request.reply_to)
            return self._refuse(refused, record, source, lane, now.monotonic)
        return Work(request, source, record, lane, fit.rows, fit.nbytes, fit.bucket, now.monotonic, expires, attempts)

    def unreadable(self, record: Record, error: HeadraceError, source: Source, lane: Lane, now: Now) -> Rejected:
        """The rejection of a record whose return address cannot be read: it becomes a dead letter."""
        return self._nobody_told(record, error, source, lane, now.monotonic)

    def given_up(
        self,
        record: Record,
        ledger: PartitionLedger,
        refused: Refused | None,
        error: HeadraceError,
        lane: Lane,
        arrived: float,
    ) -> Rejected:
        """The rejection of a record that must not be read in this process; `refused` None: nobody can be told."""
        source, lane = Source(ledger, record.offset), self._lanes.get(origin_of(record).topic, lane)
        if refused is None:
            return self._nobody_told(record, error, source, lane, arrived)
        return self._refuse(refused, record, source, lane, arrived)

    def _nobody_told(
        self, record: Record, error: HeadraceError, source: Source, lane: Lane, arrived: float
    ) -> Rejected:
        origin = origin_of(record)
        id = derived_id(origin.topic, origin.partition, origin.offset)
        dead = Outgoing(record.key, record.value, record.headers, record.timestamp)
        return Rejected(id, error, source, lane, arrived, dead=dead, record=record)

    def _refuse(self, refused: Refused, record: Record, source: Source, lane: Lane, arrived: float) -> Rejected:
        reply_to, error = refused.reply_to, refused.error
        if reply_to is not None and not self._may_reply_to(reply_to.topic):
            reply_to = None
        return Rejected(refused.id, error, source, lane, arrived, refused.form, reply_to, record=record)

    def _check_cancelled(self, id: str, published_ms: int) -> None:
        cancels = self._cancels
        if cancels is not None and len(cancels) and cancels.covers(id, published_ms):
            raise Cancelled("the request was cancelled before it was read", id=id)

    def _check_envelope(self, request: Request) -> None:
        if request.reply_to is not None and not self._may_reply_to(request.reply_to.topic):
            raise InvalidRequest(
                f"reply_to {str(request.reply_to)!r} is not allowed: replies go to topics under "
                f"'{self._prefix}.' that headrace does not read itself"
            )
        if request.version is not None and request.version != self._version:
            raise UnknownModel(
                f"version {request.version!r} of model {self._model!r} is not served: version {self._version} is"
            )
        for name in request.outputs or ():
            if name not in self._outputs:
                raise InvalidRequest(f"model {self._model!r} has no output {name!r}: it has {sorted(self._outputs)}")

    def _expires(self, request: Request, timestamp_ms: int, now: Now) -> float | None:
        deadline_ms = request.deadline_ms
        if deadline_ms is None:
            if self._default_deadline_ms is None:
                return None
            deadline_ms = timestamp_ms + self._default_deadline_ms
        left_ms = deadline_ms + self._allowance_ms - now.epoch_ms
        if left_ms <= 0:
            late_s = (now.epoch_ms - deadline_ms) / 1000
            raise DeadlineExceeded(f"the deadline had passed {late_s:.3f} s before the request was read")
        return now.monotonic + left_ms / 1000

    def _fit(self, inputs: Mapping[str, Tensor]) -> _Fit:
        """Rows and bucket of inputs that fit the signature.

        Raises:
            InvalidRequest: naming the input and what is wrong with it.
        """
        rows = nbytes = 0
        for spec in self._inputs:
            tensor = inputs.get(spec.name)
            if tensor is None:
                raise InvalidRequest(f"input {spec.name!r} is missing: the model takes {self._names()}")
            shape = tensor.shape
            nbytes += len(tensor.data)
            if tensor.datatype is not spec.datatype or (shape[1:] if spec.batched else shape) != spec.shape:
                _check_tensor(spec, tensor)
            if spec.batched:
                if not shape:  # equal to the row's shape above where that has no dimension either
                    _check_tensor(spec, tensor)
                if rows and shape[0] != rows:
                    raise InvalidRequest(f"input {spec.name!r} has {shape[0]} rows, but another input has {rows}")
                rows = shape[0]
                if not 0 < rows <= self._max_rows:
                    raise InvalidRequest(f"input {spec.name!r} has {rows} rows: a record holds 1 to {self._max_rows}")
            if spec.datatype is Datatype.BYTES or spec.datatype is Datatype.BOOL:
                _check_content(spec, tensor)
        if len(inputs) != len(self._inputs):
            unknown = sorted(set(inputs) - {spec.name for spec in self._inputs})
            raise InvalidRequest(f"input {unknown[0][:80]!r} is not known: the model takes {self._names()}")
        return _Fit(rows or 1, nbytes, self._bucket(inputs) if self._varies else ())

    def _bucket(self, inputs: Mapping[str, Tensor]) -> object:
        return tuple(
            inputs[spec.name].shape[1:] if spec.batched else (inputs[spec.name].shape, bytes(inputs[spec.name].data))
            for spec in self._inputs
        )

    def _names(self) -> str:
        return ", ".join(f"{spec.name} {spec.datatype} {_shape_text(spec)}" for spec in self._inputs)


def skew_s(record_timestamp_ms: int, now_ms: int) -> float:
    """How far a record's timestamp lies ahead of this clock; 0 where it does not."""
    return max(0, record_timestamp_ms - now_ms) / 1000


def _shape_text(spec: TensorSpec) -> str:
    return str([*(["rows"] if spec.batched else []), *spec.shape]).replace("'", "")


def _check_tensor(spec: TensorSpec, tensor: Tensor) -> None:
    if tensor.datatype != spec.datatype:
        raise InvalidRequest(f"input {spec.name!r} is {tensor.datatype}, but the model takes {spec.datatype}")
    expected = (-1, *spec.shape) if spec.batched else spec.shape
    fits = len(tensor.shape) == len(expected) and all(
        want in (-1, got) for want, got in zip(expected, tensor.shape, strict=True)
    )
    if not fits:
        raise InvalidRequest(
            f"input {spec.name!r} has shape {list(tensor.shape)}, but the model takes {_shape_text(spec)}"
            + (" (-1 is any size)" if -1 in spec.shape else "")
        )


def _check_content(spec: TensorSpec, tensor: Tensor) -> None:
    try:
        tensor.check_content()
    except InvalidRequest as err:
        raise InvalidRequest(f"input {spec.name!r}: {err}") from err
