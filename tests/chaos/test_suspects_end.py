"""Records that end their worker: each has its attempts and no more, and all others are answered as if it were not."""

import asyncio
from collections.abc import Mapping

import chaos_runner
import chaos_world
import pytest
from chaos_runner import FATAL, TRANSIENT, LoopRunner
from chaos_scenario import Scene, ok, scenario
from chaos_world import MODEL

import workers.runners.handle
from producer_sdk._memory_member import MemoryMember
from producer_sdk.broker import BrokerError, TopicPartition
from workers.runners.engine import ModelSpec, RetryPolicy

pytestmark = pytest.mark.chaos


def given_up(*ids: str) -> list[tuple[str, str]]:
    return [(id, "RUNNER_CRASHED") for id in ids]


@scenario(attempt_limit=3)
async def test_a_lone_record_that_ends_its_worker_is_given_up(scene: Scene) -> None:
    await scene.begin()
    await scene.publish("poison", order=FATAL)
    assert await scene.ends() <= 4
    assert (scene.answers(), scene.dead_letters(), scene.committed().offset) == (given_up("poison"), 1, 1)


@scenario(attempt_limit=3)
async def test_two_records_that_end_their_worker_take_nobody_with_them(scene: Scene) -> None:
    await scene.begin()
    await scene.publish("bad0", "bad1", order=FATAL)
    await scene.publish("good0", "good1")
    assert await scene.ends() <= 2 * 4
    assert scene.answers() == given_up("bad0", "bad1") + ok("good0", "good1")


