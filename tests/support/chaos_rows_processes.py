"""Rows about workers and runners: killed, frozen, restarted, joined and left."""

from __future__ import annotations

import asyncio
import os
import signal

from chaos_row import Load, Row
from chaos_stage import DRAIN_S, SESSION_S, Stage, each_second
from model_folders import GIL_HOLDING, SLEEPY
from worker_rig import running_worker

from producer_sdk.broker import BrokerError, GroupOptions, TopicPartition

ZOMBIE_S = SESSION_S + 3.0
JOINS = 60
REBALANCES = 200
HELD_S = 2.5 * SESSION_S
LEAVE_S = 15.0  # beyond the drain: the last commit, the goodbyes, which all wait for a broker that is not there
BUSY = Load(order=0.04)  # with SLEEPY: some batch is in flight half of the time


async def kill_runner(stage: Stage) -> None:
    os.kill(stage.workers["w0"].runners()[0].pid, signal.SIGKILL)


async def kill_worker(stage: Stage) -> None:
    stage.workers["w0"].kill()


async def kill_and_restart(stage: Stage) -> None:
    stage.workers["w0"].kill()
    await stage.start("w0")


async def freeze(stage: Stage) -> None:
    """Longer than the session timeout, so that another worker has the partitions when it wakes."""
    process = stage.workers["w0"].process
    process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(ZOMBIE_S)
    process.send_signal(signal.SIGCONT)


async def roll(stage: Stage) -> None:
    for name in ("w0", "w1"):
        await stage.rolls(name)


async def join_and_leave(stage: Stage) -> None:
    """A worker in this process, so that one can come and go in a second."""

    async def visit() -> None:
        async with running_worker(
            stage.broker, stage.models, stage.prefix, isolation="inline", session_timeout_s=SESSION_S,
            heartbeat_interval_s=0.5,
        ):  # fmt: skip
            pass

    await each_second(JOINS, visit)


class _Bystander:
    """A member that does nothing with what it is given."""

    def __init__(self) -> None:
        self.given = asyncio.Event()

    async def assigned(self, starts: object) -> None:
        self.given.set()

    async def revoked(self, partitions: frozenset[TopicPartition]) -> None:
        pass


async def rebalance(stage: Stage) -> None:
    """A member joins and leaves, which is two rebalances, while work is in flight."""
    options = GroupOptions(session_timeout_s=SESSION_S, heartbeat_interval_s=0.2, rebalance_timeout_s=40.0)
    group, lanes = stage.topics.group("m"), frozenset(stage.topics.lanes("m"))
    for _ in range(REBALANCES // 2):
        owner = _Bystander()
        member = stage.broker.member(group, lanes, owner, options)
        await member.start()
        while not owner.given.is_set():
            try:
                await member.poll(1, 0.05)
            except BrokerError:
                break
        await member.stop(5.0)


async def hold_gil(stage: Stage) -> None:
    """Nothing to do here: request 100 makes its model hold the interpreter lock."""
    await asyncio.sleep(HELD_S + 5.0)
    for name, worker in stage.workers.items():
        rejoined = worker.log.count("joins its group anew") + worker.log.count("has lost its partitions")
        stage.expect(rejoined == 0, f"worker {name} lost its membership while its model held the lock")


async def broker_down_at_term(stage: Stage) -> None:
    """TERM while Kafka is gone: the worker cannot finish, ends within its budget and says what it left."""
    worker = stage.workers["w0"]
    stage.kafka.kill()
    began = asyncio.get_running_loop().time()
    code = await worker.terminate(60.0)
    took_s = asyncio.get_running_loop().time() - began
    stage.kafka.start()
    stage.expect(code == 3, f"the worker ended with exit code {code}, not 3")
    budget_s = DRAIN_S + LEAVE_S
    stage.expect(took_s < budget_s, f"the worker took {took_s:.0f} s to end, more than its budget of {budget_s:g} s")
    stage.expect("Stopped before everything was finished" in worker.log, "the worker's log has no report")
    stage.heals()
    await stage.start("w0")


PROCESS_ROWS = (
    Row("runner-killed", "kill -9 of a runner in mid-batch", kill_runner, kills=True, model=SLEEPY, load=BUSY,
        sees="The batch runs again on the next runner; replies come a second or two later."),
    Row("worker-killed", "kill -9 of a worker, another lives", kill_worker, kills=True, model=SLEEPY, load=BUSY,
        sees="Requests of its partitions wait for the session timeout, then the other worker answers them."),
    Row("worker-killed-alone", "kill -9 of the only worker, started again", kill_and_restart, kills=True, workers=1,
        model=SLEEPY, load=BUSY,
        sees="Requests wait until the new worker has the partitions: session timeout and loading time."),
    Row("worker-frozen", "SIGSTOP of a worker past its session timeout, then SIGCONT", freeze, kills=True,
        model=SLEEPY, load=BUSY,
        sees="The other worker answers; what the zombie still publishes is a repeat that readers drop."),
    Row("rolling-restart", "SIGTERM and start of two workers in turn", roll, model=SLEEPY, load=BUSY,
        sees="Nothing but a short wait; no repeats."),
    Row("join-leave", "a worker joins or leaves every second for 60 s", join_and_leave,
        model=SLEEPY, load=Load(rate_per_s=30.0, order=0.04), sees="Short waits; no repeats."),
    Row("rebalances", "200 rebalances with work in flight", rebalance, model=SLEEPY,
        load=Load(rate_per_s=30.0, order=0.04), sees="Nothing but short waits; no repeats."),
    Row("gil-held", f"a model that holds the interpreter lock for {HELD_S:g} s", hold_gil, model=GIL_HOLDING,
        load=Load(orders={100: HELD_S}), sees="Requests behind the long batch wait; no rebalance, no repeats."),
    Row("broker-down-at-term", "SIGTERM while the broker is down", broker_down_at_term, kills=True, workers=1,
        model=SLEEPY, load=BUSY,
        sees="The worker ends with exit code 3 and a report; the next one answers what it left."),
)  # fmt: skip
