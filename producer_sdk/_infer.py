"""The waiting side of one `Client.infer`."""

from __future__ import annotations

import asyncio

from ._canceller import Canceller
from ._claims import Sending
from ._pending import Outcome
from ._producer import Sender
from ._route import Route
from .cancels import Cancel
from .errors import HeadraceError


class InferWaiter:
    """Holds the outcome of one request, and wakes its task when it ends while the record is still handed over."""

    __slots__ = ("_sending", "_woken", "outcome")

    def __init__(self) -> None:
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._sending: asyncio.Task[object] | None = None
        self._woken = False

    def settle(self, outcome: Outcome) -> None:
        if self.outcome.done():
            return
        self.outcome.set_result(outcome)
        if self._sending is not None and isinstance(outcome, HeadraceError):
            self._woken = self._sending.cancel()

    async def send(self, sender: Sender, route: Route, sending: Sending) -> None:
        """Hand over the record; a full buffer makes it wait, but no longer than the outcome."""
        if sender.send_now(route, sending):
            return
        # asyncio.timeout would do the same with a timer for each request.
        self._sending = task = asyncio.current_task()
        try:
            await sender.send(route, sending)
        except asyncio.CancelledError:
            if task is None or not self._woken or task.uncancel() > 0:
                raise
        finally:
            self._sending = None

    def give_up(self, canceller: Canceller, sending: Sending) -> None:
        """The waiting was cancelled: have the request cancelled too, if it was handed over and has no outcome yet."""
        if self.outcome.cancelled():  # as it is only when it was being waited for
            # By the request's own time: a later one of the same id, as when somebody tries again at once, goes on.
            canceller.send_soon([Cancel(sending.id, sending.record.timestamp_ms or 0)])
