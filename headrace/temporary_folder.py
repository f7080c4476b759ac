"""A temporary folder that goes away with its owner; what a killed owner left is removed by the next one of its kind."""

import fcntl
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

OWNER_FILE = "owner.lock"
SURELY_LOCKED_AFTER_S = 60.0


@dataclass(frozen=True, slots=True)
class TemporaryFolder:
    """A folder and the lock that shows that its owner lives. Also a context manager that gives the path."""

    path: Path
    owner: IO[str]

    @classmethod
    def make(cls, prefix: str) -> "TemporaryFolder":
        """A fresh one, whose name begins with `prefix`, once the orphans of that kind are removed. Raises OSError."""
        remove_orphans(Path(tempfile.gettempdir()), prefix)
        path = Path(tempfile.mkdtemp(prefix=prefix))
        owner = (path / OWNER_FILE).open("w")
        fcntl.flock(owner, fcntl.LOCK_EX)
        return cls(path, owner)

    def leave(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.owner.close()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


def remove_orphans(parent: Path, prefix: str) -> None:
    """Remove folders whose owner was killed before it could: their lock is free."""
    for path in parent.glob(f"{prefix}*"):
        try:
            # A folder this young may belong to a starter that has not taken its lock yet.
            if time.time() - path.stat().st_mtime < SURELY_LOCKED_AFTER_S:
                continue
            if not any(path.iterdir()):
                path.rmdir()  # its owner was killed before it made the lock
                continue
            with (path / OWNER_FILE).open("r+") as owner:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue  # held by its owner, another user's, or gone
