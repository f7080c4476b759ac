"""The faults of simulated runs. Each begins, lasts, and is put right again; a seed chooses which, when and how long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import chaos_runner
from chaos_process import CommitFault
from chaos_world import MODEL, World

from workers.drain import Exit

SESSION_S = 10.0
Fault = Callable[[World], Awaitable[None]]


def a_worker(world: World) -> str | None:
    """One that lives."""
    living = [name for name, task in sorted(world.workers.items()) if not task.done()]
    return world.rng.choice(living) if living else None


async def crash(world: World) -> None:
    """A worker ends without a word; another takes its name before or after the group has noticed."""
    name = a_worker(world)
    if name is None or not name.startswith("w"):  # the visitor of `join_and_leave` ends by itself
        return
    world.crashes += 1
    world.processes[name].crash()
    await asyncio.sleep(world.rng.uniform(0.5, 4.0))
    await world.start_worker(name)
    await asyncio.sleep(world.rng.uniform(0.0, SESSION_S))
    world.broker.expire()


async def zombie(world: World) -> None:
    """A worker stands still past its session timeout, then goes on as if nothing had been."""
    name = a_worker(world)
    if name is None:
        return
    process = world.processes[name]
    process.freeze()
    await asyncio.sleep(SESSION_S)
    process.vanish()
    world.broker.expire()
    await asyncio.sleep(world.rng.uniform(0.0, 10.0))
    process.thaw()


async def stutter(world: World) -> None:
    """A worker stands still for less than its session timeout."""
    name = a_worker(world)
    if name is not None:
        process = world.processes[name]
        process.freeze()
        await asyncio.sleep(world.rng.uniform(0.1, SESSION_S / 2))
        process.thaw()


async def runner_killed(world: World) -> None:
    alive = [each for each in chaos_runner.runners if not each.process.crashed.is_set()]
    if alive:
        world.crashes += 1
        world.rng.choice(alive[-2:]).die("killed from outside")


async def commits_unheard(world: World) -> None:
    """Commits arrive, but no worker hears that they did."""
    world.weather.commits = CommitFault.UNHEARD
    await asyncio.sleep(world.rng.uniform(0.5, 10.0))
    world.weather.commits = CommitFault.NONE


async def commits_unsent(world: World) -> None:
    world.weather.commits = CommitFault.UNSENT
    await asyncio.sleep(world.rng.uniform(0.5, 10.0))
    world.weather.commits = CommitFault.NONE


async def replies_unacknowledged(world: World) -> None:
    """Replies arrive, but no worker hears that they did, so that it sends them again."""
    topic = world.rng.choice([world.topics.replies, world.topics.results(MODEL)])
    world.lose_acknowledgements(topic)
    await asyncio.sleep(world.rng.uniform(0.5, 5.0))
    world.broker.fail_publish(topic, None)


async def replies_denied(world: World) -> None:
    topic = world.rng.choice([world.topics.replies, world.topics.results(MODEL)])
    world.deny(topic)
    await asyncio.sleep(world.rng.uniform(0.5, 15.0))
    world.broker.fail_publish(topic, None)


async def acknowledgements_late(world: World) -> None:
    world.broker.hold_acknowledgements()
    await asyncio.sleep(world.rng.uniform(0.5, 10.0))
    world.broker.release_acknowledgements()


async def broker_away(world: World) -> None:
    """Nothing reaches the broker for a while; it puts out who was silent for longer than the session timeout."""
    away_s = world.rng.uniform(1.0, 2 * SESSION_S)
    world.broker.away()
    await asyncio.sleep(away_s)
    world.broker.back()
    if away_s > SESSION_S:
        for name in list(world.processes):
            world.processes[name].vanish()
        world.broker.expire()


async def clock_stepped(world: World) -> None:
    """A worker's wall clock jumps by four minutes, and stays there."""
    name = a_worker(world)
    if name is not None:
        world.stepped = True
        world.processes[name].skew_s = world.rng.choice([-240.0, 240.0])


async def replies_deleted(world: World) -> None:
    """The topic that some callers want their replies on is deleted under way."""
    world.delete_topic(f"{world.topics.prefix}.mine")
    world.deleted = True


async def rolling_restart(world: World) -> None:
    name = a_worker(world)
    if name is None or world.processes[name].crashed.is_set() or world.served[name].stop.drain.is_set():
        return
    task, process = world.workers[name], world.processes[name]
    code = await world.stop_worker(name)
    if code not in (Exit.CLEAN, Exit.FORCED) and not process.crashed.is_set():  # by now it may have a successor
        world.breaks.append(f"worker {name} ended with {code!r} at TERM")
    if world.workers[name] is task and name.startswith("w"):
        await world.start_worker(name)


async def join_and_leave(world: World) -> None:
    """Another worker comes for a while."""
    name = f"visitor{world.rng.random():.6f}"
    await world.start_worker(name)
    await asyncio.sleep(world.rng.uniform(0.5, 8.0))
    if not world.workers[name].done() and not world.served[name].stop.drain.is_set():
        await world.stop_worker(name)


NOTHING_DIES: tuple[Fault, ...] = (rolling_restart, join_and_leave, stutter, clock_stepped)
ALL: tuple[Fault, ...] = (
    *NOTHING_DIES,
    crash,
    zombie,
    runner_killed,
    commits_unheard,
    commits_unsent,
    replies_unacknowledged,
    replies_denied,
    acknowledgements_late,
    broker_away,
    replies_deleted,
)
# What brings out a record that was called done too early: replies that do not get out, and owners that change.
LOSING: tuple[Fault, ...] = (crash, replies_denied)
