"""Plays a row: workers, callers, the fault, healing, the verdict."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path

from chaos_judge import FORGIVEN, OK, Judgement, Log, Told, judge, promise_breaks, read_log
from chaos_load import MODEL
from chaos_row import Result, Row
from chaos_site import Site
from chaos_stage import Stage
from chaos_store import ChaosStore, running_store
from chaos_verify import checked, disagreements, outside_disagreements, violations
from chaos_watch import Watch
from model_folders import python_model

from producer_sdk.broker import TopicPartition

FLOAT = "FP32"
ROW_LIMIT_S = 300.0
SLOW_S = 1.0
UNREAD_S = 1.0


async def play_row(row: Row, site: Site, folder: Path, *, seed: int = 0) -> Result:
    """Play one row on the broker, with topics of its own, and judge it. Nothing is left running."""
    began = time.monotonic()
    with running_store() if row.stores else nullcontext() as store:
        stage = set_stage(row, site, folder, seed, store)
        try:
            async with asyncio.timeout(ROW_LIMIT_S):
                recovery_s = await _play(stage)
                judged = await _judged(stage)
                breaks = [*stage.notes, *_breaks(stage, judged), *await _checked(stage, judged)]
        finally:
            stage.kill_all()
    seen_twice = sum(len(each) > 1 for each in stage.callers.answers.values())
    took_s = time.monotonic() - began
    return Result(
        row.name,
        stage.callers.sent,
        judged.outcomes,
        len(judged.lost),
        seen_twice,
        judged.repeats,
        recovery_s,
        tuple(breaks),
        took_s,
    )


def set_stage(row: Row, site: Site, folder: Path, seed: int, store: ChaosStore | None) -> Stage:
    """A folder, a prefix and a model for the row."""
    prefix = f"chaos-{row.name[:11].rstrip('-')}-{secrets.token_hex(3)}"
    place = folder / prefix
    tensor = {"datatype": FLOAT, "shape": [-1 if row.variable else row.load.width]}
    inputs, outputs = [{"name": "x", **tensor}], [{"name": "y", **tensor}]
    parameters = {"log": str(place / "runs")}
    models = python_model(
        place / "models", MODEL, row.model, inputs=inputs, outputs=outputs, max_batch_size=row.batch,
        parameters=parameters, **row.keys,
    )  # fmt: skip
    return Stage(row, site, place, prefix, models, seed, store)


async def _play(stage: Stage) -> float:
    """1. workers; 2. callers and watch; 3. the fault; 4. wait until all is answered; 5. stop in order. The recovery."""
    async with AsyncExitStack() as stack:
        await asyncio.gather(*(stage.start(f"w{n}") for n in range(stage.row.workers)))  # 1
        watch = stage.watch = await _watch(stage)
        watching = _task(stack, watch.run(), "watch")
        calling = _task(stack, stage.callers.run(), "callers")  # 2
        struck = asyncio.create_task(stage.callers.struck.wait(), name="struck")
        await asyncio.wait([struck, calling, watching], return_when=asyncio.FIRST_COMPLETED)
        await stage.row.strike(stage)  # 3
        if not stage.healed_at:
            stage.heals()
        stage.callers.over.set()
        if not await stage.until(calling.done, stage.row.limit_s):  # 4
            stage.notes.append(f"callers still wait for answers {stage.row.limit_s:g} s after the healing")
            calling.cancel()
        else:
            calling.result()
        recovery_s = await _recovered(stage, watch)
        await stage.stop_workers()  # 5
        return recovery_s


def _task(stack: AsyncExitStack, work: object, name: str) -> asyncio.Task[None]:
    task: asyncio.Task[None] = asyncio.create_task(work, name=name)  # type: ignore[arg-type]

    async def end() -> None:
        task.cancel()
        await asyncio.wait([task])

    stack.push_async_callback(end)
    return task


async def _watch(stage: Stage) -> Watch:
    admin = stage.broker.admin()
    await admin.start()
    try:
        counts = await admin.topics()
    finally:
        await admin.stop()
    dead = stage.topics.dead(MODEL)
    names = [stage.topics.replies, stage.topics.results(MODEL), dead]
    names += [f"{stage.prefix}.{stage.row.load.reply_to}"] if stage.row.load.reply_to else []
    places = [TopicPartition(name, n) for name in names for n in range(counts.get(name, 0))]
    return Watch(stage.broker, places, dead)


async def _recovered(stage: Stage, watch: Watch) -> float:
    """Wait for the outcomes of all requests; the seconds that the recovery took (see Result)."""
    accepted, healed_at = stage.callers.accepted_at, stage.healed_at
    await stage.until(lambda: accepted.keys() <= watch.first_at.keys(), stage.row.limit_s)
    ends = [(at, watch.first_at[id]) for id, at in accepted.items() if id in watch.first_at]
    late = [end for at, end in ends if end > healed_at and (at <= healed_at or end - at > SLOW_S)]
    return max(late, default=healed_at) - healed_at


async def _judged(stage: Stage) -> Judgement:
    """Of what the topics hold now, and of what the watch has read in topics that are gone."""
    extra = [f"{stage.prefix}.{stage.row.load.reply_to}"] if stage.row.load.reply_to else []
    log = await read_log(stage.broker, stage.topics, MODEL, extra)
    assert stage.watch is not None
    known = {told.id for told in log.told}
    gone = [told for told in stage.watch.told if told.id not in known]
    known |= {told.id for told in gone}
    gone += [Told(id, OK) for id in _deleted_unread(stage) if id not in known]
    return judge(Log(log.asked, (*log.told, *gone), log.committed), FORGIVEN | stage.row.excused)


def _deleted_unread(stage: Stage) -> list[str]:
    """Requests whose replies may have been deleted before the watch could read them."""
    accepted = stage.callers.accepted_at.items()
    return [id for id, at in accepted if stage.deleted_at and abs(at - stage.deleted_at) < UNREAD_S]


def _breaks(stage: Stage, judged: Judgement) -> list[str]:
    row, callers = stage.row, stage.callers
    breaks = promise_breaks(judged, [id for id, each in callers.answers.items() if len(each) > 1])
    if judged.repeats and not row.kills:
        breaks.append(f"{judged.repeats} repeats on the topics although nothing was killed")
    if callers.wrong:
        breaks.append(f"{len(callers.wrong)} answers are those of other requests: {', '.join(callers.wrong[:5])}")
    expected = {f"r{n}": code for n, code in row.codes.items()}
    wrong = [
        f"{id} got {codes[0]}"
        for id, codes in callers.answers.items()
        if codes[0] not in row.excused | {expected.get(id, OK)}
    ]
    if wrong:
        breaks.append(f"{len(wrong)} answers are not what was asked for: {', '.join(wrong[:5])}")
    if callers.accepted_at.keys() - judged.ids:
        breaks.append("the log does not hold requests that Kafka had acknowledged")
    return breaks


async def _checked(stage: Stage, judged: Judgement) -> list[str]:
    """What the checker finds, in here and from outside."""
    row = stage.row
    if row.unverifiable:
        return []
    limit = int(row.environment.get("HEADRACE_ATTEMPT_LIMIT", "5")) + 1
    stepped = "CHAOS_CLOCK" in row.environment
    report = await checked(stage.broker, stage.topics, MODEL, stage.callers.answers, limit=limit, stepped=stepped)
    outside = await outside_disagreements(stage.kafka.bootstrap_servers, stage.prefix, MODEL, judged)
    return [*violations(report), *disagreements(report, judged), *outside]
