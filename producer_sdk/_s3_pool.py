"""Threads for boto3, as many as connections, and the rule by which what failed is tried again within a budget."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from ._s3_attempt import Attempt
from ._s3_clients import Clients, check_installed
from ._s3_errors import PayloadUnavailable, Refusal, S3Refused
from ._s3_faults import known_faults, refused
from .byte_gate import ByteGate
from .payload_settings import S3Settings

T = TypeVar("T")
Work = Callable[[Attempt], T]
AGAIN = frozenset((Refusal.AGAIN,))
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_LONG_ATTEMPT_S = 10.0
_GOODBYE_S = 5.0


class Budget:
    """The time for one operation, and its name for people: `get s3://bucket/key`.

    Reads of lower `rank` go first, and each rank leaves one place more than the one before.
    """

    def __init__(self, what: str, budget_s: float, rank: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self.what = what
        self.budget_s = budget_s
        self.rank = rank
        self._clock = clock
        self._ends_at = clock() + budget_s

    def left_s(self) -> float:
        """Seconds left; at or below 0 when it is over."""
        return self._ends_at - self._clock()

    def spent(self, tries: int, reason: str) -> PayloadUnavailable:
        """The error of an operation whose time is over."""
        times = "once" if tries == 1 else f"{tries} times"
        return PayloadUnavailable(
            f"Could not {self.what} within {self.budget_s:.3g} s, tried {times}; the last time: {reason}."
        )


def pause_s(tries: int, chance: float) -> float:
    """How long to wait before the next try, after so many; `chance` is from 0 to 1. Pure.

    Anything from 0 to a bound that doubles: what one moment threw back together does not come back together.
    """
    return chance * min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(tries, 16))


def attempt_s(left_s: float) -> float:
    """How long one try may take of what is left: a slow one must leave time for another. Pure."""
    return left_s if left_s <= _LONG_ATTEMPT_S else max(_LONG_ATTEMPT_S, left_s / 2)


class S3Pool:
    """Runs requests to the store on its threads. Tasks of one event loop.

    Raises:
        Misconfigured: boto3 is not installed.
    """

    def __init__(self, settings: S3Settings, threads: int) -> None:
        check_installed()
        self.settings = settings
        self.at_once = threads
        self.parts_at_once = max(1, threads // 2)
        self._clients = Clients(settings, threads)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="headrace-s3")
        self._places = asyncio.Semaphore(threads)
        # Reads that hang must not keep results from being stored.
        self._reads = ByteGate(max(1, threads - threads // 4))
        self._attempts: dict[Future[Any], Attempt] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._closed = False

    async def call(self, budget: Budget, work: Work[T], *, reads: bool = False, again: frozenset[Refusal] = AGAIN) -> T:
        """What `work` gives, tried again while it is refused for a reason in `again`.

        Raises:
            S3Refused: for another reason.
            PayloadUnavailable: the budget is spent.
        """
        tries, reason = 0, "the store did not answer"
        while (left_s := budget.left_s()) > 0 and not self._closed:
            tries += 1
            try:
                async with asyncio.timeout(left_s):
                    return await self._place(budget, work, reads)
            except S3Refused as err:
                if err.refusal not in again:
                    raise
                reason = err.reason
            except TimeoutError:
                reason = "the store did not answer in time"
                continue
            await asyncio.sleep(min(pause_s(tries, random.random()), max(budget.left_s(), 0)))
        raise budget.spent(tries, "the store was closed" if self._closed else reason)

    async def _place(self, budget: Budget, work: Work[T], reads: bool) -> T:
        if reads:
            async with self._reads.room_for(1, budget.rank, keep=budget.rank), self._places:
                return await self._attempt(budget, work)
        async with self._places:
            return await self._attempt(budget, work)

    async def _attempt(self, budget: Budget, work: Work[T]) -> T:
        limit_s = attempt_s(budget.left_s())
        attempt = Attempt(self._clients, limit_s)
        running = self._threads.submit(_answer, attempt, work)
        self._attempts[running] = attempt
        running.add_done_callback(self._forget)
        try:
            async with asyncio.timeout(limit_s):
                return await asyncio.wrap_future(running)
        finally:
            attempt.end()

    async def pause(self, budget: Budget, reason: str) -> None:
        """Between two tries of what takes several calls.

        Raises:
            PayloadUnavailable: the budget is spent.
        """
        if budget.left_s() <= 0:
            raise budget.spent(1, reason)
        await asyncio.sleep(min(pause_s(3, random.random()), max(budget.left_s(), 0)))

    def _forget(self, running: Future[Any]) -> None:
        # On the thread; a dict's pop is one step.
        self._attempts.pop(running, None)

    def chore(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Something to be done although nobody waits for it; `close` does."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    async def wait_for_ended(self) -> None:
        """Wait for threads whose attempt was ended: they may still be sending. Gives up after a while."""
        ended = [asyncio.wrap_future(running) for running, each in list(self._attempts.items()) if each.ended]
        try:
            async with asyncio.timeout(_GOODBYE_S):
                await asyncio.gather(*ended, return_exceptions=True)
        except TimeoutError:
            pass  # its own timeouts end it

    async def close(self) -> None:
        """1 let chores end, 2 end attempts, 3 let the threads go, 4 close the connections."""
        if self._closed:
            return
        if self._chores:
            await asyncio.wait(self._chores, timeout=_GOODBYE_S)
        self._closed = True
        for attempt in list(self._attempts.values()):
            attempt.end()
        await self.wait_for_ended()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._clients.close()


def _answer(attempt: Attempt, work: Work[T]) -> T:
    client_faults = known_faults()
    try:
        return work(attempt)
    except client_faults as err:
        raise refused(err) from err


async def all_or_none(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What all give, in order; when one fails, or the wait is cancelled, the others are cancelled and awaited."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
