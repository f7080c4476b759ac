"""Threads that do not take the core from the event loop at the moment they wake.

A thread that has slept may take a core at once from one that runs. If it then waits for the interpreter, which that one
holds, or has a millisecond's work to do, the event loop has lost its core for nothing, or for nothing urgent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CAN = sys.platform == "linux"


def give_way() -> bool:
    """The calling thread wakes behind those that run, and so do threads that it starts from now on; whether they will.

    Over time they get as much as others do (SCHED_BATCH). Nothing happens on systems other than Linux, where that is
    forbidden, or where somebody has chosen another scheduling for the thread.
    """
    return _change(os.SCHED_OTHER, os.SCHED_BATCH) if CAN else False


@contextmanager
def starting_what_gives_way() -> Iterator[None]:
    """Threads that the calling one starts meanwhile do as after `give_way`; it does not itself."""
    given = give_way()
    try:
        yield
    finally:
        if given:
            _change(os.SCHED_BATCH, os.SCHED_OTHER)


def _change(before: int, after: int) -> bool:
    with suppress(OSError):
        if os.sched_getscheduler(0) == before:
            os.sched_setscheduler(0, after, os.sched_param(0))
            return True
    return False
