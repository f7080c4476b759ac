"""Whether the gateway lives and can take traffic. Read from the admin thread, so only plain attributes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

TICK_S = 1.0
LOOP_STUCK_S = 30.0


class Health:
    """What the probes tell. Written by the event loop.

    A gateway is ready without any ready model: its typed 503 with the reason is a better answer than a load balancer's.

    Attributes:
        starting: what it still waits for, None once it serves.
        stopping: whether it was told to end.
        checks: each gives None, or why the gateway cannot answer now.
    """

    def __init__(self) -> None:
        self.starting: str | None = "the gateway is starting"
        self.stopping = False
        self.checks: tuple[Callable[[], str | None], ...] = ()
        self._tick_at = time.monotonic()

    async def tick(self) -> None:
        """Tell for as long as it runs that the event loop turns."""
        while True:
            self._tick_at = time.monotonic()
            await asyncio.sleep(TICK_S)

    def not_live(self) -> str | None:
        """Why the process should be restarted, or None."""
        stuck_s = time.monotonic() - self._tick_at
        return f"the event loop has not turned for {stuck_s:.0f} s" if stuck_s > LOOP_STUCK_S else None

    def not_ready(self) -> str | None:
        """Why no traffic should come here, or None."""
        if self.stopping:
            return "the gateway is stopping"
        if self.starting is not None:
            return self.starting
        return next((reason for check in self.checks if (reason := check()) is not None), None)
