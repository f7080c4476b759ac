"""Hands fetched records over before anything else is done, where somebody waits for them.

aiokafka first works out what to fetch next, which costs as much as reading a record, and again once the record is
taken; only then goes on who waits for it. An idle worker or client has just one request on its way, and nothing to gain
by an early fetch.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

TURNS = 4  # of the event loop: a worker's poll, its dispatcher and its batch, or the task of a caller, go on in these


def hand_over_first(fetcher: Any) -> None:
    """Have an aiokafka Fetcher do so. Before it starts to fetch."""
    process = fetcher._proc_fetch_request
    fetcher.hands_over = False

    def again(_: object) -> None:
        """aiokafka may see that a fetch has ended before it knows that none is under way: it would wait for nothing."""
        fetcher._notify(fetcher._wait_consume_future)

    async def processing(assignment: Any, node_id: int, request: Any) -> bool:
        if (task := asyncio.current_task()) is not None:
            task.add_done_callback(again)  # behind aiokafka's own, which says that none is under way
        any_new: bool = await process(assignment, node_id, request)
        if any_new and fetcher._fetch_waiters:
            for waiter in fetcher._fetch_waiters:
                fetcher._notify(waiter)
            fetcher.hands_over = True
            with contextlib.suppress(asyncio.CancelledError):  # as aiokafka does: the answer is of no use then
                for _ in range(TURNS):
                    await asyncio.sleep(0)
            fetcher.hands_over = False
        return any_new

    fetcher._proc_fetch_request = processing


def note_room(fetcher: Any) -> None:
    """More may be fetched: it is worked out what, unless it will be anyway."""
    if not fetcher.hands_over:
        fetcher._notify(fetcher._wait_consume_future)
