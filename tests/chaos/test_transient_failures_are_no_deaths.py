"""What a model fails with for a while counts towards its own limit, never towards that of deaths."""

import asyncio

import chaos_runner
import chaos_world
import pytest
from chaos_runner import TRANSIENT
from chaos_scenario import Scene, ok, scenario

from workers.runners.engine import RetryPolicy

pytestmark = pytest.mark.chaos


async def fail_for_a_while_then_die(scene: Scene) -> None:
    """A request fails six times in a way that passes; while it runs again its runner is killed from outside."""
    scene.replace(chaos_world, "RETRY", RetryPolicy(limit=20, first_delay_s=0.5, longest_delay_s=0.5))
    scene.replace(chaos_runner, "FAILURES", 8)
    scene.replace(chaos_runner, "RUN_S", 1.0)
    await scene.begin()
    await scene.publish("patient", order=TRANSIENT)
    await scene.until(lambda: chaos_runner.failed["patient"] == 6)
    runner = chaos_runner.runners[-1]
    runs = len(runner.ran)
    await scene.until(lambda: len(runner.ran) > runs)
    runner.die("killed from outside")


@scenario(attempt_limit=5)
async def test_a_request_within_both_limits_is_answered(scene: Scene) -> None:
    await fail_for_a_while_then_die(scene)
    await asyncio.sleep(1.0)
    await scene.restart()
    await asyncio.sleep(30.0)
    assert (scene.answers(), scene.dead_letters()) == (ok("patient"), 0)


@scenario(attempt_limit=5)
async def test_the_next_owner_of_a_partition_is_told_of_deaths_alone(scene: Scene) -> None:
    await fail_for_a_while_then_die(scene)
    await asyncio.sleep(0.1)
    await scene.rebalance()
    await asyncio.sleep(0.4)
    assert scene.charges() == {0: 1}
