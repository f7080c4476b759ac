"""Announcements: at once when something changed, again at each heartbeat, and taken back at the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from worker_rig import until

from producer_sdk.announcements import Announcement, ModelState, TensorAnnouncement, decode_announcement
from producer_sdk.broker import BrokerError, Consumer, Topic, TopicPartition
from producer_sdk.errors import PayloadTooLarge
from producer_sdk.memory import MemoryBroker
from producer_sdk.tensors import Datatype
from workers.announce import MAX_REASON_CHARS, Announcer, announcement
from workers.runners.engine import Loaded, ModelSpec, Signature, TensorSpec

SPEC = ModelSpec("m", "2", Path(), "python", v1_input="text", default_deadline_s=5.0)
X = TensorSpec("x", Datatype.FP32, (2, -1))


def say(loaded: Loaded | None = None, state: ModelState = ModelState.LOADING, reason: str = "") -> Announcement:
    return announcement("w", SPEC, loaded, state, reason, heartbeat_s=2.0, max_record_bytes=100, now_ms=7)


def test_a_loaded_model_is_announced_with_its_signature_and_limits() -> None:
    said = say(Loaded(Signature((X,), (X,)), "onnx_onnxv1", 8), ModelState.READY)
    assert (said.worker, said.model, said.versions, said.state, said.at_ms) == ("w", "m", ("2",), ModelState.READY, 7)
    assert said.inputs == said.outputs == (TensorAnnouncement("x", Datatype.FP32, (2, -1)),)
    assert (said.max_batch_size, said.max_record_bytes, said.v1_input, said.default_deadline_s) == (8, 100, "text", 5.0)


def test_a_model_that_is_not_loaded_is_announced_without_signature() -> None:
    said = say()
    assert (said.inputs, said.outputs, said.max_batch_size, said.platform) == ((), (), 0, "")


def test_any_reason_can_be_announced() -> None:
    said = say(state=ModelState.UNAVAILABLE, reason="no file \udcff" + "x" * 5000)
    assert said.reason.startswith("no file ?x")
    assert len(said.reason) == MAX_REASON_CHARS


class Rig:
    """An announcer whose topic is read; `current` is what it says."""

    reader: Consumer

    def __init__(self) -> None:
        self.broker = MemoryBroker(send_timeout_s=60.0)
        self.current = [say()]
        self.asked = 0
        self.changed = asyncio.Event()

    def says(self, now_ms: int) -> list[Announcement]:
        self.asked += 1
        return self.current

    async def read(self, count: int) -> list[ModelState | None]:
        """The state in each of the next records; None for a tombstone."""
        states: list[ModelState | None] = []
        while len(states) < count:
            polled = await self.reader.poll(count, 5.0)
            assert polled, "nothing more is announced"
            for record in next(iter(polled.values())):
                said = decode_announcement(record.value) if record.value is not None else None
                states.append(None if said is None else said.state)
        return states


@asynccontextmanager
async def announcing(heartbeat_s: float = 60.0) -> AsyncIterator[tuple[Rig, Announcer]]:
    rig = Rig()
    await rig.broker.admin().create_topics([Topic("p.control", 1)])
    producer = rig.broker.producer()
    await producer.start()
    rig.reader = rig.broker.reader(frozenset([TopicPartition("p.control", 0)]), from_end=False)
    await rig.reader.start()
    announcer = Announcer(producer, "p.control", rig.says, heartbeat_s, rig.changed)
    running = asyncio.create_task(announcer.run())
    yield rig, announcer
    assert not running.done()
    running.cancel()
    await producer.stop(0.0)


async def test_it_announces_at_the_start_and_at_once_after_a_change() -> None:
    async with announcing() as (rig, _):
        assert await rig.read(1) == [ModelState.LOADING]
        rig.current = [say(state=ModelState.READY)]
        rig.changed.set()
        assert await rig.read(1) == [ModelState.READY]


async def test_it_repeats_what_it_says_at_each_heartbeat() -> None:
    async with announcing(0.01) as (rig, _):
        assert await rig.read(4) == [ModelState.LOADING] * 4


async def test_leaving_takes_each_announcement_back() -> None:
    async with announcing() as (rig, announcer):
        await rig.read(1)
        await announcer.leave(1.0)
        assert await rig.read(1) == [None]


@pytest.mark.parametrize("error", [BrokerError("not now"), PayloadTooLarge("too long")])
async def test_an_announcement_that_is_refused_is_said_again_at_the_next_heartbeat(
    error: BrokerError | PayloadTooLarge,
) -> None:
    async with announcing(0.01) as (rig, _):
        await rig.read(1)
        rig.broker.fail_publish("p.control", error, arrives=False)
        asked = rig.asked
        await until(lambda: rig.asked >= asked + 3)
        rig.broker.fail_publish("p.control", None)
        assert await rig.read(1) == [ModelState.LOADING]


async def test_leaving_a_broker_that_is_silent_takes_no_longer_than_its_time() -> None:
    async with announcing() as (rig, announcer):
        await rig.read(1)
        rig.broker.hold_acknowledgements()
        async with asyncio.timeout(1.0):
            await announcer.leave(0.05)
