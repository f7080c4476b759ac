"""A request whose failure passes by itself is tried again, never before its time, wherever it waits for it."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from broker_clients import Clients, read
from model_folders import python_model
from worker_rig import running_worker, until

from producer_sdk import Client
from producer_sdk.broker import Broker, Outgoing
from producer_sdk.errors import ModelNotReady
from producer_sdk.tensors import Array

PAUSE_S = 0.6
IN_PLACE, BY_TOPIC = {"in_place_s": 60}, {"in_place_s": 0}

# Doubles; fails the first runs of a row, as many as its first number says. Each run is noted with its time.
AWAY = """
import time

class Away(Exception):
    code = "MODEL_NOT_READY"

class Model:
    def load(self, context):
        self.log, self.pause_s = context.parameters["log"], context.parameters["pause_s"]

    def predict(self, inputs):
        with open(self.log, "a+") as log:
            log.seek(0)
            runs = [line.split()[0] for line in log]
            answers = []
            for failures, number in inputs["x"].tolist():
                name = str(int(number))
                log.write(f"{name} {time.time()}\\n")
                error = Away("the database is away")
                error.retry_after_s = self.pause_s
                answers.append(error if runs.count(name) < failures else {"y": [2 * failures, 2 * number]})
            return answers
"""


def away(root: Path, *, pause_s: float = PAUSE_S, **retry: object) -> Path:
    parameters = {"log": str(root / "runs"), "pause_s": pause_s}
    return python_model(root / "models", "m", AWAY, parameters=parameters, retry=retry)


def times_of(root: Path, number: int) -> list[float]:
    """When the row of that number was run."""
    log = root / "runs"
    lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [float(at) for name, at in lines if name == str(number)]


def row(failures: int, number: int) -> Mapping[str, Array]:
    return {"x": np.array([[failures, number]], np.float32)}


@pytest.mark.parametrize("where", [IN_PLACE, BY_TOPIC], ids=["in-place", "by-topic"])
async def test_each_further_attempt_waits_as_long_as_the_model_said(
    broker: Broker, prefix: str, tmp_path: Path, where: Mapping[str, float]
) -> None:
    models = away(tmp_path, **where)
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        answers = await asyncio.gather(client.infer("m", row(2, 5)), client.infer("m", row(0, 6)))
    assert [answer.outputs["y"].tolist() for answer in answers] == [[[4, 10]], [[0, 12]]]
    first, second, third = times_of(tmp_path, 5)
    assert min(second - first, third - second) >= PAUSE_S
    assert len(times_of(tmp_path, 6)) == 1


@pytest.mark.parametrize(("where", "committed"), [(IN_PLACE, 0), (BY_TOPIC, 1)], ids=["in-place", "by-topic"])
async def test_an_offset_does_not_wait_for_a_long_pause(
    broker: Broker, prefix: str, tmp_path: Path, clients: Clients, where: Mapping[str, float], committed: int
) -> None:
    async with running_worker(broker, away(tmp_path, pause_s=50, **where), prefix):
        async with Client(broker, prefix=prefix) as client:
            await client.publish("m", row(1, 5))
        await until(lambda: times_of(tmp_path, 5) != [])
    offsets = await (await clients.admin()).committed(f"{prefix}.m")
    lane = [place.offset for partition, place in offsets.items() if partition.topic == f"{prefix}.m.async"]
    assert (sum(lane), len(times_of(tmp_path, 5))) == (committed, 1)


async def test_a_request_that_waits_on_the_topic_outlives_the_worker_and_keeps_its_time_and_its_attempts(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = away(tmp_path, pause_s=1.5, limit=2, **BY_TOPIC)
    async with Client(broker, prefix=prefix) as client:
        async with running_worker(broker, models, prefix):
            asked = asyncio.create_task(client.infer("m", row(9, 5)))
            await until(lambda: times_of(tmp_path, 5) != [])
        async with running_worker(broker, models, prefix):
            with pytest.raises(ModelNotReady, match="the database is away"):
                await asked
    first, second = times_of(tmp_path, 5)
    assert second - first >= 1.5


@pytest.mark.parametrize("where", [IN_PLACE, BY_TOPIC], ids=["in-place", "by-topic"])
async def test_the_last_attempt_is_answered_with_its_error(
    broker: Broker, prefix: str, tmp_path: Path, where: Mapping[str, float]
) -> None:
    models = away(tmp_path, pause_s=0.05, limit=3, first_delay_s=0.01, **where)
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        with pytest.raises(ModelNotReady, match="the database is away"):
            await client.infer("m", row(9, 5))
    assert len(times_of(tmp_path, 5)) == 3


async def test_a_pause_beyond_the_deadline_is_not_waited_for(broker: Broker, prefix: str, tmp_path: Path) -> None:
    models = away(tmp_path, pause_s=30)
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        began = time.monotonic()
        with pytest.raises(ModelNotReady):
            await client.infer("m", row(1, 5), deadline_s=10)
        assert time.monotonic() - began < 5


async def test_what_another_hand_wrote_on_the_retry_topic_is_answered_too(
    broker: Broker, prefix: str, tmp_path: Path, clients: Clients
) -> None:
    body = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0, 5]}]}'
    async with running_worker(broker, away(tmp_path), prefix):
        producer = await clients.producer()
        headers = [("headrace-retry-due", b"soon"), ("headrace-retry-topic", b"\xff")]
        await (await producer.publish(f"{prefix}.m.retry", Outgoing(None, body, headers), 0))
        (reply,) = await read(await clients.reader(f"{prefix}.m.results", *range(8)), 1)
    assert reply.key == f"{prefix}.m.retry:0:0".encode()
    assert times_of(tmp_path, 5) != []