@scenario(attempt_limit=5)
async def test_many_records_that_end_their_worker_take_nobody_with_them(scene: Scene) -> None:
    await scene.begin()
    good, bad = [f"good{n:02}" for n in range(12)], ["bad0", "bad1", "bad2", "bad3"]
    for n, id in enumerate(good):
        await scene.publish(id, partition=n % 2)
        if n % 3 == 0:
            await scene.publish(bad[n // 3], order=FATAL, partition=n % 2)
    assert await scene.ends() <= 4 * 6
    assert scene.answers() == given_up(*bad) + ok(*good)


@scenario(attempt_limit=3)
async def test_a_record_that_came_after_the_end_is_the_fault_of_nobody_before_it(scene: Scene) -> None:
    scene.replace(chaos_runner, "RUN_S", 5.0)
    await scene.begin()
    await scene.publish("good0", "good1")
    await asyncio.sleep(1.0)
    await scene.restart()
    chaos_runner.RUN_S = 0.1
    await scene.until(lambda: bool(intake := scene.served["w1"].loops) and intake[0].intake.assignments > 0)
    await scene.publish("poison", order=FATAL)
    assert await scene.ends() <= 4
    assert scene.answers() == ok("good0", "good1") + given_up("poison")


class UnequalRunner(LoopRunner):
    """Runs of the usual model take ten times as long as those of any other."""

    def __init__(self, spec: ModelSpec, **limits: int) -> None:
        super().__init__(spec, **limits)
        self._spans = 10 if spec.name == MODEL else 1

    async def _busy(self) -> None:
        for _ in range(self._spans):
            await super()._busy()


@scenario(attempt_limit=3)
async def test_records_of_one_model_are_never_given_up_for_those_of_another(scene: Scene) -> None:
    scene.serve({"name": MODEL}, {"name": "other"})
    scene.replace(workers.runners.handle, "RunnerProcess", UnequalRunner)
    await scene.begin()
    await scene.publish("bad0", order=FATAL, model="other")
    await scene.publish("good0", "good1", "good2", "good3")
    await scene.publish("bad1", order=FATAL, model="other")
    assert await scene.ends() <= 2 * 4
    assert scene.answers() == ok("good0", "good1", "good2", "good3")
    assert scene.committed(model="other").offset == 2


@scenario(attempt_limit=5, drain_timeout_s=2.0)
async def test_an_orderly_leave_in_the_middle_of_a_trial_charges_nobody(scene: Scene) -> None:
    scene.replace(chaos_runner, "RUN_S", 1200.0)
    await scene.begin()
    await scene.publish("slow0", "slow1")
    for _ in range(2):
        await asyncio.sleep(6.0)
        await scene.restart()
    await asyncio.sleep(6.0)
    for name in ("w2", "w3", "w4"):
        await scene.start_worker(name)
        await asyncio.sleep(10.0)
    assert max(scene.charges().values(), default=0) <= 2  # as many as workers were killed


@scenario(attempt_limit=5)
async def test_a_drain_in_the_middle_of_a_trial_does_not_clear_whoever_ends_the_worker_in_it(scene: Scene) -> None:
    await scene.begin()
    await scene.publish("bad", order=FATAL)
    await scene.publish("good0", "good1")
    await scene.until(scene.processes["w1"].crashed.is_set)
    scene.replace(chaos_runner, "RUN_S", 2.0)
    for _ in range(6):
        await scene.restart()
        await asyncio.sleep(2.2)
        await scene.stop_worker("w1")
    assert scene.answers() == given_up("bad") + ok("good0", "good1")


async def answered_within(scene: Scene, limit_s: float) -> None:
    """Publish to both partitions, and wait for the answers."""
    await scene.publish("good0", "good2")
    await scene.publish("good1", "good3", partition=1)
    await scene.until(lambda: {f"good{n}" for n in range(4)} <= scene.told_ids, limit_s)


@scenario()
async def test_a_suspect_whose_reply_cannot_be_delivered_holds_up_nobody(scene: Scene) -> None:
    await scene.begin()
    await scene.publish_undeliverable("held")
    await asyncio.sleep(3.0)
    await scene.restart()
    await asyncio.sleep(5.0)
    await answered_within(scene, 5.0)


@scenario(attempt_limit=1)
async def test_a_trial_that_the_worker_outlives_charges_nobody_whose_reply_cannot_be_delivered(scene: Scene) -> None:
    await scene.begin()
    await scene.publish_undeliverable("held")
    for _ in range(3):
        await asyncio.sleep(8.0)
        assert scene.charges() == {}
        await scene.restart()


@scenario()
async def test_a_suspect_that_waits_for_its_next_attempt_holds_up_nobody(scene: Scene) -> None:
    scene.replace(chaos_world, "RETRY", RetryPolicy(first_delay_s=400.0, longest_delay_s=400.0, in_place_s=5.0))
    await scene.begin()
    await scene.publish("later", order=TRANSIENT)
    await asyncio.sleep(3.0)
    await scene.restart()
    await asyncio.sleep(5.0)
    await answered_within(scene, 5.0)


def lose_leader(scene: Scene) -> None:
    """One partition of another lane cannot be asked for its end."""
    ends = MemoryMember.end_offsets

    async def end_offsets(member: MemoryMember, partitions: frozenset[TopicPartition]) -> Mapping[TopicPartition, int]:
        if TopicPartition("chaos.m.bulk", 1) in partitions:
            raise BrokerError("chaos.m.bulk:1 has no leader")
        return await ends(member, partitions)

    scene.replace(MemoryMember, "end_offsets", end_offsets)


@scenario()
async def test_a_partition_without_a_leader_holds_up_no_other(scene: Scene) -> None:
    await scene.begin()
    await scene.restart()
    lose_leader(scene)
    await asyncio.sleep(5.0)
    await answered_within(scene, 15.0)


@scenario(attempt_limit=3)
async def test_a_partition_without_a_leader_keeps_no_poison_of_another_from_being_given_up(scene: Scene) -> None:
    await scene.begin()
    lose_leader(scene)
    await scene.publish("poison", order=FATAL)
    await scene.publish("good0", "good1")
    assert await scene.ends() <= 4
    assert scene.answers() == ok("good0", "good1") + given_up("poison")
