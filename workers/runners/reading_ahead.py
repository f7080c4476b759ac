"""Looks at the next run while one is under way, so that its inputs are on the device by the time that it begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .messages import decode_run
from .onnx_binding import BoundSession
from .session import Session
from .shm import Region


class ReadingAhead:
    """Made for a session that copies its inputs by itself; the runner's thread calls it during each run."""

    def __init__(
        self, bound: BoundSession, session: Session, inputs: Sequence[Region], peek: Callable[[], bytes | None]
    ) -> None:
        """`peek` gives the next message if it has come already."""
        self._bound = bound
        self._session = session
        self._inputs = inputs
        self._peek = peek
        bound.ahead = self.look

    def pin(self, slot: int) -> None:
        """Have a slot's inputs pinned, whose mapping may be new."""
        self._bound.pinned.pin(slot, self._inputs[slot].view)

    def look(self) -> None:
        """Begin to copy the inputs of the next run, if it is known."""
        message = self._peek()
        if message is None:
            return
        run = decode_run(message)
        region = self._inputs[run.slot]
        region.follow(run.size)
        self.pin(run.slot)
        self._bound.prefetch(self._session.read(run, region.view))
