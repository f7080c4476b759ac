"""Ports that a stack has chosen but does not listen on yet: two that start at once must not choose the same."""

import fcntl
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headrace.free_ports import free_port, is_free


@dataclass(frozen=True, slots=True)
class PortClaim:
    """A port that no other stack of this user takes until `release`, or the end of this process.

    `lock` is None where the temporary folder cannot be written: the port was free, and is not guarded.
    """

    port: int
    lock: IO[str] | None

    @classmethod
    def take(cls, port: int) -> "PortClaim | None":
        """The claim on a port; None when another stack has it, or somebody listens on it."""
        try:
            claim = cls(port, _locked(_lock_file(port)))
        except BlockingIOError:
            return None
        except OSError:
            claim = cls(port, None)
        if is_free(port):
            return claim
        claim.release()
        return None

    @classmethod
    def take_any(cls) -> "PortClaim":
        """The claim on some port."""
        while True:
            claim = cls.take(free_port())
            if claim is not None:
                return claim

    def release(self) -> None:
        """Let others have the port."""
        if self.lock is not None and not self.lock.closed:
            # Removed while it is locked: whoever has it open already sees that it is no longer the port's file.
            Path(self.lock.name).unlink(missing_ok=True)
            self.lock.close()


def _lock_file(port: int) -> Path:
    return Path(tempfile.gettempdir(), f"headrace-ports-{os.getuid()}", f"{port}.lock")


def _locked(path: Path) -> IO[str]:
    """The file, open and locked. Raises BlockingIOError: another one has the lock; OSError: it cannot be made."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    while True:
        lock = path.open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                return lock
        except OSError:
            lock.close()
            raise
        lock.close()  # its last owner has removed it meanwhile
