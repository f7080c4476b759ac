"""The payload store: large inputs, outputs and results in S3, or in anything that speaks its protocol.

Needs the extra `s3`. boto3 blocks, so it runs in a bounded pool of threads; whoever waits here never blocks the loop.
Every call has a budget in seconds, in which faults that pass (5xx, throttling, timeouts, lost connections, cut bodies)
are tried again with jitter.

    PayloadUnavailable   INTERNAL, retryable   the store did not do it within the budget
    InputGone            INPUT_GONE            missing, expired, or not what the reference says
      InputDenied                              the store forbids to read it, or to know whether it is there
    Misconfigured        INTERNAL              credentials, bucket, key or rights: the same again cannot help
    PayloadTooLarge      PAYLOAD_TOO_LARGE     more than the caller wants to take
    InvalidRequest       INVALID_REQUEST       a bucket that is not on the allow-list
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from ._s3_check import check_bucket
from ._s3_download import download, size_of
from ._s3_errors import InputDenied, PayloadUnavailable
from ._s3_listing import Deleted, Listing, StoredObject, Unfinished, abandon, delete, expiries_ms, list_page, unfinished
from ._s3_pool import Budget, S3Pool
from ._s3_to_file import Write, download_to
from ._s3_upload import PutOrder, upload
from .broker import Misconfigured
from .claim_keys import claim_key
from .dataref import DataRef, S3Key, S3Prefix
from .errors import InputGone, InvalidRequest, PayloadTooLarge
from .payload_settings import S3Settings

__all__ = [
    "CheckedStep",
    "Deleted",
    "InputDenied",
    "InputGone",
    "Listing",
    "Misconfigured",
    "PayloadTooLarge",
    "PayloadUnavailable",
    "Payloads",
    "S3Settings",
    "Stored",
    "StoredObject",
    "Unfinished",
]

DEFAULT_THREADS = 8
NO_METADATA: Mapping[str, str] = {}


class Stored(Struct, frozen=True):
    """What `put` left: a reference to the object that is there now.

    Attributes:
        ref: with checksum and size; those of the other object where `existed`.
        existed: `only_new` found an object there, which stands; it may hold the same bytes, put by an earlier try.
    """

    ref: DataRef
    existed: bool


class CheckedStep(Struct, frozen=True):
    """One thing that a store must be able to do: its name, and what is wrong with it, "" when nothing is."""

    name: str
    fault: str


def _epoch_ms() -> int:
    return time.time_ns() // 1_000_000


class Payloads:
    """A payload store. Any task of the one event loop that first uses it; made without asking the store for anything.

    Raises:
        Misconfigured: boto3 is not installed.
    """

    def __init__(
        self, settings: S3Settings, *, threads: int = DEFAULT_THREADS, now_ms: Callable[[], int] = _epoch_ms
    ) -> None:
        self.settings = settings
        self._now_ms = now_ms
        self._pool = S3Pool(settings, threads)

    def __repr__(self) -> str:
        return f"Payloads({self.settings!r})"

    def check_ref(self, ref: DataRef) -> None:
        """Whether a reference may be followed.

        Raises:
            InvalidRequest: its bucket is not on the allow-list.
        """
        self._check_allowed(ref.place.bucket, str(ref.place))

    def check_prefix(self, prefix: S3Prefix) -> None:
        """Whether results may go there.

        Raises:
            InvalidRequest: its bucket is not on the allow-list.
        """
        self._check_allowed(prefix.bucket, str(prefix))

    def _check_allowed(self, bucket: str, uri: str) -> None:
        if bucket not in self.settings.allowed:
            raise InvalidRequest(f"{uri} may not be used: {bucket} is not one of the buckets in HEADRACE_S3_BUCKETS.")

    async def get(self, ref: DataRef, *, budget_s: float, max_bytes: int, rank: int = 0) -> bytes:
        """The object whole, checked against the size and the checksum of the reference.

        Nothing above `max_bytes` is downloaded, whatever the reference says. Objects of more than a part (8 MiB) come
        in parts at once, all of the same version. Reads of lower rank go first; however many hang, there are places
        that only lower ranks take.

        Raises:
            InputGone: missing, expired (without asking the store), changed meanwhile, or of another size or checksum.
            InputDenied: the store forbids to read it.
            InvalidRequest: its bucket is not on the allow-list.
            PayloadTooLarge: it has more than `max_bytes`.
            PayloadUnavailable: the store did not give it within `budget_s`.
            Misconfigured: the store refuses these credentials.
        """
        self.check_ref(ref)
        if ref.expired(self._now_ms()):
            raise InputGone(f"{ref.uri} expired at {ref.expires_ms} ms since 1970.")
        return await download(self._pool, ref, Budget(f"get {ref.uri}", budget_s, rank), max_bytes)

    async def copy(self, ref: DataRef, write: Write, *, budget_s: float) -> None:
        """Hand an object whose size the reference says to `write(offset, chunks)`, part by part, in no order.

        For what is too large to be held: `write` is called on several threads at once, and with some bytes twice where
        a read failed halfway; what it raises as an OSError counts as a fault of the store. The caller looks at the
        checksum. Raises as `get`, save for the checksum.
        """
        self.check_ref(ref)
        await download_to(self._pool, ref, write, Budget(f"get {ref.uri}", budget_s))

    async def size(self, ref: DataRef, *, budget_s: float, rank: int = 0) -> int:
        """How many bytes the object has; raises as `get`."""
        self.check_ref(ref)
        return await size_of(self._pool, ref, Budget(f"look at {ref.uri}", budget_s, rank))

    async def put(
        self,
        bucket: str,
        key: str,
        data: bytes | memoryview,
        *,
        metadata: Mapping[str, str] = NO_METADATA,
        only_new: bool = False,
        budget_s: float,
        expires_ms: int | None = None,
    ) -> Stored:
        """Store an object whole, or not at all. `data` must stay as it is until this returns.

        Checksum and expiry are kept as metadata beside the caller's (`headrace-sha256`, `headrace-expires-ms`); names
        and values are ASCII. With `only_new` an object that is there already is left alone. After PayloadUnavailable,
        or when cancelled, the object may be there or not: put it again with `only_new` to know.

        Raises:
            InvalidRequest: the bucket is not on the allow-list, or the key cannot be one.
            PayloadUnavailable: the store did not take it within `budget_s`.
            Misconfigured: credentials, bucket, encryption key or rights are refused, or `only_new` is not supported.
        """
        place = S3Key(bucket, key)
        self._check_allowed(bucket, str(place))
        order = PutOrder(place, memoryview(data).cast("B"), dict(metadata), only_new, expires_ms)
        ref, existed = await upload(self._pool, order, Budget(f"put {place}", budget_s))
        return Stored(ref, existed)

    async def claim(self, data: bytes | memoryview, *, expires_ms: int, budget_s: float) -> DataRef:
        """Store a claim check under a new key of the claim bucket; whoever sweeps may delete it after `expires_ms`.

        Raises:
            As `put`; Misconfigured also where no claim bucket is set.
        """
        bucket = self._claim_bucket()
        stored = await self.put(bucket, claim_key(expires_ms), data, budget_s=budget_s, expires_ms=expires_ms)
        return stored.ref

    def _claim_bucket(self) -> str:
        if self.settings.claim_bucket is None:
            raise Misconfigured("No bucket for claim checks is set: set HEADRACE_S3_CLAIM_BUCKET")
        return self.settings.claim_bucket

    async def check(self, bucket: str, *, budget_s: float) -> Sequence[CheckedStep]:
        """Try put, get, conditional put and delete on an object of its own; after a failed put nothing else."""
        self._check_allowed(bucket, f"s3://{bucket}/")
        steps = await check_bucket(self._pool, bucket, self._now_ms(), Budget(f"check s3://{bucket}/", budget_s))
        return [CheckedStep(name, fault) for name, fault in steps]

    async def list(self, bucket: str, prefix: str, *, after: str = "", most: int = 1000, budget_s: float) -> Listing:
        """One page of the objects under a prefix, by key, those after the key `after`; at most 1000.

        Raises:
            PayloadUnavailable, Misconfigured: as `put`.
        """
        self._check_allowed(bucket, f"s3://{bucket}/{prefix}")
        budget = Budget(f"list s3://{bucket}/{prefix}", budget_s)
        return await list_page(self._pool, bucket, prefix, after, most, budget)

    async def expiries_ms(self, bucket: str, keys: Sequence[str], *, budget_s: float) -> Sequence[int | None]:
        """When objects expire by their metadata; None where that says nothing, or the object is gone.

        They are asked for a few at a time, and each has `budget_s` from its turn on.

        Raises:
            PayloadUnavailable, Misconfigured: as `put`.
        """
        self._check_allowed(bucket, f"s3://{bucket}/")
        return await expiries_ms(self._pool, bucket, keys, budget_s)

    async def delete(self, bucket: str, keys: Sequence[str], *, budget_s: float) -> Deleted:
        """Delete objects; one that is not there counts as deleted. Says which were refused, and why.

        They go a few at a time, and each has `budget_s` from its turn on.

        Raises:
            PayloadUnavailable, Misconfigured: as `put`.
        """
        self._check_allowed(bucket, f"s3://{bucket}/")
        return await delete(self._pool, bucket, keys, budget_s)

    async def unfinished(self, bucket: str, prefix: str, *, budget_s: float) -> Sequence[Unfinished]:
        """Uploads in parts that were begun and neither completed nor aborted, at most 1000: their parts cost room.

        Raises:
            PayloadUnavailable, Misconfigured: as `put`.
        """
        self._check_allowed(bucket, f"s3://{bucket}/{prefix}")
        return await unfinished(self._pool, bucket, prefix, Budget(f"list uploads to s3://{bucket}/{prefix}", budget_s))

    async def abandon(self, bucket: str, uploads: Sequence[Unfinished], *, budget_s: float) -> None:
        """Throw away the parts of uploads, each within `budget_s`; one that is not there counts as thrown away.

        Raises:
            PayloadUnavailable, Misconfigured: as `put`.
        """
        self._check_allowed(bucket, f"s3://{bucket}/")
        await abandon(self._pool, bucket, uploads, budget_s)

    async def close(self) -> None:
        """Give up what runs, end uploads that were given up, and let the threads go. Safe to call twice."""
        await self._pool.close()
