"""Partitions that leave a living worker: each of their records is answered once, and an orderly leave blames nobody."""

import asyncio
from collections.abc import Mapping

import chaos_process
import chaos_runner
import pytest
from broker_clients import Owner
from chaos_runner import FATAL, TRANSIENT
from chaos_scenario import Scene, ok, scenario
from chaos_world import _read_return_address
from slow_redis import SlowRedis

import workers.inspection
import workers.serve
from producer_sdk.broker import BrokerError, Committed, Consumer, Record, TopicPartition
from producer_sdk.errors import HeadraceError
from producer_sdk.wire import Refused
from workers.retry_records import Origin

pytestmark = pytest.mark.chaos


class Usher(Owner):
    """Lets another member join as soon as it has partitions."""

    def __init__(self, following: Consumer) -> None:
        super().__init__()
        self._following = [following]

    async def assigned(self, starts: Mapping[TopicPartition, Committed]) -> None:
        await super().assigned(starts)
        while self._following:
            await self._following.pop().start()


@scenario()
async def test_what_was_polled_between_two_give_backs_is_left_to_the_next_owner(scene: Scene) -> None:
    await scene.begin()
    await scene.publish_undeliverable("held", partition=1)  # so that each give-back takes its drain budget
    await asyncio.sleep(2.0)
    second = scene.member()
    first = scene.member(Usher(second))
    await first.start()
    await asyncio.sleep(5.0)
    scene.lay("a", "b")
    await asyncio.sleep(60.0)
    await asyncio.gather(first.stop(), second.stop())
    await asyncio.sleep(60.0)
    assert (scene.answers(), scene.committed().offset) == (ok("a", "b"), 2)


async def begin_with_a_slow_redis(scene: Scene) -> None:
    """The worker asks Redis for earlier replies, one partition of a haul after the other."""
    scene.serve({"dedupe": "redis"})
    scene.replace(workers.serve, "redis_for", lambda *asked: SlowRedis())
    await scene.begin()


@scenario()
async def test_what_waits_for_redis_when_its_partition_is_revoked_is_left_to_the_next_owner(scene: Scene) -> None:
    scene.replace(chaos_runner, "RUN_S", 5.0)  # the revocation takes as long
    await begin_with_a_slow_redis(scene)
    await scene.publish("running")
    await asyncio.sleep(1.0)
    scene.lay("a", "b")
    scene.lay("c", "d", partition=1)
    scene.wake()
    await asyncio.sleep(0.1)
    other = scene.member()
    await other.start()
    await asyncio.sleep(10.0)
    await other.stop()
    await asyncio.sleep(30.0)
    assert scene.answers() == ok("running", "a", "b", "c", "d")
    assert [scene.committed(partition).offset for partition in (0, 1)] == [3, 2]


@scenario()
async def test_a_haul_of_the_assignment_before_is_not_run_beside_that_of_the_next(scene: Scene) -> None:
    scene.replace(chaos_process, "LONGEST_TRIP_S", 0.005)  # the rebalance is over before Redis has answered
    await begin_with_a_slow_redis(scene)
    scene.lay("a")
    scene.lay("b", partition=1)
    scene.wake()
    await asyncio.sleep(0.05)
    await scene.rebalance()
    await asyncio.sleep(20.0)
    assert scene.answers() == ok("a", "b")
    assert sorted(id for runner in chaos_runner.runners for batch in runner.ran for id in batch) == ["a", "b"]


@scenario()
async def test_a_last_commit_that_fails_at_first_is_tried_again_and_nothing_runs_twice(scene: Scene) -> None:
    await scene.begin()
    await scene.publish("a", "b", "c", "d")
    await scene.until(lambda: len(scene.told) == 4)
    scene.broker.fail_commits(BrokerError("no answer in time"))
    await scene.rebalance()
    await asyncio.sleep(0.4)
    scene.broker.fail_commits(None)
    await asyncio.sleep(20.0)
    assert scene.answers() == ok("a", "b", "c", "d")


@scenario(attempt_limit=1)
async def test_a_suspect_given_up_while_its_partition_leaves_is_answered_once(scene: Scene) -> None:
    async def slow(record: Record, origin: Origin, error: HeadraceError) -> Refused:
        await asyncio.sleep(2.0)
        return await _read_return_address(record, origin, error)

    scene.replace(workers.inspection, "read_return_address", slow)
    await scene.begin()
    await scene.publish("poison", order=FATAL)
    assert await scene.ends(lives_s=2.0) == 2
    await scene.rebalance()
    await asyncio.sleep(20.0)
    assert (scene.answers(), scene.dead_letters()) == ([("poison", "RUNNER_CRASHED")], 1)


@scenario()
async def test_what_fails_for_a_while_as_its_partition_leaves_is_answered_once(scene: Scene) -> None:
    scene.replace(chaos_runner, "RUN_S", 3.0)
    await scene.begin()
    await scene.publish("a", "b", order=TRANSIENT)
    await scene.publish("c", "d", order=TRANSIENT, partition=1)
    await asyncio.sleep(1.0)
    await scene.start_worker("w2")
    await asyncio.sleep(60.0)
    assert scene.answers() == ok("a", "b", "c", "d")


@scenario(drain_timeout_s=2.0)
async def test_an_orderly_leave_charges_nobody_who_runs_alone(scene: Scene) -> None:
    scene.replace(chaos_runner, "RUN_S", 1200.0)
    await scene.begin()
    await scene.publish("a", "b")
    await asyncio.sleep(2.0)
    chaos_runner.runners[-1].die("killed from outside")  # once, with both in flight
    await asyncio.sleep(6.0)
    for name in ("w2", "w3"):
        await scene.start_worker(name)
        await asyncio.sleep(10.0)
        assert max(scene.charges().values()) == 1
