"""With `dedupe: redis` a request that comes again is answered as before, without another run."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from broker_clients import Clients, read
from counting_model import asking, counting_model, runs
from redis_server import running_redis
from worker_rig import WorkerProcess

from producer_sdk import Client
from producer_sdk.broker import Broker
from producer_sdk.kafka import KafkaBroker
from producer_sdk.model_topics import RESULT_PARTITIONS
from producer_sdk.topics import Topics


async def test_the_same_request_again_is_answered_as_before(broker: Broker, prefix: str, tmp_path: Path) -> None:
    with running_redis() as redis:
        async with asking(broker, prefix, counting_model(tmp_path), redis.url) as asked:
            first, again = await asked.answer("a", 1), await asked.answer("a", 1)
            assert (again.outputs["y"].tolist(), again.parameters) == ([[2, 2]], first.parameters)
            assert (runs(tmp_path), asked.index.hits) == (["1"], 1)


async def test_an_id_that_is_used_for_something_else_is_run(broker: Broker, prefix: str, tmp_path: Path) -> None:
    with running_redis() as redis:
        async with asking(broker, prefix, counting_model(tmp_path), redis.url) as asked:
            answers = [await asked.answer("a", x) for x in (1, 5, 5)]
            assert [answer.outputs["y"].tolist() for answer in answers] == [[[2, 2]], [[10, 2]], [[10, 2]]]
            assert runs(tmp_path) == ["1", "5"]


async def test_another_version_of_the_model_runs_it(broker: Broker, prefix: str, tmp_path: Path) -> None:
    with running_redis() as redis:
        models = counting_model(tmp_path)
        async with asking(broker, prefix, models, redis.url) as asked:
            await asked.answer("a", 1)
        (models / "m" / "1").rename(models / "m" / "2")
        async with asking(broker, prefix, models, redis.url) as asked:
            assert (await asked.answer("a", 1)).version == "2"
        assert runs(tmp_path) == ["1", "1"]


async def test_a_reply_is_forgotten_after_its_time(broker: Broker, prefix: str, tmp_path: Path) -> None:
    with running_redis() as redis:
        async with asking(broker, prefix, counting_model(tmp_path), redis.url, reply_index_ttl_s=0.2) as asked:
            await asked.answer("a", 1)
            await asyncio.sleep(0.3)
            await asked.answer("a", 1)
            assert runs(tmp_path) == ["1", "1"]


@pytest.mark.timeout(180)
async def test_what_a_killed_worker_has_answered_is_not_run_by_the_next(
    kafka_broker: KafkaBroker, prefix: str, tmp_path: Path
) -> None:
    models = counting_model(tmp_path)
    with running_redis() as redis:
        killed, following = (
            WorkerProcess(kafka_broker.bootstrap_servers, models, prefix, tmp_path / name, HEADRACE_REDIS_URL=redis.url,
                          HEADRACE_COMMIT_INTERVAL_S="60", HEADRACE_SESSION_TIMEOUT_S="6")
            for name in ("killed", "following")
        )  # fmt: skip
        killed.start()
        await killed.serves()
        try:
            async with Clients(kafka_broker, prefix) as clients, Client(kafka_broker, prefix=prefix) as client:
                results = await clients.reader(Topics(prefix).results("m"), *range(RESULT_PARTITIONS))
                await client.publish("m", {"x": np.ones((1, 2), np.float32)})
                first = await read(results, 1)
                killed.kill()  # nothing is committed
                following.start()
                again = await read(results, 1)
        finally:
            killed.kill()
            following.kill()
    assert [record.value for record in again] == [record.value for record in first]
    assert runs(tmp_path) == ["1"]
