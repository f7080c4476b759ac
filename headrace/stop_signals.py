"""Ctrl-C, TERM and a closed terminal as an event: once asks for an orderly end, twice for one now."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_event(at_once: Callable[[], None]) -> Iterator[asyncio.Event]:
    """An event set by the first signal; each further signal calls `at_once`. Handlers are put back at the end."""
    event, loop = asyncio.Event(), asyncio.get_running_loop()

    def take() -> None:
        if event.is_set():
            at_once()
        event.set()

    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, take)
    try:
        yield event
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
