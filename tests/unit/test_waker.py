"""A thread is woken once for each time that somebody calls, before it waits or meanwhile."""

import threading

from producer_sdk._waker import Waker


def test_a_call_before_the_wait_is_heard_once() -> None:
    waker = Waker()
    waker.set()
    waker.set()
    assert (waker.wait(0), waker.wait(0)) == (True, False)


def test_a_call_is_heard_while_a_thread_waits() -> None:
    waker = Waker()
    heard: list[bool] = []
    waiting = threading.Thread(target=lambda: heard.append(waker.wait(30)))
    waiting.start()
    waker.set()
    waiting.join(30)
    assert heard == [True]


def test_what_is_cleared_wakes_nobody() -> None:
    waker = Waker()
    waker.set()
    waker.clear()
    assert not waker.wait(0)
