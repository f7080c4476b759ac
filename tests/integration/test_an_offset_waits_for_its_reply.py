"""An offset is committed only after its outcome is acknowledged; the lowest contiguous one is."""

from pathlib import Path

import numpy as np
from model_folders import SLEEPY, python_model
from worker_rig import running_worker, until

from producer_sdk import Client
from producer_sdk.broker import Broker
from producer_sdk.memory import MemoryBroker
from producer_sdk.topics import Topics


async def committed_offsets(broker: Broker, topics: Topics) -> int:
    admin = broker.admin()
    await admin.start()
    committed = await admin.committed(topics.group("m"))
    await admin.stop()
    return sum(each.offset for each in committed.values())


async def test_nothing_is_committed_while_the_acknowledgement_is_held_back(prefix: str, tmp_path: Path) -> None:
    broker, topics = MemoryBroker(), Topics(prefix)
    models = python_model(tmp_path, "m")
    async with running_worker(broker, models, prefix) as worker, Client(broker, prefix=prefix) as client:
        await client.publish("m", {"x": np.ones((1, 2), np.float32)})
        await until(lambda: sum(worker.loops[0].metrics.outcomes.values()) == 1)
        await until(lambda: worker.loops[0].blockers() == "")
        before = await committed_offsets(broker, topics)
        await client.publish("m", {"x": np.ones((1, 2), np.float32)})
        broker.hold_acknowledgements()
        # no acknowledgement can arrive now, neither for the reply nor for anything else
        await until(lambda: "1 replies not acknowledged" in worker.loops[0].blockers())
        assert await committed_offsets(broker, topics) <= before + 1
        broker.release_acknowledgements()
        await until(lambda: worker.loops[0].blockers() == "")


async def test_a_batch_that_still_runs_holds_back_the_commit_of_its_partition(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    topics = Topics(prefix)
    models = python_model(tmp_path, "m", SLEEPY, max_batch_size=1)
    async with running_worker(broker, models, prefix, partitions=1), Client(broker, prefix=prefix) as client:
        await client.publish("m", {"x": np.array([[1.0, 1]], np.float32)})
        await client.publish("m", {"x": np.array([[0.0, 1]], np.float32)})
        assert await committed_offsets(broker, topics) == 0
