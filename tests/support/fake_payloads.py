"""A payload store in memory with the face of the real one, whose requests tests can have fail or wait."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from producer_sdk.dataref import UNKNOWN_BYTES, DataRef, S3Key
from producer_sdk.errors import HeadraceError, InputGone, PayloadTooLarge
from producer_sdk.payloads import (
    NO_METADATA,
    CheckedStep,
    Deleted,
    Listing,
    Payloads,
    PayloadUnavailable,
    S3Settings,
    Stored,
    StoredObject,
    Unfinished,
)

CLAIM_BUCKET = "claims"
RESULT_BUCKET = "results"
DEFAULT_SETTINGS = S3Settings(buckets=frozenset([RESULT_BUCKET]), claim_bucket=CLAIM_BUCKET)


@dataclass
class FakeObject:
    """What lies under a key."""

    data: bytes
    metadata: Mapping[str, str] = field(default_factory=dict)
    expires_ms: int | None = None
    modified_ms: int = 0


class FakePayloads(Payloads):
    """Keeps objects by their uri in `objects`, which tests may change.

    `faults` are raised by the next calls of `get` and `put`, one each, before anything is done; while `gate` is not
    set, both wait, and raise PayloadUnavailable when their budget is over. `asked` lists what was done: ("get", uri).
    """

    def __init__(
        self,
        settings: S3Settings = DEFAULT_SETTINGS,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        # Not the base's: no threads, no boto3.
        self.settings = settings
        self._now_ms = now_ms
        self.objects: dict[str, FakeObject] = {}
        self.faults: list[HeadraceError] = []
        self.asked: list[tuple[str, str]] = []
        self.waiting = 0  # calls that wait at the gate
        self.gate = asyncio.Event()
        self.gate.set()
        self.closed = False

    async def get(self, ref: DataRef, *, budget_s: float, max_bytes: int, rank: int = 0) -> bytes:
        self.check_ref(ref)
        if ref.expired(self._now_ms()):
            raise InputGone(f"{ref.uri} expired at {ref.expires_ms} ms since 1970.")
        await self._pass("get", ref.uri, budget_s)
        stored = self.objects.get(ref.uri)
        if stored is None:
            raise InputGone(f"{ref.uri} is gone: NoSuchKey: The specified key does not exist.")
        size = len(stored.data)
        if ref.nbytes not in (UNKNOWN_BYTES, size):
            raise InputGone(f"{ref.uri} is not what was stored: it has {size} bytes, and must have {ref.nbytes}.")
        if size > max_bytes:
            raise PayloadTooLarge(f"{ref.uri} has {size} bytes; at most {max_bytes} are taken here.")
        digest = hashlib.sha256(stored.data).hexdigest()
        if ref.sha256 not in ("", digest):
            raise InputGone(f"{ref.uri} is not what was stored: its sha256 is {digest}, and must be {ref.sha256}.")
        return stored.data

    async def size(self, ref: DataRef, *, budget_s: float, rank: int = 0) -> int:
        self.check_ref(ref)
        if ref.uri not in self.objects:
            raise InputGone(f"{ref.uri} is gone: NoSuchKey: The specified key does not exist.")
        return len(self.objects[ref.uri].data)

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
        uri = str(S3Key(bucket, key))
        self._check_allowed(bucket, uri)
        await self._pass("put", uri, budget_s)
        existed = only_new and uri in self.objects
        if not existed:
            self.objects[uri] = FakeObject(bytes(data), dict(metadata), expires_ms, self._now_ms())
        there = self.objects[uri]
        digest = hashlib.sha256(there.data).hexdigest()
        return Stored(DataRef(uri, digest, len(there.data), there.expires_ms), existed)

    async def _pass(self, verb: str, uri: str, budget_s: float) -> None:
        self.asked.append((verb, uri))
        self.waiting += 1
        try:
            async with asyncio.timeout(budget_s):
                await self.gate.wait()
        except TimeoutError as err:
            raise PayloadUnavailable(f"Could not {verb} {uri} within {budget_s:.3g} s.") from err
        finally:
            self.waiting -= 1
        if self.faults:
            raise self.faults.pop(0)

    async def check(self, bucket: str, *, budget_s: float) -> Sequence[CheckedStep]:
        self._check_allowed(bucket, f"s3://{bucket}/")
        return [CheckedStep(name, "") for name in ("put", "get", "conditional put", "delete")]

    async def list(self, bucket: str, prefix: str, *, after: str = "", most: int = 1000, budget_s: float) -> Listing:
        start = f"s3://{bucket}/"
        keys = sorted(uri.removeprefix(start) for uri in self.objects if uri.startswith(start + prefix))
        later = [key for key in keys if key > after]
        objects = [(key, self.objects[start + key]) for key in later[:most]]
        told = tuple(StoredObject(key, len(each.data), each.modified_ms) for key, each in objects)
        return Listing(told, len(later) > most)

    async def expiries_ms(self, bucket: str, keys: Sequence[str], *, budget_s: float) -> Sequence[int | None]:
        stored = [self.objects.get(f"s3://{bucket}/{key}") for key in keys]
        return [each.expires_ms if each else None for each in stored]

    async def delete(self, bucket: str, keys: Sequence[str], *, budget_s: float) -> Deleted:
        for key in keys:
            self.objects.pop(f"s3://{bucket}/{key}", None)
        return Deleted(tuple(keys), ())

    async def unfinished(self, bucket: str, prefix: str, *, budget_s: float) -> Sequence[Unfinished]:
        return []

    async def abandon(self, bucket: str, uploads: Sequence[Unfinished], *, budget_s: float) -> None:
        return None

    async def close(self) -> None:
        self.closed = True
