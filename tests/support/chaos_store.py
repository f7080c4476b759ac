"""The payload store of a row: a real S3 server behind a proxy that can fail, for workers and callers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from s3 import CREDENTIALS, FaultyS3, faulty, s3_server

from producer_sdk.payloads import S3Settings

CLAIM_BYTES = 64 << 10


@dataclass(frozen=True)
class ChaosStore:
    """The proxy that all come through, and how callers find it; `environment` is for workers."""

    proxy: FaultyS3
    settings: S3Settings

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "HEADRACE_S3_ENDPOINT_URL": self.proxy.url,
            "HEADRACE_S3_CLAIM_BUCKET": str(self.settings.claim_bucket),
            "HEADRACE_CLAIM_CHECK_BYTES": str(CLAIM_BYTES),
        }


@contextmanager
def running_store() -> Iterator[ChaosStore]:
    """With credentials for it in the environment, which workers inherit."""
    with s3_server() as s3, faulty(s3) as proxy, patch.dict(os.environ, CREDENTIALS):
        yield ChaosStore(proxy, S3Settings(proxy.url, claim_bucket=s3.new_bucket(), claim_bytes=CLAIM_BYTES))
