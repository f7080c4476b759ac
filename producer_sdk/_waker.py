"""Wakes a thread without ever waiting for it.

A `threading.Event` has a lock that the thread which waits takes, too: once that is off the core with it, whoever sets
the event, here the event loop, waits until it has been on again.
"""

from __future__ import annotations

import queue


class Waker:
    """As a `threading.Event` that one thread waits for, which `wait` clears. Any thread may call `set`."""

    def __init__(self) -> None:
        self._tokens: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        if self._tokens.empty():
            self._tokens.put(None)

    def clear(self) -> None:
        self.wait(0)

    def wait(self, seconds: float) -> bool:
        """Whether it was set, before or meanwhile; that is over then."""
        try:
            self._tokens.get(timeout=seconds)
        except queue.Empty:
            return False
        return True
