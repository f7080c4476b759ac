"""Every cancelled request ends in one outcome: CANCELLED, or the one already published."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
from model_folders import DEADLY, SLEEPY, python_model
from worker_rig import running_worker, until

from headrace.reply_reader import open_replies
from producer_sdk import Cancelled, Client
from producer_sdk.broker import Broker
from producer_sdk.errors import HeadraceError
from producer_sdk.records import decode_reply_record
from producer_sdk.tensors import Array
from producer_sdk.topics import Topics

QUICK_S = 1.0


def row(first: float, second: float = 1) -> dict[str, Array]:
    return {"x": np.array([[first, second]], np.float32)}


async def outcomes(broker: Broker, topic: str) -> dict[str, list[str]]:
    """The codes of each id on a reply topic, OK for a result."""
    found: dict[str, list[str]] = defaultdict(list)
    async with open_replies(broker, topic) as reader:
        for record in await reader.last(10_000):
            outcome = decode_reply_record(record.value)
            assert outcome.id is not None
            found[outcome.id].append(outcome.code if isinstance(outcome, HeadraceError) else "OK")
    return found


async def results(broker: Broker, prefix: str) -> dict[str, list[str]]:
    return await outcomes(broker, Topics(prefix).results("m"))


async def until_answered(broker: Broker, prefix: str, ids: Collection[str]) -> dict[str, list[str]]:
    """The results once there are some of each of these ids."""
    for _ in range(75):
        found = await results(broker, prefix)
        if found.keys() >= set(ids):
            return found
        await asyncio.sleep(0.2)
    pytest.fail(f"after 15 s there is no outcome of {sorted(set(ids) - found.keys())}")


async def test_before_any_worker_lives(broker: Broker, prefix: str, tmp_path: Path) -> None:
    log = tmp_path / "runs"
    models = python_model(tmp_path / "models", "m", DEADLY, parameters={"log": str(log)})
    async with running_worker(broker, models, prefix):
        pass  # makes the topics
    async with Client(broker, prefix=prefix) as client:
        for number in (4, 5, 6):
            await client.publish("m", row(1, number), id=f"job-{number}")
        await client.cancel("job-5")
        async with running_worker(broker, models, prefix):
            await until_answered(broker, prefix, ["job-4", "job-5", "job-6"])
    assert await results(broker, prefix) == {"job-4": ["OK"], "job-5": ["CANCELLED"], "job-6": ["OK"]}
    assert "5" not in log.read_text().split()


async def test_while_it_waits_behind_a_long_batch(broker: Broker, prefix: str, tmp_path: Path) -> None:
    models = python_model(tmp_path, "m", SLEEPY, max_batch_size=1)
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        await client.infer("m", row(0))
        long = [asyncio.create_task(client.infer("m", row(1.5))) for _ in range(2)]  # on the device, in the second slot
        await asyncio.sleep(0.3)
        waiting = asyncio.create_task(client.infer("m", row(0), id="job-1"))
        await asyncio.sleep(0.2)
        await client.cancel("job-1")
        with pytest.raises(Cancelled):
            await asyncio.wait_for(waiting, QUICK_S)
        await asyncio.gather(*long)
    assert (await outcomes(broker, Topics(prefix).replies))["job-1"] == ["CANCELLED"]


async def test_while_it_runs(broker: Broker, prefix: str, tmp_path: Path) -> None:
    models = python_model(tmp_path, "m", SLEEPY)
    async with running_worker(broker, models, prefix) as worker, Client(broker, prefix=prefix) as client:
        await client.infer("m", row(0))
        both = [asyncio.create_task(client.infer("m", row(1.0), id=id)) for id in ("job-1", "job-2")]
        await asyncio.sleep(0.3)
        await client.cancel("job-1")
        with pytest.raises(Cancelled):
            await both[0]
        assert (await both[1]).id == "job-2"
        assert worker.health.ready() is None
    found = await outcomes(broker, Topics(prefix).replies)
    assert (found["job-1"], found["job-2"]) == (["CANCELLED"], ["OK"])


async def test_when_it_is_answered_already_and_its_id_is_used_again(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m")
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        await client.infer("m", row(1), id="job-1")
        await client.cancel("job-1")
        await asyncio.sleep(0.3)  # longer than clocks may differ
        assert (await outcomes(broker, Topics(prefix).replies))["job-1"] == ["OK"]
        assert (await client.infer("m", row(2), id="job-1")).outputs["y"][0, 0] == 4
    assert (await outcomes(broker, Topics(prefix).replies))["job-1"] == ["OK", "OK"]


async def test_two_of_one_id_in_one_batch_end_each_by_itself(broker: Broker, prefix: str, tmp_path: Path) -> None:
    models = python_model(tmp_path, "m", SLEEPY)
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        await client.infer("m", row(0))
        long = [asyncio.create_task(client.infer("m", row(0.7))) for _ in range(2)]
        await asyncio.sleep(0.1)
        given_up = asyncio.create_task(client.infer("m", row(0.7), id="job-1"))
        await asyncio.sleep(0.3)  # longer than clocks may differ
        await client.publish("m", row(0.7), id="job-1")
        await asyncio.gather(*long)
        await asyncio.sleep(0.2)
        given_up.cancel()
        await until_answered(broker, prefix, ["job-1"])
    assert (await results(broker, prefix))["job-1"] == ["OK"]
    assert (await outcomes(broker, Topics(prefix).replies))["job-1"] == ["CANCELLED"]


async def test_when_its_caller_gives_up(broker: Broker, prefix: str, tmp_path: Path) -> None:
    models = python_model(tmp_path, "m", SLEEPY)
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        await client.infer("m", row(0))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.infer("m", row(1.0), id="job-1")
        await until(lambda: client.counters.late == 1)
    assert (await outcomes(broker, Topics(prefix).replies))["job-1"] == ["CANCELLED"]


async def test_a_storm_of_cancels_leaves_no_request_without_its_one_outcome(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m", SLEEPY, max_batch_size=8)
    ids, chosen = [f"job-{number}" for number in range(200)], random.Random(4).sample(range(200), 100)
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:

        async def ask(number: int) -> None:
            await client.publish("m", row(0.005), id=ids[number])
            if number in chosen:
                await asyncio.sleep(random.Random(number).random() * 0.4)
                await client.cancel(ids[number])

        await asyncio.gather(*map(ask, range(200)))
        await until_answered(broker, prefix, ids)
    found = await results(broker, prefix)
    assert {id: codes for id, codes in found.items() if len(codes) != 1} == {}
    assert {id for id, codes in found.items() if codes == ["CANCELLED"]} <= {ids[number] for number in chosen}
    assert {code for codes in found.values() for code in codes} <= {"OK", "CANCELLED"}
