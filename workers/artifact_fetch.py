"""artifact -> file: from the bucket into the cache, in parts at once, with its progress in the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from producer_sdk.dataref import UNKNOWN_BYTES
from producer_sdk.errors import HeadraceError, InputGone
from producer_sdk.payloads import InputDenied, Misconfigured, Payloads, PayloadUnavailable, S3Settings

from .artifact_cache import ArtifactCache, PartFile
from .runners.engine import Artifact, LoadFailed, LoadFault

TELL_S = 5.0
MIB = 1 << 20
_log = logging.getLogger("headrace.worker")


class ArtifactFetch:
    """Fetches artifacts of one worker's models. One event loop touches it; boto3 is loaded with the first of them."""

    def __init__(self, settings: S3Settings, cache: ArtifactCache) -> None:
        self._settings = settings
        self._cache = cache
        self._store: Payloads | None = None

    async def sized(self, model: str, artifacts: Sequence[Artifact], budget_s: float) -> list[Artifact]:
        """The same, the size of each known, once it is known that the disk has room for all.

        Raises:
            LoadFailed: it has not, or an object's size cannot be had.
        """
        sized = [await self._sized(model, artifact, budget_s) for artifact in artifacts]
        free = await asyncio.to_thread(self._cache.free_bytes)
        if fault := room_fault(model, sum(artifact.ref.nbytes for artifact in sized), free, self._cache.artifacts):
            raise LoadFailed(fault)
        return sized

    async def _sized(self, model: str, artifact: Artifact, budget_s: float) -> Artifact:
        if artifact.ref.nbytes != UNKNOWN_BYTES:
            return artifact
        try:
            with _telling(lambda: f"Asking for the size of {artifact.path} of model {model}"):
                nbytes = await self._opened().size(artifact.ref, budget_s=budget_s)
        except HeadraceError as err:
            raise not_fetched(model, artifact, err) from err
        if nbytes == 0:
            raise LoadFailed(f"artifact {artifact.path} of model {model}: {artifact.ref.uri} is empty")
        return replace(artifact, ref=replace(artifact.ref, nbytes=nbytes))

    async def fetch(self, model: str, artifact: Artifact, budget_s: float) -> PartFile:
        """The artifact as a file, whose checksum is still to be looked at; the caller keeps it or discards it.

        Raises:
            LoadFailed: it cannot be had.
        """
        ref = artifact.ref
        part = await asyncio.to_thread(self._cache.new_part, ref.sha256, ref.nbytes)
        whole = ref.nbytes // MIB
        try:
            with _telling(lambda: f"Fetching {artifact.path} of model {model}: {part.written // MIB} of {whole} MiB"):
                await self._opened().copy(ref, part.write, budget_s=budget_s)
        except BaseException as err:
            part.discard()
            if isinstance(err, HeadraceError):
                raise not_fetched(model, artifact, err) from err
            raise
        part.close()
        return part

    def _opened(self) -> Payloads:
        if self._store is None:
            self._store = Payloads(self._settings)
        return self._store

    async def close(self) -> None:
        """Give up what runs."""
        if self._store is not None:
            await self._store.close()


@contextmanager
def _telling(say: Callable[[], str]) -> Iterator[None]:
    """Log every few seconds how far it is."""

    async def tell() -> None:
        while True:
            await asyncio.sleep(TELL_S)
            _log.info("%s", say(), extra={"action": "artifact_progress"})

    task = asyncio.create_task(tell(), name="progress of an artifact")
    try:
        yield
    finally:
        task.cancel()


def room_fault(model: str, needed: int, free: int, folder: Path) -> str | None:
    """Why the disk is too small for so many bytes; None where it is not. Pure."""
    if needed <= free:
        return None
    return (
        f"the artifacts of model {model} need {needed} bytes in {folder}, where {free} are free: make room there, "
        "or set HEADRACE_CACHE_DIR to a folder of a larger disk"
    )


def bucket_fault(model: str, artifacts: Sequence[Artifact], allowed: frozenset[str]) -> str | None:
    """Why artifacts may not be fetched from where they are; None where all may. Pure."""
    for artifact in artifacts:
        bucket = artifact.ref.place.bucket
        if bucket not in allowed:
            return (
                f"artifact {artifact.path} of model {model} is in bucket {bucket}, which is not one of the buckets in "
                "HEADRACE_S3_MODEL_BUCKETS: add it there if models may come from it"
            )
    return None


def not_fetched(model: str, artifact: Artifact, err: HeadraceError) -> LoadFailed:
    """What the store said, and what to do, as the reason why a model cannot load. Pure."""
    said = err.message.removesuffix(".")
    kind, cure = LoadFault.FORMAT, ""
    if isinstance(err, InputDenied):
        kind = LoadFault.PERMISSION
    elif isinstance(err, InputGone):
        kind, cure = LoadFault.PATH, ": put the right object there, or correct `artifacts` in its model.yaml"
    elif isinstance(err, PayloadUnavailable):
        kind, cure = LoadFault.PATH, ": see to the store, and to HEADRACE_S3_ENDPOINT_URL"
    elif isinstance(err, Misconfigured):
        kind = LoadFault.DEPENDENCY
    return LoadFailed(f"artifact {artifact.path} of model {model} is not fetched: {said}{cure}", kind)
