"""Signals: the first TERM or INT asks for a drain, the second for the end; and waits that an event bounds."""

import asyncio
import math
import os
import signal

import pytest

from workers.drain import Exit, StopRequest, stop_signals
from workers.events import heard, unless


def test_exit_codes_are_what_operators_are_told() -> None:
    assert {code.name: code.value for code in Exit} == {"CLEAN": 0, "FAILED": 1, "FORCED": 3}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_asks_for_a_drain_and_the_second_for_the_end(number: signal.Signals) -> None:
    request = StopRequest()
    with stop_signals(request):
        os.kill(os.getpid(), number)
        await asyncio.wait_for(request.drain.wait(), 1.0)
        assert not request.now.is_set()
        os.kill(os.getpid(), number)
        await asyncio.wait_for(request.now.wait(), 1.0)


async def test_afterwards_the_signals_do_what_python_lets_them_do() -> None:
    with stop_signals(StopRequest()):
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


async def test_an_event_is_heard_or_the_time_is_over() -> None:
    event = asyncio.Event()
    assert not await heard(event, 0.01)
    assert not await heard(event, -1.0)
    event.set()
    assert await heard(event, math.inf)
    assert await heard(event, 0.0)


async def test_work_is_done_unless_the_event_comes_first() -> None:
    event, ended = asyncio.Event(), []

    async def work(takes_s: float) -> str:
        try:
            await asyncio.sleep(takes_s)
            return "done"
        finally:
            ended.append(takes_s)

    assert await unless(event, work(0.0)) == "done"
    asyncio.get_running_loop().call_later(0.01, event.set)
    assert await unless(event, work(60.0)) is None
    assert ended == [0.0, 60.0]


async def test_a_fault_of_the_work_is_raised() -> None:
    async def fails() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        await unless(asyncio.Event(), fails())
