"""A worker tells others that a model is ready only when it can answer, and says when Kafka is gone."""

from pathlib import Path

import numpy as np
import pytest
from model_folders import python_model
from worker_rig import running_worker, until

from headrace.local_kafka import LocalKafka
from producer_sdk import Client
from producer_sdk.announcements import ModelState
from producer_sdk.broker import Broker
from producer_sdk.directory import ModelDirectory
from producer_sdk.kafka import KafkaBroker
from producer_sdk.topics import Topics


async def test_a_model_is_announced_ready_only_once_its_group_has_given_out_partitions(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    async with running_worker(broker, python_model(tmp_path, "m"), prefix) as worker:
        directory = ModelDirectory(broker, Topics(prefix))
        await directory.start()
        await until(lambda: (view := directory.get("m")) is not None and view.state is ModelState.READY)
        worker.loops[0].intake.assignments = 0
        assert worker.loops[0].standing() == (ModelState.LOADING, "it waits for partitions")
        await directory.close()


@pytest.mark.kafka
@pytest.mark.timeout(180)
async def test_a_worker_is_unready_while_kafka_is_away_and_goes_on_when_it_is_back(
    prefix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalKafka() as kafka:
        broker = KafkaBroker(kafka.bootstrap_servers)
        async with running_worker(broker, python_model(tmp_path, "m"), prefix, session_timeout_s=6.0) as worker:
            kafka.kill()
            await until(lambda: "Kafka has not acknowledged" in (worker.health.ready() or ""), 20.0)
            assert worker.health.live() is None
            kafka.restart()
            await until(lambda: worker.health.ready() is None, 40.0)
            async with Client(broker, prefix=prefix) as client:
                reply = await client.infer("m", {"x": np.ones((1, 2), np.float32)})
            assert reply.outputs["y"].tolist() == [[2.0, 2.0]]
