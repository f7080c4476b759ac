"""The model directory on the broker in memory."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import worker_rig
from msgspec.structs import replace

from producer_sdk.announcements import Announcement, ModelState, encode_announcement
from producer_sdk.broker import Outgoing
from producer_sdk.directory import ModelDirectory
from producer_sdk.system_topics import ensure_system_topics, system_topics
from producer_sdk.testing import FakeWorker, MemoryBroker
from producer_sdk.topics import Topics

TOPICS = Topics()
NOW_S = 1_000_000_000.0
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
        if set(directory.models()) == set(names):
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"the models stay {list(directory.models())}")


def state_of_mlp(directory: ModelDirectory) -> ModelState | None:
    view = directory.get("mlp")
    return None if view is None else view.state


class Clock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def broker(clock: Clock) -> MemoryBroker:
    return MemoryBroker(clock=clock)


@pytest.fixture
async def directory(broker: MemoryBroker, clock: Clock) -> AsyncIterator[ModelDirectory]:
    """Not started."""
    directory = ModelDirectory(broker, TOPICS, 1500, clock, clock)
    yield directory
    await directory.close()


async def test_what_was_announced_before_is_there_when_start_returns(
    broker: MemoryBroker, directory: ModelDirectory
) -> None:
    for number in range(1200):
        await announce(broker, announced(f"w{number}"))
    await directory.start()
    view = directory.get("mlp")
    assert directory.caught_up
    assert view is not None
    assert view.workers == 1200


async def test_announcements_and_tombstones_are_followed(broker: MemoryBroker, directory: ModelDirectory) -> None:
    await directory.start()
    assert directory.models() == {}
    await announce(broker, announced(model="b"))
    await announce(broker, announced(model="a"))
    await until(directory, "a", "b")
    assert list(directory.models()) == ["a", "b"]
    await put(broker, announced(model="a").key, None)
    await until(directory, "b")
    assert directory.get("a") is None


async def test_a_view_goes_stale_without_a_new_announcement(
    broker: MemoryBroker, directory: ModelDirectory, clock: Clock
) -> None:
    await announce(broker, announced())
    await directory.start()
    states = []
    for age_s in (0.0, 6.0, 6.001, 3600.1):
        clock.now_s = NOW_S + age_s
        states.append(state_of_mlp(directory))
    assert states == [ModelState.READY, ModelState.READY, ModelState.UNAVAILABLE, None]


async def test_of_two_announcements_of_one_millisecond_the_later_in_the_log_is_newest(broker: MemoryBroker) -> None:
    await announce(broker, announced("w1"))
    await announce(broker, announced("w2"))
    passing = itertools.count(NOW_S, 0.001)
    directory = ModelDirectory(broker, TOPICS, clock=lambda: NOW_S, wall_clock=lambda: next(passing))
    await directory.start()
    view = directory.get("mlp")
    await directory.close()
    assert view is not None
    assert view.newest.worker == "w2"


async def test_nobody_is_called_silent_for_the_time_in_which_the_reader_stood_still(broker: MemoryBroker) -> None:
    directory = ModelDirectory(broker, TOPICS)
    await directory.start()
    await announce(broker, replace(announced(), heartbeat_s=0.2))
    await until(directory, "mlp")
    time.sleep(1.5)  # noqa: ASYNC251 - the whole process is meant to stand still, for much longer than three heartbeats
    assert state_of_mlp(directory) is ModelState.READY
    await worker_rig.until(lambda: state_of_mlp(directory) is ModelState.UNAVAILABLE)
    await directory.close()


async def test_when_a_worker_spoke_is_told_right_however_long_the_reader_was_deaf(
    broker: MemoryBroker, clock: Clock
) -> None:
    directory = ModelDirectory(broker, TOPICS, clock=lambda: 0.0, wall_clock=clock)
    await directory.start()
    clock.now_s += 3600
    await announce(broker, announced(at_ms=NOW_MS + 3_600_000))
    await until(directory, "mlp")
    await directory.close()
    view = directory.get("mlp")
    assert view is not None
    assert view.newest.at_ms == NOW_MS + 3_600_000


async def test_what_was_announced_long_before_the_start_is_stale(
    broker: MemoryBroker, directory: ModelDirectory, clock: Clock
) -> None:
    await announce(broker, announced(at_ms=NOW_MS + 60_000))
    clock.now_s += 6.5
    await directory.start()
    view = directory.get("mlp")
    assert view is not None
    assert (view.state, view.newest.at_ms) == (ModelState.UNAVAILABLE, NOW_MS + 5000)


async def test_a_clock_ahead_makes_no_worker_live_longer_or_newer(
    broker: MemoryBroker, directory: ModelDirectory, clock: Clock
) -> None:
    await directory.start()
    await announce(broker, announced("ahead", at_ms=10**18))
    await announce(broker, announced("true", at_ms=NOW_MS - 60_000))
    await until(directory, "mlp")
    view = directory.get("mlp")
    assert view is not None
    assert (view.newest.worker, view.workers) == ("true", 2)
    clock.now_s += 6.5
    stale = directory.get("mlp")
    assert stale is not None
    assert stale.workers == 0


@pytest.mark.parametrize(
    "absurd",
    [
        {"heartbeat_s": 1e300},
        {"heartbeat_s": 0.0},
        {"max_record_bytes": -1},
        {"max_batch_size": -3},
        {"default_deadline_s": -1.0},
        {"model": "a.b"},
        {"worker": "a\nb"},
        {"versions": ("\x1b[2J",)},
        {"versions": ("",)},
    ],
)
async def test_an_absurd_announcement_is_passed_over_and_logged_once(
    broker: MemoryBroker, directory: ModelDirectory, caplog: pytest.LogCaptureFixture, absurd: dict[str, Any]
) -> None:
    await announce(broker, announced())
    bad = replace(announced("stranger"), **absurd)
    await announce(broker, bad)
    await announce(broker, bad)
    await directory.start()
    view = directory.models()["mlp"]
    assert (list(directory.models()), view.workers, view.newest.worker) == (["mlp"], 1, "w1")
    assert len([record for record in caplog.records if "are passed over" in record.message]) == 1


async def test_foreign_and_unreadable_records_are_passed_over(broker: MemoryBroker, directory: ModelDirectory) -> None:
    await announce(broker, announced())
    await put(broker, announced().key, b"{not json")
    await put(broker, b"desired/mlp", b"{}")
    await put(broker, b"worker/other/mlp", encode_announcement(announced()))
    await directory.start()
    view = directory.get("mlp")
    assert view is not None
    assert view.workers == 1


async def test_the_number_of_keys_is_bounded_and_the_oldest_go_first(broker: MemoryBroker, clock: Clock) -> None:
    for number in range(5):
        await announce(broker, announced(model=f"m{number}"))
        clock.now_s += 0.1
    directory = ModelDirectory(broker, TOPICS, 3, clock, clock)
    await directory.start()
    assert list(directory.models()) == ["m2", "m3", "m4"]
    await directory.close()


async def test_a_fake_workers_announcement_is_seen(broker: MemoryBroker, directory: ModelDirectory) -> None:
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
