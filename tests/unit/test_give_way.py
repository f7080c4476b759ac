"""Who takes a core from whom."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from producer_sdk._give_way import give_way, starting_what_gives_way

T = TypeVar("T")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be told who gives way")


def in_a_thread(call: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def policy() -> int:
    return os.sched_getscheduler(0)


def child_policy() -> int:
    found: list[int] = []
    child = threading.Thread(target=lambda: found.append(policy()))
    child.start()
    child.join()
    return found[0]


def test_a_thread_gives_way_and_no_other_does() -> None:
    assert in_a_thread(lambda: (give_way(), policy(), child_policy())) == (True, os.SCHED_BATCH, os.SCHED_BATCH)
    assert policy() == os.SCHED_OTHER


def test_what_is_started_gives_way_and_who_starts_it_does_not() -> None:
    def both() -> tuple[int, int]:
        with starting_what_gives_way():
            child = child_policy()
        return child, policy()

    assert in_a_thread(both) == (os.SCHED_BATCH, os.SCHED_OTHER)


def test_a_scheduling_that_somebody_has_chosen_stays() -> None:
    def chosen() -> int:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        with starting_what_gives_way():
            pass
        return policy()

    assert in_a_thread(chosen) == os.SCHED_BATCH


@pytest.mark.parametrize("call", ["sched_setscheduler", "sched_getscheduler"])
def test_where_it_is_forbidden_nothing_happens(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("as by a container's rules")

    with monkeypatch.context() as container:
        container.setattr(os, call, refuse)
        with starting_what_gives_way():
            assert not give_way()
    assert policy() == os.SCHED_OTHER
