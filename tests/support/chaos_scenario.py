"""Scenarios in virtual time: one worker, a few records laid where they shall lie, and what became of each."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import chaos_world
import numpy as np
from broker_clients import Owner
from chaos_world import MODEL, PREFIX, World, simulated
from msgspec.structs import replace
from virtual_time import VirtualClock, run_virtual

from producer_sdk.broker import Committed, Consumer, Outgoing, Topic, TopicPartition
from producer_sdk.tensors import Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Request, encode_request
from workers.offset_map import decode, place_of

JOINED_S = 5.0  # the first worker has loaded its model and has its partitions
LIVES_S = 30.0  # a worker that has not ended for so long will not
MOST_ENDS = 40  # of workers; a scenario that has come so far has no end
REFUSING = f"{PREFIX}.mine"  # a reply topic that takes nothing


class Scene(World):
    """A world whose worker `w1` has its partitions. What `replace` has changed is put back at the end."""

    def __init__(self, clock: VirtualClock, replaced: ExitStack, **settings: object) -> None:
        super().__init__(clock, seed=1, **settings)
        self._replaced = replaced

    async def begin(self) -> None:
        await self.start_worker("w1")
        await asyncio.sleep(JOINED_S)

    def replace(self, owner: object, name: str, value: object) -> None:
        self._replaced.enter_context(patch.object(owner, name, value))

    def serve(self, *changes: Mapping[str, Any]) -> None:
        """Workers that start from now on serve these models, each the usual one but for what is given."""
        find = chaos_world._LoopWorker._find_models

        def find_these(worker: chaos_world._LoopWorker) -> list[Any]:
            (usual,) = find(worker)
            return [replace(usual, **each) for each in changes]

        self.replace(chaos_world._LoopWorker, "_find_models", find_these)

    def lay(
        self, *ids: str, order: float = 0.0, model: str = MODEL, partition: int = 0, reply_to: ReplyTo | None = None
    ) -> None:
        """Append requests to the log; who waits for records hears nothing of them until `wake`."""
        inputs = {"x": Tensor.from_array(np.array([[order, 0.0]], np.float32))}
        for id in ids:
            value = encode_request(Request(id, inputs, reply_to=reply_to))
            self.broker._logs.append(f"{PREFIX}.{model}.async", partition, Outgoing(b"k", value))

    def wake(self, model: str = MODEL) -> None:
        for partition in range(self.broker._logs.topics()[f"{PREFIX}.{model}.async"]):
            self.broker._logs.wake(TopicPartition(f"{PREFIX}.{model}.async", partition))

    async def publish(self, *ids: str, order: float = 0.0, model: str = MODEL, partition: int = 0) -> None:
        """Requests one by one, as a client's arrive."""
        for id in ids:
            self.lay(id, order=order, model=model, partition=partition)
            self.wake(model)
            await asyncio.sleep(0)

    async def publish_undeliverable(self, id: str, partition: int = 0) -> None:
        """A request whose reply no topic takes, so that it is never finished."""
        await self.broker.admin().create_topics([Topic(REFUSING, 1)])
        self.deny(REFUSING)
        self.lay(id, partition=partition, reply_to=ReplyTo(REFUSING, 0))
        self.wake()

    async def until(self, holds: Callable[[], bool], limit_s: float = 60.0) -> None:
        """Wait until something holds. Raises TimeoutError."""
        async with asyncio.timeout(limit_s):
            while not holds():  # noqa: ASYNC110 - virtual time costs nothing
                await asyncio.sleep(0.01)

    async def restart(self, name: str = "w1") -> None:
        """Kill a worker, if it is not dead already; the group notices, then another takes its name."""
        self.processes[name].crash()
        await asyncio.sleep(1.0)
        self.broker.expire()
        await self.start_worker(name)

    async def ends(self, lives_s: float = LIVES_S) -> int:
        """Start the worker anew each time that a record has ended it, until one lives on; how many have ended."""
        for ended in range(MOST_ENDS):
            try:
                await asyncio.wait_for(self.processes["w1"].crashed.wait(), lives_s)
            except TimeoutError:
                return ended
            await self.restart()
        raise AssertionError(f"{MOST_ENDS} workers have ended")

    def member(self, owner: Owner | None = None, topics: frozenset[str] | None = None) -> Consumer:
        """Another member of the group, not started; by default it takes its share of the partitions."""
        shared = frozenset(self.topics.lanes(MODEL)) | {self.topics.retry(MODEL)}
        return self.broker.member(self.topics.group(MODEL), topics or shared, owner or Owner())

    async def rebalance(self) -> None:
        """All partitions are revoked and come back: a member joins that takes none of them."""
        await self.member(topics=frozenset([f"{PREFIX}.control"])).start()

    def answers(self) -> list[tuple[str, str]]:
        """Id and code of each reply, repeats too, in the order of ids."""
        return sorted((told.id, told.code) for told in self.told if not told.dead)

    def dead_letters(self) -> int:
        return sum(told.dead for told in self.told)

    def charges(self, partition: int = 0) -> Mapping[int, int]:
        """Failed attempts by offset, as the next owner of the partition would read them."""
        place = TopicPartition(f"{PREFIX}.{MODEL}.async", partition)
        return decode(*self.committed(partition), place_of(place)).attempts

    def committed(self, partition: int = 0, model: str = MODEL) -> Committed:
        group = self.broker._groups[self.topics.group(model)]
        return group.committed.get(TopicPartition(f"{PREFIX}.{model}.async", partition), Committed(0))


def ok(*ids: str) -> list[tuple[str, str]]:
    """The answers where these requests, and no others, ran once and well."""
    return sorted((id, "OK") for id in ids)


def scenario(**settings: object) -> Callable[[Callable[[Scene], Awaitable[None]]], Callable[[], None]]:
    """Makes a test of a coroutine function: it is given a scene, whose workers have these settings."""

    def decorate(play: Callable[[Scene], Awaitable[None]]) -> Callable[[], None]:
        async def played(clock: VirtualClock, replaced: ExitStack) -> None:
            scene = Scene(clock, replaced, **settings)
            try:
                await play(scene)
                assert scene.breaks == []
            finally:
                for process in scene.processes.values():
                    process.crash()
                await asyncio.wait(scene.workers.values())

        def test() -> None:
            random.seed(1)
            with simulated(), ExitStack() as replaced:
                run_virtual(lambda clock: played(clock, replaced))

        test.__name__, test.__module__, test.__doc__ = play.__name__, play.__module__, play.__doc__
        return test

    return decorate
