"""Rows about records that end what works on them, clocks, and memory that runs out."""

from __future__ import annotations

import asyncio

from chaos_entry import FATAL
from chaos_row import Load, Row
from chaos_stage import Stage
from model_folders import DEADLY, SLEEPY

GOOD = 1000
BAD = 300
DEADLY_ORDER = 9.0
LIMIT = 3
HOUR_S = 3600.0
FILE_BYTES = 512 * 1024
WIDE = 20_000  # numbers of a request: eight of them together do not fit
LIVES = LIMIT + 4
SHORT_S = 2.0  # session timeout and max.poll.interval of the long batch
LONG_S = 10 * SHORT_S


async def wait_for_the_end(stage: Stage) -> None:
    """The record does it all; wait until it has its outcome."""
    done = await stage.until(lambda: stage.watch is not None and f"r{BAD}" in stage.watch.first_at, 90.0)
    stage.expect(done, f"the record r{BAD} had no outcome within 90 s")
    dead = [told.id for told in stage.watch.told if told.dead] if stage.watch else []
    stage.expect(dead.count(f"r{BAD}") >= 1, f"the record r{BAD} is not among the dead letters")
    stage.expect(set(dead) <= {f"r{BAD}"}, f"neighbours are dead letters: {dead[:5]}")


async def restart_until_the_end(stage: Stage) -> None:
    """Start the worker again each time that the record has ended it, as a supervisor does."""
    finished = asyncio.create_task(wait_for_the_end(stage), name="end of the record")
    worker, lives = stage.workers["w0"], 1
    while not finished.done():
        if worker.running:
            await asyncio.sleep(0.05)
        elif lives > LIVES:
            stage.notes.append(f"the record has ended the worker {lives} times, at a limit of {LIMIT}")
            break
        else:
            lives += 1
            worker.start()
    if not worker.running:
        await stage.start("w0", CHAOS_DIES_IN="")
    await finished


async def step_clocks(stage: Stage) -> None:
    """The clock of one worker jumps an hour ahead and of the other an hour back, and later they are right again."""
    for seconds in (HOUR_S, 0.0):
        (stage.folder / "clock-w0").write_text(str(seconds))
        (stage.folder / "clock-w1").write_text(str(-seconds))
        await asyncio.sleep(4.0)


async def exhaust_memory(stage: Stage) -> None:
    """Batches that are larger than what is left are cut; the requests themselves would fit."""
    (stage.folder / "file-size").write_text(str(FILE_BYTES))
    await stage.rolls("w0")  # the one before has got its memory already
    rows = stage.callers.batch_rows
    rows.clear()
    await asyncio.sleep(6.0)
    fit = FILE_BYTES // (4 * WIDE)
    stage.expect(0 < max(rows, default=0) <= fit, f"batches of up to {max(rows, default=0)} rows ran, {fit} fit")


async def long_batch(stage: Stage) -> None:
    """Nothing to do but wait: request 100 sleeps."""
    await asyncio.sleep(LONG_S + 5.0)
    assigned = sum(worker.log.count("partitions") for worker in stage.workers.values())
    stage.expect(assigned == len(stage.workers), "the group was rebalanced during the long batch")


RECORD_ROWS = (
    Row("record-kills-runner", f"a record that ends the runner among {GOOD} good ones", wait_for_the_end,
        kills=True, model=DEADLY, load=Load(requests=GOOD, orders={BAD: DEADLY_ORDER}),
        environment={"HEADRACE_ATTEMPT_LIMIT": str(LIMIT)}, codes={BAD: "RUNNER_CRASHED"}, workers=1,
        sees="RUNNER_CRASHED after attempt_limit deaths, and a dead letter; neighbours are answered right."),
    Row("record-kills-worker", f"a record that ends the worker at its batch among {GOOD} good ones",
        restart_until_the_end, kills=True, load=Load(requests=GOOD, orders={BAD: FATAL}),
        environment={"HEADRACE_ATTEMPT_LIMIT": str(LIMIT), "CHAOS_DIES_IN": "place"}, codes={BAD: "RUNNER_CRASHED"},
        workers=1, limit_s=90.0, sees="The same, across restarts of the worker."),
    Row("record-kills-decode", f"a record that ends the worker in decode among {GOOD} good ones",
        restart_until_the_end, kills=True, load=Load(requests=GOOD, orders={BAD: FATAL}),
        environment={"HEADRACE_ATTEMPT_LIMIT": str(LIMIT), "CHAOS_DIES_IN": "decode"}, codes={BAD: "RUNNER_CRASHED"},
        workers=1, limit_s=90.0, sees="The same, although nothing could be read of it."),
    Row("clock-stepped", "the clocks of two workers jump an hour ahead and an hour back, and return", step_clocks,
        environment={"CHAOS_CLOCK": "{folder}/clock-{worker}"}, excused=frozenset(["DEADLINE_EXCEEDED"]),
        sees="A worker whose clock is ahead answers DEADLINE_EXCEEDED to requests with a deadline; others run."),
    Row("no-memory", "no memory for the batch regions beyond 512 KiB", exhaust_memory,
        environment={"CHAOS_FILE_SIZE": "{folder}/file-size"}, load=Load(width=WIDE, order=0.1, rate_per_s=40.0),
        model=SLEEPY, batch=32, variable=True, workers=1, limit_s=120.0,
        sees="Batches are cut smaller; a request that does not fit alone gets OUT_OF_MEMORY and a dead letter."),
    Row("long-batch", "a batch ten times as long as session timeout and max.poll.interval", long_batch, model=SLEEPY,
        load=Load(requests=200, rate_per_s=20.0, orders={100: LONG_S}), workers=1,
        environment=dict.fromkeys(("HEADRACE_MAX_POLL_INTERVAL_S", "HEADRACE_SESSION_TIMEOUT_S"), f"{SHORT_S:g}"),
        sees="Requests behind it wait; no rebalance, one run."),
)  # fmt: skip
