"""Files of models on this machine: artifacts by their checksum, and the folders that runners load from.

    <cache>/artifacts/<sha256>                   whole, and what its name says when it was put there
    <cache>/artifacts/<sha256>.<random>.part     being fetched by one worker, which holds its lock
    <cache>/loads/<model>-<version>-<random>/    what a runner loads: links to artifacts and to the version's files

All of it blocks, so it is called on threads. Several processes use one cache.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from .runners.engine import LoadFailed

_LOCK_TRIES = 10
_CHUNK = 1 << 20
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)
_log = logging.getLogger("headrace.worker")


class Cancelled(Exception):
    """Nobody waits for it any more."""


class ArtifactCache:
    """The cache under one folder."""

    def __init__(self, root: Path) -> None:
        self.artifacts = root / "artifacts"
        self._loads = root / "loads"

    def free_bytes(self) -> int:
        """Room on the disk of the artifacts, for this user."""
        self.artifacts.mkdir(parents=True, exist_ok=True)
        return shutil.disk_usage(self.artifacts).free

    def new_part(self, sha256: str, nbytes: int) -> PartFile:
        """A file of that size to be filled; those that killed workers have left are removed.

        Raises:
            LoadFailed: the file system has no locks.
        """
        self.artifacts.mkdir(parents=True, exist_ok=True)
        for left in self.artifacts.glob("*.part"):
            if (lock := _locked(left, fcntl.LOCK_EX)) is not None:
                left.unlink(missing_ok=True)
                os.close(lock)
        for _ in range(_LOCK_TRIES):
            handle, name = tempfile.mkstemp(".part", f"{sha256}.", self.artifacts)
            # Another worker may have taken it for one that was left behind, before it was locked.
            if (lock := _locked(Path(name), fcntl.LOCK_SH)) is not None and os.path.exists(name):
                return PartFile(handle, lock, name, nbytes)
            os.close(handle)
            if lock is not None:
                os.close(lock)
            Path(name).unlink(missing_ok=True)
        raise _unlockable(self.artifacts)

    def new_load(self, label: str) -> LoadFolder:
        """An empty folder for one runner; those of workers that have ended are removed.

        Raises:
            LoadFailed: the file system has no locks, without which nobody could tell which folders are in use.
        """
        self._loads.mkdir(parents=True, exist_ok=True)
        for folder in self._loads.iterdir():
            if (lock := _locked(folder, fcntl.LOCK_EX)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
        for _ in range(_LOCK_TRIES):
            path = Path(tempfile.mkdtemp(prefix=f"{label}-", dir=self._loads))
            # Another worker may have taken it for one that was left behind, before it was locked.
            if (lock := _locked(path, fcntl.LOCK_SH)) is not None and path.exists():
                return LoadFolder(path, lock)
            shutil.rmtree(path, ignore_errors=True)
            if lock is not None:
                os.close(lock)
        raise _unlockable(self._loads)

    def lend(self, sha256: str, place: Path) -> bool:
        """Put the artifact there, and note that it was used; False where it is not in the cache."""
        try:
            link_or_copy(self.artifacts / sha256, place)
        except FileNotFoundError:
            return False
        with suppress(OSError):  # of another user
            os.utime(self.artifacts / sha256)
        return True

    def keep(self, part: PartFile, sha256: str) -> None:
        """What was fetched is right: later starts find it."""
        part.path.replace(self.artifacts / sha256)

    def forget(self, sha256: str) -> None:
        (self.artifacts / sha256).unlink(missing_ok=True)


class PartFile:
    """A file that is filled in no order, by several threads.

    A thread that nobody waits for any more may come late: it must not write to another file that has got the number.
    Until it is kept or discarded it is locked, so that no other worker takes it for left.
    """

    def __init__(self, handle: int, lock: int, name: str, nbytes: int) -> None:
        self.path = Path(name)
        self.written = 0
        self._handle: int | None = handle
        self._file_lock: int | None = lock
        self._lock = threading.Lock()
        os.ftruncate(handle, nbytes)

    def write(self, offset: int, chunks: Sequence[bytes]) -> None:
        """Raises LoadFailed: the disk does not take it."""
        with self._lock:
            if self._handle is None:
                return
            try:
                for chunk in chunks:
                    written = 0
                    while written < len(chunk):
                        written += os.pwrite(self._handle, chunk[written:], offset + written)
                    offset += written
                    self.written += written
            except OSError as err:
                raise LoadFailed(f"{self.path.parent} does not take it: {err.strerror or err}") from err

    def close(self) -> None:
        """No more writes; nobody else shall change it either."""
        with self._lock:
            if self._handle is not None:
                os.fchmod(self._handle, 0o444)
                os.close(self._handle)
            self._handle = None

    def discard(self) -> None:
        """Remove it, unless it was kept."""
        self.close()
        self.path.unlink(missing_ok=True)
        if self._file_lock is not None:
            os.close(self._file_lock)
        self._file_lock = None


class LoadFolder:
    """A folder of one runner. It is locked for as long as this process lives, so that no other takes it for left."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    def place(self, path: str) -> Path:
        """Where a file of the version belongs, its folders made."""
        place = self.path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def add_own(self, version: Path) -> None:
        """Add what the version's own folder holds."""
        for folder, folders, files in os.walk(version):
            within = self.path / os.path.relpath(folder, version)
            within.mkdir(exist_ok=True)
            for name in files:
                link_or_copy(Path(folder, name).resolve(), within / name)
            for name in folders:
                if Path(folder, name).is_symlink():
                    (within / name).symlink_to(Path(folder, name).resolve())

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def link_or_copy(source: Path, place: Path) -> None:
    """A second name of the file, else a copy of it.

    No symbolic link: onnxruntime refuses external data whose real path is not in the model's folder.
    """
    try:
        os.link(source, place)
    except OSError as err:
        if err.errno not in _NO_LINKS:
            raise
        shutil.copyfile(source, place)


def sha256_of(file: Path, is_over: Callable[[], bool]) -> str:
    """The checksum of a file; about a second for a gigabyte.

    Raises:
        Cancelled: it is over.
    """
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_CHUNK))
    with file.open("rb", buffering=0) as opened:
        while size := opened.readinto(buffer):
            if is_over():
                raise Cancelled
            digest.update(buffer[:size])
    return digest.hexdigest()


def _unlockable(folder: Path) -> LoadFailed:
    return LoadFailed(f"{folder} takes no locks: set HEADRACE_CACHE_DIR to a folder of a local disk")


def _locked(path: Path, how: int) -> int | None:
    """The lock; None where it cannot be had. The kernel lets go of it when its process ends, however it does."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
