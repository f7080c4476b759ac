"""A record becomes a request that can run, or a rejection. One record's fault never raises."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from producer_sdk.alike import Kinds, Recalled
from producer_sdk.broker import Record
from producer_sdk.errors import (
    Cancelled,
    DeadlineExceeded,
    HeadraceError,
    InvalidRequest,
    PayloadTooLarge,
    UnknownModel,
)
from producer_sdk.payloads import Payloads
from producer_sdk.records import decode_record
from producer_sdk.tensors import Datatype
from producer_sdk.topics import Lane, Topics, derived_id
from producer_sdk.wire import Form, Refused, Request, Undecodable

from .clock_skew import sound_ms
from .commit import PartitionLedger
from .queue_policy import has_timeouts, priority_of
from .refusal import Refusals
from .retry_records import Origin, origin_of
from .runners.engine import Loaded, ModelSpec
from .shapes import Fit, Shapes
from .stored_inputs import inputs_in
from .work import Now as Now
from .work import Referred, Rejected, Source, Work


class KnownCancels(Protocol):
    """Which requests were cancelled; workers/cancels.py gathers them."""

    def __len__(self) -> int: ...

    def covers(self, id: str, published_ms: int) -> bool:
        """Whether the request of this id, published then (epoch milliseconds, -1 unknown), was cancelled."""
        ...


class Decoded(NamedTuple):
    """What neighbouring records hold; `one_kind`: the works share lane, bucket and tenant."""

    works: Sequence[Work]
    others: Sequence[Work | Referred | Rejected]
    one_kind: bool = False


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
        payloads: Payloads | None = None,
    ) -> None:
        self._payloads = payloads
        self._prefix = topics.prefix
        self._lanes = topics.lanes(spec.name)
        self._cancels = cancels
        self._allowance_ms = round(clock_skew_allowance_s * 1000)
        self._may_reply_to = lru_cache(maxsize=1024)(topics.may_reply_to)
        self.refusals = Refusals(self._may_reply_to, payloads)
        self._model = spec.name
        self._version = spec.version
        self._default_deadline_ms = None if spec.default_deadline_s is None else int(spec.default_deadline_s * 1000)
        self._fit = Shapes(loaded.signature.inputs, loaded.max_batch_size, spec.batching.cost).fit
        # Of these, shapes tell all that there is to know.
        self._fits_by_shape = all(
            each.batched and each.datatype not in (Datatype.BYTES, Datatype.BOOL) for each in loaded.signature.inputs
        )
        self._kinds: Kinds[Fit] = Kinds()  # whose requests pass the checks of the envelope
        self._batching = spec.batching
        self._is_ranked = has_timeouts(spec.batching) or spec.batching.priority_levels > 0
        self._outputs = frozenset(output.name for output in loaded.signature.outputs)

    def decode(self, records: Sequence[Record], first: int, ledger: PartitionLedger, lane: Lane, now: Now) -> Decoded:
        """What the first of these neighbours of one partition holds, and those behind it that are like some before.

        Requests are checked against the model's signature. One whose inputs are stored elsewhere is `Referred`;
        `fetched` goes on with it.

        A record of the retry topic has the lane, and its request the id and the deadline, of the original; `lane` is
        for those that somebody else wrote there.
        """
        record = records[first]
        if record.topic in self._lanes and (recalled := self._kinds.recall(records, first)).requests:
            neighbours = records[first : first + len(recalled.requests)]
            return self._accept_alike(recalled, neighbours, ledger, lane, now)
        return Decoded((), (self._in_full(record, Source(ledger, record.offset), lane, now),))

    def _in_full(self, record: Record, source: Source, lane: Lane, now: Now) -> Work | Referred | Rejected:
        value = record.value
        origin: Origin | Record = record  # one that was never moved is its own origin
        origin_ms, attempts = record.timestamp, 0
        if record.topic not in self._lanes:
            origin = origin_of(record)
            lane = self._lanes.get(origin.topic, lane)
            origin_ms, attempts = origin.timestamp_ms, origin.attempts
        fallback_id = derived_id(origin.topic, origin.partition, origin.offset)
        try:
            read = decode_record(value, origin.headers, fallback_id, sound_ms(origin_ms, now))
        except Undecodable as err:
            return self.refusals.unreadable(record, err, source, lane, now.monotonic)
        if type(read) is Refused:
            return self.refusals.of(read, record, source, lane, now.monotonic)
        assert isinstance(read, Request)
        item = self._accept(read, record, source, lane, now, origin_ms, attempts)
        plain = not record.headers and record.topic in self._lanes and read.form is Form.MSGPACK and read.store is None
        if plain and value is not None and type(item) is Work:
            fit = Fit(item.rows, item.nbytes, item.bucket, item.cost)
            self._kinds.learn(value, read, fit)
        return item

    def _accept_alike(
        self, recalled: Recalled[Fit], records: Sequence[Record], ledger: PartitionLedger, lane: Lane, now: Now
    ) -> Decoded:
        """As `_accept`, of requests of known kinds. In one pass where all pass: calls for each cost as much again."""
        requests, fits, one_kind = recalled
        looked_at = self._is_ranked or not self._fits_by_shape or (self._cancels is not None and len(self._cancels))
        expires = None if looked_at else self._expiries(requests, records, now)
        if expires is None:
            return Decoded((), [
                self._accept(request, record, Source(ledger, record.offset), lane, now, record.timestamp, 0, passed)
                for request, record, passed in zip(requests, records, fits, strict=True)
            ])  # fmt: skip
        arrived, allowance_s = now.monotonic, self._allowance_ms / 1000
        works = [
            Work(request, Source(ledger, record.offset), record, lane, fit.rows, fit.nbytes, fit.bucket, arrived, at,
                 0, False, b"", 0, fit.cost, 0, allowance_s)
            for request, record, at, fit in zip(requests, records, expires, fits, strict=False)
        ]  # fmt: skip
        return Decoded(works, (), one_kind)

    def _expiries(
        self, requests: Sequence[Request], records: Sequence[Record], now: Now
    ) -> Iterable[float | None] | None:
        """When each expires; None where one has expired."""
        default_ms = self._default_deadline_ms
        if default_ms is None and not [True for request in requests if request.deadline_ms is not None]:
            return repeat(None)
        deadlines = [
            sound_ms(record.timestamp, now) + default_ms
            if request.deadline_ms is None and default_ms is not None
            else request.deadline_ms
            for request, record in zip(requests, records, strict=True)
        ]
        arrived, now_ms = now.monotonic, now.epoch_ms - self._allowance_ms
        if min([deadline for deadline in deadlines if deadline is not None]) <= now_ms:
            return None
        return [None if deadline is None else arrived + (deadline - now_ms) / 1000 for deadline in deadlines]

    def _accept(
        self,
        request: Request,
        record: Record,
        source: Source,
        lane: Lane,
        now: Now,
        origin_ms: int,
        attempts: int,
        passed: Fit | None = None,
    ) -> Work | Referred | Rejected:
        """The request as work, unless a check fails that one of its kind has not `passed`."""
        expires, priority = None, 0
        try:
            if self._is_ranked:
                priority = priority_of(self._batching, request.parameters)
            if self._cancels is not None and len(self._cancels) and self._cancels.covers(request.id, origin_ms):
                raise Cancelled("the request was cancelled before it was read", id=request.id)
            if passed is None:
                self._check_envelope(request)
                fit = None if request.ref is not None else self._fit(request.inputs)
            else:
                fit = passed if self._fits_by_shape else self._fit(request.inputs)
            if request.deadline_ms is not None or self._default_deadline_ms is not None:
                expires = self._expires(request, origin_ms, now)
        except (InvalidRequest, UnknownModel, DeadlineExceeded, Cancelled) as err:
            refused = Refused(request.id, err, request.form, request.reply_to, request.store)
            return self.refusals.of(refused, record, source, lane, now.monotonic)
        if fit is None:
            return Referred(request, source, record, lane, now.monotonic, expires, attempts, origin_ms)
        return Work(
            request,
            source,
            record,
            lane,
            fit.rows,
            fit.nbytes,
            fit.bucket,
            now.monotonic,
            expires,
            attempts,
            False,
            b"",
            0,
            fit.cost,
            priority,
            self._allowance_ms / 1000,
        )

    def fetched(self, referred: Referred, data: bytes, now: Now) -> Work | Rejected:
        """The request with the inputs that `data`, the object it refers to, holds; or why it cannot run."""
        request, record, source = referred.request, referred.record, referred.source
        try:
            whole = replace(request, inputs=inputs_in(request, data), ref=None)
        except (InvalidRequest, PayloadTooLarge) as err:
            return self.unfetched(referred, err)
        item = self._accept(whole, record, source, referred.lane, now, referred.published_ms, referred.attempts)
        assert not isinstance(item, Referred), "its inputs are here"
        if isinstance(item, Work):
            item.arrived = referred.arrived
        return item

    def unfetched(self, referred: Referred, error: HeadraceError) -> Rejected:
        """The rejection of a request whose inputs could not be had."""
        request = referred.request
        refused = Refused(request.id, error, request.form, request.reply_to, request.store)
        return self.refusals.of(refused, referred.record, referred.source, referred.lane, referred.arrived)

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
            return self.refusals.unreadable(record, error, source, lane, arrived)
        return self.refusals.of(refused, record, source, lane, arrived)

    def _check_envelope(self, request: Request) -> None:
        if request.ref is not None or request.store is not None:
            self._check_stored(request)
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

    def _check_stored(self, request: Request) -> None:
        if self._payloads is None:
            what = "refers to stored inputs" if request.ref is not None else "wants its result in S3"
            raise InvalidRequest(f"the request {what}, but this worker has no bucket: set HEADRACE_S3_BUCKETS for it")
        if request.ref is not None:
            self._payloads.check_ref(request.ref)
        if request.store is not None:
            self._payloads.check_prefix(request.store)

    def _expires(self, request: Request, timestamp_ms: int, now: Now) -> float | None:
        deadline_ms = request.deadline_ms
        if deadline_ms is None:
            if self._default_deadline_ms is None:
                return None
            deadline_ms = sound_ms(timestamp_ms, now) + self._default_deadline_ms
        left_ms = deadline_ms + self._allowance_ms - now.epoch_ms
        if left_ms <= 0:
            late_s = (now.epoch_ms - deadline_ms) / 1000
            raise DeadlineExceeded(f"the deadline had passed {late_s:.3f} s before the request was read")
        return now.monotonic + left_ms / 1000
