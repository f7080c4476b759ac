"""What is told of a commit holds even where the worker is stopped for a while just after the broker accepted it."""

import asyncio
import time
from collections.abc import Mapping

from producer_sdk.broker import Committed, TopicPartition
from workers.commit import PartitionLedger
from workers.committing import Committing

PLACE = TopicPartition("headrace.m.async", 0)


class SlowToHear:
    """A consumer whose commits are acknowledged late."""

    accepted_ms = 0

    async def commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        self.accepted_ms = int(time.time() * 1000)
        await asyncio.sleep(0.05)


async def test_a_commit_is_dated_by_its_asking_not_by_its_late_acknowledgement() -> None:
    ledger = PartitionLedger(PLACE)
    ledger.take(0)
    ledger.finish(0)
    told: list[int] = []
    consumer = SlowToHear()
    committing = Committing(
        "m", {PLACE: ledger}, lambda: consumer, lambda: None, lambda due, asked_ms: told.append(asked_ms)  # type: ignore[arg-type, return-value]
    )  # fmt: skip
    assert await committing.commit()
    assert told
    assert told[0] <= consumer.accepted_ms
