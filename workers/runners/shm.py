"""Memory that the worker and a runner share: files without a name, mapped by both."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from typing import Protocol

from producer_sdk.errors import OutOfMemory

from ..free_memory import free_memory_bytes

STEP_BYTES = 64 * 1024
LOOK_FROM_BYTES = 1024 * 1024


class Memory(Protocol):
    """A stretch of writable memory that can grow."""

    view: memoryview

    def reserve(self, nbytes: int) -> None:
        """Have at least `nbytes`; content is kept. Raises OutOfMemory."""
        ...


class Heap:
    """Memory of this process alone, for a runner that is a thread. The content is lost when it grows."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray())

    def reserve(self, nbytes: int) -> None:
        if nbytes > len(self.view):
            try:
                self.view = memoryview(bytearray(nbytes))
            except MemoryError as err:
                raise OutOfMemory(f"there is no memory for {nbytes} bytes of a batch") from err


class Region:
    """Shared memory; each process has a Region of its own on the same file.

    Every byte is allocated before it is mapped, because a write to a page that the kernel cannot provide ends the
    process by SIGBUS. A mapping that was replaced lives until the last view of it is gone.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.view = memoryview(b"")

    @staticmethod
    def create(nbytes: int) -> Region:
        """A region on a new file. Raises OutOfMemory."""
        region = Region(_nameless_file())
        try:
            region.reserve(nbytes)
        except OutOfMemory:
            region.close()
            raise
        return region

    def reserve(self, nbytes: int) -> None:
        """Have at least `nbytes`; views taken before keep showing the same memory. Raises OutOfMemory."""
        if nbytes <= len(self.view):
            return
        size = -(-nbytes // STEP_BYTES) * STEP_BYTES
        _check_free(size - len(self.view))
        try:
            _allocate(self.fd, len(self.view), size)
            self.follow(size)
        except OSError as err:
            if err.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
                raise
            raise OutOfMemory(f"there is no memory for {size} bytes of batches: {os.strerror(err.errno)}") from err

    def follow(self, size: int) -> None:
        """Map `size` bytes, which the other process has allocated."""
        if size > len(self.view):
            populate = getattr(mmap, "MAP_POPULATE", 0)
            self.view = memoryview(mmap.mmap(self.fd, size, flags=mmap.MAP_SHARED | populate))

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        self.view = memoryview(b"")


def _check_free(nbytes: int) -> None:
    """Refuse what is not there: a file in memory has no size limit, so the kernel would kill processes to make room."""
    if nbytes < LOOK_FROM_BYTES:
        return
    free = free_memory_bytes()
    if free is not None and nbytes > free:
        raise OutOfMemory(f"there is no memory for {nbytes} bytes of batches: {free} bytes are free")


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("headrace-batch", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile(prefix="headrace-batch-") as file:
        return os.dup(file.fileno())


def _allocate(fd: int, old_size: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
        return
    zeros = bytes(STEP_BYTES)
    for offset in range(old_size, size, STEP_BYTES):
        os.pwrite(fd, zeros, offset)
