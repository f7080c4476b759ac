"""The checker of `headrace verify`, run in here with all facts that a test has, and asked from outside as users do."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence

from chaos_judge import Judgement
from msgspec.structs import replace

from headrace.checker import Report, check
from headrace.history import read_history
from headrace.verify_facts import Seen
from producer_sdk.broker import Broker
from producer_sdk.topics import Topics

SKEW_S = 0.0  # all clocks are those of this machine
STEPPED_SKEW_S = 3700.0  # where a row steps clocks by an hour


async def checked(
    broker: Broker, topics: Topics, model: str, answers: Mapping[str, Sequence[str]], *, limit: int, stepped: bool
) -> Report:
    """The verdict on the topics, the events of the workers, and what callers saw."""
    seen = [Seen(id, id, code) for id, codes in answers.items() for code in codes]
    history = replace(await read_history(broker, topics, model), seen=seen)
    return check(history, limit=limit, clock_skew_s=STEPPED_SKEW_S if stepped else SKEW_S)


def disagreements(report: Report, judged: Judgement) -> list[str]:
    """Where the checker counts otherwise than the suite does by itself."""
    theirs = {"accepted": report.accepted, "lost": report.lost, "repeats": report.repeats}
    ours = {"accepted": judged.accepted, "lost": len(judged.lost), "repeats": judged.repeats}
    return [] if theirs == ours else [f"the checker counts {theirs}, the suite {ours}"]


def violations(report: Report) -> list[str]:
    """What of the promise it finds broken, as sentences."""
    return [f"checker, part {each.part}: {each.sentence}" for each in report.violations]


async def outside_disagreements(bootstrap_servers: str, prefix: str, model: str, judged: Judgement) -> list[str]:
    """What `headrace verify --json`, as a process, says otherwise than the suite."""
    command = [sys.executable, "-m", "headrace", "verify", "--bootstrap-servers", bootstrap_servers]
    process = await asyncio.create_subprocess_exec(
        *command, "--model", model, "--prefix", prefix, "--json",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    try:
        said = json.loads(out)
    except ValueError:
        return [f"headrace verify gave no JSON (exit code {process.returncode}): {(out + err).decode()[-300:]}"]
    theirs = [said["accepted"], said["lost"], said["conflicting"], process.returncode]
    broken = bool(judged.lost or judged.conflicting)
    ours = [judged.accepted, len(judged.lost), len(judged.conflicting), int(broken)]
    return [] if theirs == ours else [f"headrace verify --json says {theirs}, the suite {ours}"]
