"""The nouns that travel through the worker."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from producer_sdk.broker import Outgoing, Record
from producer_sdk.dataref import S3Key, S3Prefix
from producer_sdk.errors import HeadraceError
from producer_sdk.tensors import Buffer, Datatype
from producer_sdk.topics import Lane, ReplyTo
from producer_sdk.wire import AnyForm, Form, Request

from .commit import PartitionLedger

OK = "OK"  # the code of an outcome that is no error


class Now(Struct, frozen=True, gc=False):
    """The two clocks at one moment: monotonic seconds, and epoch milliseconds."""

    monotonic: float
    epoch_ms: int


class Source(Struct, frozen=True, gc=False):
    """The record that a request came from, and the ledger that its offset is marked done in."""

    ledger: PartitionLedger
    offset: int


class Work(Struct, eq=False, gc=False):
    """A valid request on its way. `attempts`, `alone` and `fingerprint` change on it; so do `bucket`, `nbytes` and
    `cost` where it rides in a batch of a larger bucket (workers/nearest.py).

    Attributes:
        record: what it was read from, kept for dead letters and retries.
        bucket: only requests of one bucket can share a batch.
        arrived, expires: monotonic seconds; `expires` None never does.
        attempts: failed attempts so far, deaths and transient failures.
        deaths: those that ended a runner, or the worker, while it was in flight.
        cost: what the model declares a request to cost; its rows where it declares nothing.
        priority: 1 is served first; 0 where the model has no levels.
        allowance_s: how much later than its deadline it `expires`, for who set the deadline may have another clock.
        alone: it has to run by itself, since it may be what kills the process that runs it.
        fingerprint: of its inputs, once somebody needed it; else empty.
    """

    request: Request
    source: Source
    record: Record
    lane: Lane
    rows: int
    nbytes: int
    bucket: object
    arrived: float
    expires: float | None
    attempts: int = 0
    alone: bool = False
    fingerprint: bytes = b""
    deaths: int = 0
    cost: float = 1.0
    priority: int = 0
    allowance_s: float = 0.0

    @property
    def due(self) -> float:
        """When its answer is wanted, monotonic seconds; infinite without a deadline.

        That is its deadline; but where that lay in the past when it arrived, the clocks differ, and `expires` counts.
        """
        if self.expires is None:
            return math.inf
        deadline = self.expires - self.allowance_s
        return deadline if deadline > self.arrived else self.expires


class Referred(Struct, frozen=True):
    """A valid envelope whose inputs are stored elsewhere: it can run once they are fetched.

    Attributes:
        published_ms: timestamp of its record, epoch milliseconds, -1 unknown.
        others as for `Work`.
    """

    request: Request
    source: Source
    record: Record
    lane: Lane
    arrived: float
    expires: float | None
    attempts: int
    published_ms: int


class Rejected(Struct, frozen=True):
    """A record that will not run: who is told, and why.

    Attributes:
        dead: the record, where its return address is unreadable: the dead letter is all that is left of it.
        record: what it was read from, for the dead letter beside an error reply.
        store: where its outcome is to be stored; None is nowhere.
    """

    id: str
    error: HeadraceError
    source: Source
    lane: Lane
    arrived: float
    form: AnyForm = Form.MSGPACK
    reply_to: ReplyTo | None = None
    dead: Outgoing | None = None
    record: Record | None = None
    store: S3Prefix | None = None


class Storing(Struct, frozen=True, gc=False):
    """How a reply is to be stored, before the pointer to it is published.

    Attributes:
        place: bucket and key that the caller or the model wants; None: a claim check, for it is too large for a record.
        parameters: what the pointer says beside the place.
        expires: monotonic seconds after which nobody waits for it; None never.
        error: what the reply says, where it is an error.
        evidence: the dead letter of a result that cannot be stored.
    """

    place: S3Key | None
    parameters: Mapping[str, Any]
    expires: float | None
    error: HeadraceError | None = None
    evidence: Outgoing | None = None


class Outcome(Struct, frozen=True, gc=False):
    """A reply, error reply or dead letter ready to be published; its source is finished once that is acknowledged.

    Attributes:
        code: `OK` or the error code, for counting.
        address: where it goes; partition None lets the replier choose.
        evidence: a dead letter beside the reply, acknowledged before it; None for most.
        fingerprint: of the request's inputs where the reply index wants it; else empty.
        otherwise: for a record on its way to the retry topic: the error reply, should it not be accepted there.
        storing: the whole reply is to be stored first, and what is published then points to it; None for most.
    """

    id: str
    code: str
    address: ReplyTo
    outgoing: Outgoing
    source: Source
    lane: Lane
    arrived: float
    form: AnyForm
    evidence: Outgoing | None = None
    fingerprint: bytes = b""
    otherwise: Outcome | None = None
    storing: Storing | None = None


class Batch(Struct, frozen=True, gc=False):
    """Requests that run together, in order, with their sums."""

    works: tuple[Work, ...]
    rows: int
    cost: float

    @staticmethod
    def of(works: Iterable[Work]) -> Batch:
        """The batch of these, with their sums as they are now."""
        works = tuple(works)
        return Batch(works, sum([work.rows for work in works]), sum([work.cost for work in works]))


class Block(Struct, frozen=True, gc=False):
    """One output of several records, rows stacked; a view that lasts until the slot's next run.

    Attributes:
        name: output name.
        datatype: its datatype.
        shape: without the row axis.
        data: all rows' bytes, row after row.
        row_ends: for BYTES, where each row's bytes end within `data`; else empty, rows are equally long.
        batched: False where the model gives one value for the whole batch; then `shape` is whole and every record
            gets all of it.
    """

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    data: Buffer
    row_ends: tuple[int, ...] = ()
    batched: bool = True


class Part(Struct, frozen=True, gc=False):
    """What came of consecutive records of a run: outputs for all of them, or one error for one of them."""

    records: int
    rows: int
    blocks: tuple[Block, ...] = ()
    error: HeadraceError | None = None


class Answer(Struct, frozen=True, gc=False):
    """What a runner says of a run: parts that cover its records in order; or an error of the run as a whole."""

    parts: tuple[Part, ...]
    run_s: float
    error: HeadraceError | None = None
