"""A model whose files are kept in S3: fetched, checked, and laid out in a folder that a runner can load."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import defaultdict
from pathlib import Path

from msgspec import Struct

from producer_sdk.payloads import S3Settings

from .artifact_cache import ArtifactCache, LoadFolder, link_or_copy, sha256_of
from .artifact_fetch import ArtifactFetch, bucket_fault
from .runners.engine import Artifact, LoadFailed, LoadFault, ModelSpec
from .runners.faults import load_failed
from .runners.handle import LOAD_TIMEOUT_S

_TRIES = 3  # a line that garbles bytes is no reason to refuse a model; the same wrong bytes twice are
_GRACE_S = 2.0  # what the store says of why it was not in time is worth more than that it was not
_log = logging.getLogger("headrace.worker")


class Patience(Struct, frozen=True):
    """How long one start may take.

    Attributes:
        ends_at: monotonic.
        over: set when nobody waits any more; a thread that hashes cannot be cancelled, so it looks.
    """

    ends_at: float
    over: threading.Event

    def left_s(self) -> float:
        return max(0.0, self.ends_at - time.monotonic())

    async def sha256_of(self, file: Path) -> str:
        return await asyncio.to_thread(sha256_of, file, self.over.is_set)


class Artifacts:
    """The artifacts of one worker's models. One event loop touches it.

    What a runner loads is hashed at each start, under the name by which it is loaded: a file of the cache that is not
    what it should be is fetched again, and never used.
    """

    def __init__(self, settings: S3Settings, root: Path, timeout_s: float = LOAD_TIMEOUT_S) -> None:
        self._buckets = settings.allowed
        self._cache = ArtifactCache(root)
        self._fetch = ArtifactFetch(settings, self._cache)
        self._timeout_s = timeout_s
        # Models, and runners of one model, that share an artifact fetch it once.
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def lay_out(self, spec: ModelSpec) -> LoadFolder:
        """A folder with what the version's own has, and its artifacts; the caller removes it when nobody loads from it.

        Raises:
            LoadFailed: an artifact cannot be had in time, or is not what model.yaml says.
        """
        if fault := bucket_fault(spec.name, spec.artifacts, self._buckets):
            raise LoadFailed(fault, LoadFault.PERMISSION)
        began, over = time.monotonic(), threading.Event()
        try:
            async with asyncio.timeout(self._timeout_s + _GRACE_S):
                folder = await self._laid_out(spec, Patience(began + self._timeout_s, over))
        except TimeoutError as err:
            raise LoadFailed(
                f"the artifacts of model {spec.name} are not in place within load_timeout_s {self._timeout_s:g} s"
            ) from err
        except OSError as err:
            raise load_failed(err, f"the artifacts of model {spec.name} cannot be put into HEADRACE_CACHE_DIR") from err
        finally:
            over.set()
        _log.info("The %d artifacts of model %s are in place after %.1f s", len(spec.artifacts), spec.name,
                  time.monotonic() - began, extra={"action": "artifacts_ready"})  # fmt: skip
        return folder

    async def _laid_out(self, spec: ModelSpec, patience: Patience) -> LoadFolder:
        """1. what the cache has; 2. room for the rest; 3. the rest; 4. the version's own files."""
        folder = await asyncio.to_thread(self._cache.new_load, f"{spec.name}-{spec.version}")
        try:
            missing = [each for each in spec.artifacts if not await self._lent(each, folder, patience)]  # 1
            for artifact in await self._fetch.sized(spec.name, missing, patience.left_s()):  # 2
                async with self._locks[artifact.ref.sha256]:
                    if not await self._lent(artifact, folder, patience):
                        await self._fetched(spec.name, artifact, folder, patience)  # 3
            await asyncio.to_thread(folder.add_own, spec.folder)  # 4
        except BaseException:
            folder.remove()
            raise
        return folder

    async def _lent(self, artifact: Artifact, folder: LoadFolder, patience: Patience) -> bool:
        """Whether the cache has it, and it is right."""
        sha256, place = artifact.ref.sha256, folder.place(artifact.path)
        if not await asyncio.to_thread(self._cache.lend, sha256, place):
            return False
        if await patience.sha256_of(place) == sha256:
            return True
        _log.warning("The cache's file of %s is not what was put there: it is fetched again", artifact.path,
                     extra={"action": "artifact_spoilt"})  # fmt: skip
        place.unlink()
        self._cache.forget(sha256)
        return False

    async def _fetched(self, model: str, artifact: Artifact, folder: LoadFolder, patience: Patience) -> None:
        ref, place, before = artifact.ref, folder.place(artifact.path), ""
        for _ in range(_TRIES):
            part = await self._fetch.fetch(model, artifact, patience.left_s())
            try:
                await asyncio.to_thread(link_or_copy, part.path, place)
                found = await patience.sha256_of(place)
                if found == ref.sha256:
                    self._cache.keep(part, found)
                    return
            finally:
                part.discard()
            place.unlink()
            if found == before:
                break
            before = found
        raise LoadFailed(
            f"artifact {artifact.path} of model {model} is not what model.yaml says: the sha256 of {ref.uri} is "
            f"{found}, and must be {ref.sha256}. Put the right object there, or correct `artifacts` in model.yaml"
        )

    async def close(self) -> None:
        """Give up what runs."""
        await self._fetch.close()
