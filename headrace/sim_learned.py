"""What workers have learned of run times, read from the file that they keep beside a model."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from workers.run_times import RunTimes
from workers.run_times_file import Place, RunTimesFile
from workers.runners.engine import ModelSpec


class _Entry(Struct):
    version: str
    saved_ms: int
    state: object


class _File(Struct):
    entries: list[_Entry]


class NotLearned(Exception):
    """Nothing is known of how long batches take; the message says where it was looked for."""


def learned_beside(spec: ModelSpec) -> RunTimes:
    """What workers with as many cores as this machine know of the model. Raises NotLearned."""
    place = Place(spec.version, spec.device, spec.engine, spec.threads)
    learned = RunTimesFile(spec.folder.parent, place).load()
    return _known(learned, f"{spec.folder.parent}, where workers keep it")


def learned_in(file: Path) -> RunTimes:
    """What a file of any machine knows of the version that was saved last.

    Raises:
        NotLearned: the file is no such file.
        OSError: it cannot be read.
    """
    try:
        entries = msgspec.msgpack.decode(file.read_bytes(), type=_File).entries
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as err:
        raise NotLearned(f"{file} is no file of run times: {err}") from err
    latest = max(entries, key=lambda entry: entry.saved_ms, default=None)
    return _known(RunTimes.from_state(latest and latest.state), str(file))


def _known(learned: RunTimes, where: str) -> RunTimes:
    if not learned.predict_s(None, 1, 1.0):
        raise NotLearned(f"nothing is known of how long batches take in {where}")
    return learned
