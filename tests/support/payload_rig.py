"""A payload store behind a faulty proxy, with waits short enough for tests and parts small enough to have many."""

from __future__ import annotations

import functools
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import boto3.session
import pytest
from s3 import FaultyS3, S3Server, faulty

from producer_sdk import _s3_clients, _s3_download, _s3_pool, _s3_upload
from producer_sdk.dataref import DataRef
from producer_sdk.payloads import Payloads, S3Settings

PART = 64 << 10
SMALL, LARGE = 1000, 10 * PART + 7  # bytes: one part, and eleven
PATIENT_S = 15.0  # a budget that right behaviour comes nowhere near


_Session = boto3.session.Session


@functools.cache
def _session(region_name: str | None = None) -> boto3.session.Session:
    # A tenth of a second, which no two tests need pay.
    return _Session(region_name=region_name)


@dataclass(frozen=True)
class Rig:
    """The store as programs use it, what is between it and the server, and the server itself."""

    payloads: Payloads
    proxy: FaultyS3
    s3: S3Server
    bucket: str

    async def stored(self, size: int, key: str = "") -> tuple[DataRef, bytes]:
        """A new object of random bytes, and a reference to it."""
        data = secrets.token_bytes(size)
        key = key or f"objects/{secrets.token_hex(8)}"
        return (await self.payloads.put(self.bucket, key, data, budget_s=PATIENT_S)).ref, data

    async def read(self, ref: DataRef, budget_s: float = PATIENT_S) -> bytes:
        """The object, whatever its size."""
        return await self.payloads.get(ref, budget_s=budget_s, max_bytes=1 << 30)


@asynccontextmanager
async def rigged(s3: S3Server, monkeypatch: pytest.MonkeyPatch, threads: int = 8) -> AsyncIterator[Rig]:
    """A rig with a bucket of its own."""
    monkeypatch.setattr(_s3_clients, "_READ_S", (0.3,))
    monkeypatch.setattr(boto3.session, "Session", _session)
    monkeypatch.setattr(_s3_pool, "_LONG_ATTEMPT_S", 0.4)
    monkeypatch.setattr(_s3_pool, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(_s3_download, "PART_BYTES", PART)
    monkeypatch.setattr(_s3_upload, "PART_BYTES", PART)
    monkeypatch.setattr(_s3_upload, "SINGLE_BYTES", 2 * PART)
    bucket = s3.new_bucket()
    with faulty(s3) as proxy:
        payloads = Payloads(S3Settings(endpoint_url=proxy.url, claim_bucket=bucket), threads=threads)
        try:
            yield Rig(payloads, proxy, s3, bucket)
        finally:
            proxy.heal()
            await payloads.close()
