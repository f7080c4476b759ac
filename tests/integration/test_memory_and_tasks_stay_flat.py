"""Thousands of rebalances and hundreds of thousands of idle polls leave nothing behind: no memory, no task."""

import asyncio
import gc
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from model_folders import python_model
from worker_rig import running_worker

from producer_sdk.broker import Committed, GroupOptions, TopicPartition
from producer_sdk.memory import MemoryBroker
from producer_sdk.model_topics import model_topics
from producer_sdk.topics import Topics
from workers.commit import PartitionLedger
from workers.consume import Intake
from workers.loop import ModelLoop

CYCLES = 5_000
IDLE_POLLS = 200_000
SLACK_BLOCKS = 2_000  # of memory: less than one for each cycle


class Passerby:
    """A member that joins and leaves, so that everybody else's partitions are revoked and assigned anew."""

    async def assigned(self, starts: Mapping[TopicPartition, Committed]) -> None: ...
    async def revoked(self, partitions: frozenset[TopicPartition]) -> None: ...


def in_use() -> tuple[int, int]:
    """Blocks of memory, and tasks."""
    gc.collect()
    return sys.getallocatedblocks(), len(asyncio.all_tasks())


async def rebalances(broker: MemoryBroker, prefix: str, loop: ModelLoop, count: int) -> None:
    """Let another member come and go until the loop was assigned its partitions so often."""
    topics = Topics(prefix)
    until = loop.intake.assignments + count
    while loop.intake.assignments < until:
        passerby = broker.member(topics.group("m"), frozenset(topics.lanes("m")), Passerby())
        await passerby.start()
        await assigned_after(loop, loop.intake.assignments)
        await passerby.stop()
        await assigned_after(loop, loop.intake.assignments)


async def assigned_after(loop: ModelLoop, assignments: int) -> None:
    while True:
        if loop.intake.assignments > assignments:
            return
        await asyncio.sleep(0)


@pytest.mark.timeout(180)
async def test_five_thousand_rebalances_leave_nothing_behind(prefix: str, tmp_path: Path) -> None:
    broker = MemoryBroker()
    async with running_worker(broker, python_model(tmp_path, "m"), prefix, isolation="inline") as worker:
        (loop,) = worker.loops
        await rebalances(broker, prefix, loop, 500)
        blocks, tasks = in_use()
        await rebalances(broker, prefix, loop, CYCLES)
        later_blocks, later_tasks = in_use()
    assert later_blocks - blocks < SLACK_BLOCKS
    assert abs(later_tasks - tasks) <= 2


@pytest.mark.timeout(180)
async def test_two_hundred_thousand_idle_polls_leave_nothing_behind(prefix: str) -> None:
    async def settle(ledgers: Sequence[PartitionLedger]) -> None: ...
    def lost(ledgers: Sequence[PartitionLedger]) -> None: ...

    broker, topics = MemoryBroker(), Topics(prefix)
    await broker.admin().create_topics(model_topics(topics, "m"))
    intake = Intake(broker, topics, "m", GroupOptions(), settle=settle, lost=lost, changed=lambda: None)
    await intake.start()
    for _ in range(1_000):
        await intake.poll(1, 0.0)
    blocks, tasks = in_use()
    for _ in range(IDLE_POLLS):
        await intake.poll(1, 0.0)
    later_blocks, later_tasks = in_use()
    await intake.stop(1.0)
    assert later_blocks - blocks < SLACK_BLOCKS
    assert later_tasks == tasks
