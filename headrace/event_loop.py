"""The event loop of the long-running programs."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")
COLLECT_AT = 20_000  # objects: thousands of requests that are alive at once are no garbage


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end on uvloop where it is installed, else on asyncio's own loop."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


def calm_collector() -> None:
    """What is imported stays, so no collection needs to walk it; each one holds up all requests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AT)
