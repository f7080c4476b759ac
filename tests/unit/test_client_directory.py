"""The model directory on the broker in memory."""

import asyncio

import pytest

from producer_sdk.announcements import Announcement, ModelState, encode_announcement
from producer_sdk.broker import Outgoing
from producer_sdk.directory import ModelDirectory
from producer_sdk.system_topics import ensure_system_topics, system_topics
from producer_sdk.testing import FakeWorker, MemoryBroker
from producer_sdk.topics import Topics

TOPICS = Topics()
NOW_MS = 1_000_000_000_000


def announced(worker: str = "w1", model: str = "mlp", *, at_ms: int = NOW_MS) -> Announcement:
    return Announcement(worker, model, ("1",), ModelState.READY, at_ms, heartbeat_s=2.0)


async def put(broker: MemoryBroker, key: bytes, value: bytes | None) -> None:
    await ensure_system_topics(broker.admin(), TOPICS)
    producer = broker.producer()
    await producer.start()
    await (await producer.publish(TOPICS.control, Outgoing(key, value), 0))
    await producer.stop()


async def announce(broker: MemoryBroker, announcement: Announcement) -> None:
    await put(broker, announcement.key, encode_announcement(announcement))


async def until(directory: ModelDirectory, *names: str) -> None:
    for _ in range(300):
        if set(directory.models(NOW_MS)) == set(names):
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"the models stay {list(directory.models(NOW_MS))}")


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


async def test_what_was_announced_before_is_there_when_start_returns(broker: MemoryBroker) -> None:
    for number in range(1200):
        await announce(broker, announced(f"w{number}"))
    directory = ModelDirectory(broker, TOPICS)
    await directory.start()
    view = directory.get("mlp", NOW_MS)
    assert directory.caught_up
    assert view is not None
    assert view.workers == 1200
    await directory.close()


async def test_announcements_and_tombstones_are_followed(broker: MemoryBroker) -> None:
    directory = ModelDirectory(broker, TOPICS)
    await directory.start()
    assert directory.models(NOW_MS) == {}
    await announce(broker, announced(model="b"))
    await announce(broker, announced(model="a"))
    await until(directory, "a", "b")
    assert list(directory.models(NOW_MS)) == ["a", "b"]
    await put(broker, announced(model="a").key, None)
    await until(directory, "b")
    assert directory.get("a", NOW_MS) is None
    await directory.close()


async def test_a_view_goes_stale_without_a_new_announcement(broker: MemoryBroker) -> None:
    await announce(broker, announced())
    directory = ModelDirectory(broker, TOPICS)
    await directory.start()
    states = [getattr(directory.get("mlp", NOW_MS + age), "state", None) for age in (0, 6000, 6001, 3_600_001)]
    assert states == [ModelState.READY, ModelState.READY, ModelState.UNAVAILABLE, None]
    await directory.close()


async def test_foreign_and_unreadable_records_are_passed_over(broker: MemoryBroker) -> None:
    await announce(broker, announced())
    await put(broker, announced().key, b"{not json")
    await put(broker, b"desired/mlp", b"{}")
    await put(broker, b"worker/other/mlp", encode_announcement(announced()))
    directory = ModelDirectory(broker, TOPICS)
    await directory.start()
    view = directory.get("mlp", NOW_MS)
    assert view is not None
    assert view.workers == 1
    await directory.close()


async def test_the_number_of_keys_is_bounded_and_the_oldest_go_first(broker: MemoryBroker) -> None:
    for number in range(5):
        await announce(broker, announced(model=f"m{number}", at_ms=NOW_MS + number))
    directory = ModelDirectory(broker, TOPICS, max_keys=3)
    await directory.start()
    assert list(directory.models(NOW_MS)) == ["m2", "m3", "m4"]
    await directory.close()


async def test_a_fake_workers_announcement_is_seen(broker: MemoryBroker) -> None:
    directory = ModelDirectory(broker, TOPICS)
    async with FakeWorker(broker, "iris", lambda inputs: inputs, version="4"):
        await directory.start()
        view = directory.get("iris")
        assert view is not None
        assert (view.state, view.versions) == (ModelState.READY, ("4",))
    await directory.close()


def test_the_system_topics_have_the_settings_that_headrace_relies_on() -> None:
    replies, control, cancels = system_topics(TOPICS, replication_factor=3)
    assert (replies.partitions, replies.config["cleanup.policy"], replies.config["retention.ms"]) == (
        32,
        "delete",
        "3600000",
    )
    assert (control.partitions, control.config["cleanup.policy"]) == (1, "compact")
    assert (cancels.partitions, cancels.config["retention.ms"], cancels.replication_factor) == (1, "3600000", 3)
