"""What breaks inside a worker costs no request: a consumer that fails, a refused commit, a fault of our own."""

import asyncio
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_folders import SLEEPY, python_model
from worker_rig import committed, running_worker, until

from producer_sdk import Client, HeadraceError
from producer_sdk.broker import Broker, BrokerError, CommitRefused, Outgoing, TopicPartition
from producer_sdk.memory import MemoryBroker
from producer_sdk.topics import Topics
from workers.decode import Decoder
from workers.run import Device
from workers.serve import Worker


def row(seconds: float, number: int) -> dict[str, Any]:
    return {"x": np.array([[seconds, number]], np.float32)}


async def numbers(client: Client, count: int) -> list[int]:
    asked = (row(0.01, n) for n in range(count))
    return sorted([int(reply.outputs["y"][0, 1] / 2) async for reply in client.map("m", asked) if good(reply)])


def good(reply: object) -> bool:
    assert not isinstance(reply, HeadraceError), reply
    return True


def fail_consumer(worker: Worker) -> None:
    worker.loops[0].intake._consumer._fault = BrokerError("it cannot go on")  # type: ignore[attr-defined]


async def test_a_consumer_that_cannot_go_on_is_replaced_in_mid_work(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m", SLEEPY, max_batch_size=4)
    async with running_worker(broker, models, prefix) as worker, Client(broker, prefix=prefix) as client:
        asking = asyncio.create_task(numbers(client, 200))
        await until(lambda: worker.loops[0].metrics.batches > 5)
        member = worker.loops[0].intake._consumer
        fail_consumer(worker)
        assert await asking == list(range(200))
        assert worker.loops[0].intake._consumer is not member


async def test_a_consumer_that_fails_again_and_again_joins_more_and_more_seldom(prefix: str, tmp_path: Path) -> None:
    broker = MemoryBroker()
    async with running_worker(broker, python_model(tmp_path, "m"), prefix) as worker:
        intake, waits = worker.loops[0].intake, []
        for _ in range(4):
            member, began = intake._consumer, time.monotonic()
            fail_consumer(worker)
            await until(lambda old=member: intake._consumer is not old and intake._joined_at is not None)  # type: ignore[misc]
            waits.append(time.monotonic() - began)
        assert waits[3] >= 0.4  # the first is replaced at once, then it doubles from 0.1 s
        assert intake._pause_s >= 0.8
        assert await answers(broker, prefix)


async def answers(broker: Broker, prefix: str) -> bool:
    async with Client(broker, prefix=prefix) as client:
        return (await client.infer("m", row(0.0, 3))).outputs["y"].tolist() == [[0, 6]]


async def test_a_commit_that_fails_is_made_again_and_nothing_is_lost(
    broker: Broker, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = python_model(tmp_path, "m", SLEEPY)
    async with running_worker(broker, models, prefix) as worker, Client(broker, prefix=prefix) as client:
        consumer = worker.loops[0].intake._consumer
        commit, refusals = consumer.commit, 3

        async def commit_later(offsets: Any) -> None:
            nonlocal refusals
            refusals -= 1
            if refusals >= 0:
                raise BrokerError("no answer in time")
            await commit(offsets)

        monkeypatch.setattr(consumer, "commit", commit_later)
        assert await numbers(client, 20) == list(range(20))
        await until(lambda: refusals < 0)
    assert sum((await committed(broker, prefix)).values()) == 20


async def test_after_a_refused_commit_nothing_of_those_partitions_is_committed(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = MemoryBroker()
    models = python_model(tmp_path, "m", SLEEPY)
    async with running_worker(broker, models, prefix, partitions=1) as worker:
        intake = worker.loops[0].intake
        opened = await committed_once(broker, prefix)

        async def refuse(offsets: Any) -> None:
            raise CommitRefused("somebody else has them")

        monkeypatch.setattr(intake._consumer, "commit", refuse)
        async with Client(broker, prefix=prefix) as client:
            await client.infer("m", row(0.0, 1))
        await until(lambda: not intake.ledgers)
        monkeypatch.undo()
    assert await committed(broker, prefix) == opened == dict.fromkeys(opened, 0)


async def committed_once(broker: Broker, prefix: str) -> dict[TopicPartition, int]:
    """What the worker has committed at its assignment."""
    while True:
        if found := await committed(broker, prefix):
            return found
        await asyncio.sleep(0.01)


async def test_a_worker_whose_refused_commit_is_followed_by_no_assignment_joins_anew(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, models = MemoryBroker(), python_model(tmp_path, "m")
    async with running_worker(broker, models, prefix, drain_timeout_s=0.5, rebalance_timeout_s=1.0) as worker:
        intake = worker.loops[0].intake
        await committed_once(broker, prefix)

        async def refuse(offsets: Any) -> None:
            raise CommitRefused("somebody else has them")

        monkeypatch.setattr(intake._consumer, "commit", refuse)
        assert await answers(broker, prefix)
        await until(lambda: not intake.ledgers)
        assert await answers(broker, prefix)
        assert len(intake.ledgers) == 7  # two of each lane, one of the retry topic


async def test_a_fault_in_decoding_makes_a_dead_letter_and_stops_nothing(
    broker: Broker, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode, topics = Decoder.decode, Topics(prefix)

    def trips(self: Decoder, records: Any, first: int, *rest: Any) -> Any:
        if records[first].value == b"trip":
            raise ZeroDivisionError("a fault of ours")
        return decode(self, records, first, *rest)

    monkeypatch.setattr(Decoder, "decode", trips)
    async with running_worker(broker, python_model(tmp_path, "m"), prefix):
        producer = broker.producer()
        await producer.start()
        await producer.publish_batch(topics.requests("m", "async"), 0, [Outgoing(None, b"trip")])
        dead = TopicPartition(topics.dead("m"), 0)
        reader = broker.reader(frozenset([dead]), from_end=False)
        await reader.start()
        letter = (await reader.poll(1, 10.0))[dead][0]
        assert await answers(broker, prefix)
        await reader.stop()
        await producer.stop()
    headers = dict(letter.headers)
    assert (letter.value, headers["headrace-dead-code"]) == (b"trip", b"INTERNAL")
    assert headers["headrace-dead-message"] == b"the worker failed at decoding: ZeroDivisionError: a fault of ours"


async def test_a_fault_in_running_a_batch_is_told_to_each_caller_and_frees_the_slot(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, run = MemoryBroker(), Device.run
    faults = [ZeroDivisionError("a fault of ours")] * 3

    async def trips(self: Device, *arguments: Any) -> Any:
        if faults:
            raise faults.pop()
        return await run(self, *arguments)

    monkeypatch.setattr(Device, "run", trips)
    async with running_worker(broker, python_model(tmp_path, "m", max_batch_size=1), prefix) as worker:
        async with Client(broker, prefix=prefix) as client:
            asked = (row(0.0, n) for n in range(10))
            codes = [getattr(each, "code", "OK") async for each in client.map("m", asked)]
        await until(lambda: worker.loops[0].blockers() == "")
    assert sorted(codes) == ["INTERNAL"] * 3 + ["OK"] * 7


async def test_a_runner_that_dies_while_the_worker_drains_is_replaced_and_the_drain_is_clean(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    flag = tmp_path / "died"
    code = f"""
    import os, pathlib, time

    class Model:
        def predict(self, inputs):
            time.sleep(0.5)
            if not pathlib.Path({str(flag)!r}).exists():
                pathlib.Path({str(flag)!r}).touch()
                os._exit(3)
            return {{"y": inputs["x"] * 2}}
    """
    models = python_model(tmp_path / "models", "m", code)
    async with Client(broker, prefix=prefix) as client, running_worker(broker, models, prefix) as worker:
        asking = asyncio.create_task(client.infer("m", row(0.0, 4)))
        await until(lambda: "1 batches on the device" in worker.loops[0].blockers())
        worker.stop.signalled()
        assert (await asking).outputs["y"].tolist() == [[0, 8]]
        worker.stop.drain.clear()  # the rig's own signal shall be a first one
    assert worker.loops[0].device.deaths == 1
