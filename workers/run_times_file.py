"""What was learned of run times, kept beside the model: `<model folder>/.run_times/<device>.msgpack`.

A worker starts with what the last one knew of its version; a new version starts with what was known of the one before.
Nothing read here is trusted, and nothing that fails here stops a worker: it learns anew.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import tempfile
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from .run_times import RunTimes

FORM = 1
FOLDER = ".run_times"
MOST_BYTES = 1 << 20
MOST_ENTRIES = 6
_ABANDONED_S = 3600.0  # a half-written file of a process that was killed is removed after so long
_log = logging.getLogger("headrace.worker")


class Place(Struct, frozen=True):
    """What run times hold for. Entries of one device, engine and count of threads lie in a line of versions."""

    version: str
    device: str
    engine: str
    threads: int


class _Entry(Struct):
    version: str
    engine: str
    threads: int
    saved_ms: int
    state: msgspec.Raw


class _File(Struct):
    form: int
    entries: list[_Entry]


class RunTimesFile:
    """The file of one model and device. Its calls block for a few milliseconds; one thread at a time.

    Several workers may save at once: the last one wins, and a reader sees one or the other whole. Where the model's
    folder cannot be written, the user's cache folder takes the file.
    """

    def __init__(self, model_folder: Path, place: Place) -> None:
        self._place = place
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", place.device)[:64] + ".msgpack"
        apart = hashlib.blake2b(os.fsencode(model_folder.absolute()), digest_size=8).hexdigest()
        self._paths = (
            model_folder / FOLDER / name,
            cache_dir() / "run_times" / f"{model_folder.name[:64]}-{apart}" / name,
        )
        self._warned = False

    def load(self) -> RunTimes:
        """What is known of this version, else of the highest below it, else nothing. Raises nothing."""
        place = self._place
        entries = [
            entry
            for path in self._paths
            for entry in _read(path)
            if (entry.engine, entry.threads) == (place.engine, place.threads)
            and _number(entry.version) <= _number(place.version)
        ]
        if not entries:
            return RunTimes()
        latest = max(entries, key=lambda entry: (_number(entry.version), entry.saved_ms))
        run_times = RunTimes.from_state(_unpacked(latest.state))
        run_times.trust_less()
        return run_times

    def save(self, state: object) -> bool:
        """Keep a state that `RunTimes.to_state` gave; whether that was possible. Raises nothing."""
        place = self._place
        packed = msgspec.Raw(msgspec.msgpack.encode(state))
        entry = _Entry(place.version, place.engine, place.threads, int(time.time() * 1000), packed)
        failures = []
        for path in self._paths:
            try:
                _write(path, _with(entry, _read(path)))
                return True
            except OSError as err:
                failures.append(f"{path.parent}: {err.strerror or err}")
        if not self._warned:
            self._warned = True
            _log.warning(
                "Learned run times cannot be kept, so that the next worker starts without them (%s). "
                "Make one of these folders writable, or set HEADRACE_CACHE_DIR",
                "; ".join(failures),
                extra={"action": "run_times_not_kept"},
            )
        return False


def cache_dir() -> Path:
    """The user's cache folder for headrace: `HEADRACE_CACHE_DIR`, else by the XDG rule `~/.cache/headrace`."""
    own = os.environ.get("HEADRACE_CACHE_DIR")
    if own:
        return Path(os.path.expanduser(own)).absolute()
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # expanduser leaves the ~ where a user has no home, as in many containers; Path.home() would raise.
    return (xdg if xdg.is_absolute() else Path(os.path.expanduser("~/.cache")).absolute()) / "headrace"


def _number(version: str) -> int:
    return int(version) if version.isascii() and version.isdigit() and len(version) <= 18 else -1


def _read(path: Path) -> list[_Entry]:
    """The entries of a file; none where it is not there or is not what `save` writes."""
    try:
        # Not blocking, for whoever may write here may have put a pipe in the file's place.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MOST_BYTES:
            return []
        file = msgspec.msgpack.decode(os.read(handle, MOST_BYTES), type=_File)
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
        return []
    finally:
        os.close(handle)
    return file.entries[:MOST_ENTRIES] if file.form == FORM else []


def _unpacked(state: msgspec.Raw) -> object:
    try:
        unpacked: object = msgspec.msgpack.decode(state, strict=False)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return unpacked


def _with(entry: _Entry, others: list[_Entry]) -> bytes:
    """The file's bytes with the entry in it and the latest of the others, as many as there is room for."""
    key = (entry.version, entry.engine, entry.threads)
    kept = [each for each in others if (each.version, each.engine, each.threads) != key]
    entries = [entry, *sorted(kept, key=lambda each: -each.saved_ms)][:MOST_ENTRIES]
    while True:
        packed = msgspec.msgpack.encode(_File(FORM, entries))
        if len(packed) <= MOST_BYTES or len(entries) == 1:
            return packed
        entries.pop()


def _write(path: Path, packed: bytes) -> None:
    """Replace the file in one step. Raises OSError."""
    path.parent.mkdir(parents=path.parent.name != FOLDER, exist_ok=True)
    _remove_abandoned(path)
    handle, temporary = tempfile.mkstemp(".tmp", path.stem + ".", path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(packed)
            os.fchmod(file.fileno(), 0o644)  # a worker of another user reads it, too
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def _remove_abandoned(path: Path) -> None:
    """Only what is named as half-written files of this one are: the folder may be a link to one of somebody else's."""
    for entry in path.parent.glob(f"{path.stem}.*.tmp"):
        try:
            if entry.stat().st_mtime < time.time() - _ABANDONED_S:
                entry.unlink()
        except FileNotFoundError:
            # Another worker has just put it in its place, or removed it.
            continue
