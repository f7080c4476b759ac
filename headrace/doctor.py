"""`headrace doctor`."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Awaitable, Sequence
from contextlib import nullcontext
from typing import Annotated, Any, Literal

import typer
from msgspec import Meta, Struct

from gateway.settings import GatewaySettings
from headrace.cli import Json, plain_app
from headrace.doctor_engines import engine_lines
from headrace.doctor_kafka import Part, Site, check_kafka, client_lines, site_of
from headrace.doctor_line import Line, State
from headrace.doctor_machine import machine_lines
from headrace.doctor_models import FoundHere, look_at_models
from headrace.doctor_stores import REDIS, S3, check_redis, check_s3
from headrace.doctor_table import document, print_lines, worst
from headrace.failure import FAILED
from headrace.flags import verb
from headrace.known_settings import KNOWN
from producer_sdk.setting import settings_of
from producer_sdk.settings import load_settings
from workers.settings import WorkerSettings

app = plain_app()


class Asked(Struct, frozen=True):
    """What doctor alone is told, with the faults of a setting."""

    role: Annotated[Literal["producer", "worker", "gateway", "operator"], Meta()] = "worker"
    budget_s: Annotated[float, Meta(ge=0.5)] = 5.0


ROLE, BUDGET = settings_of(Asked)
Role = Annotated[
    str,
    typer.Option(ROLE.flag, metavar="|".join(Part), help="Who is to run here: what is needed is what they need."),
]
Budget = Annotated[
    str, typer.Option(BUDGET.flag, metavar="F", help="Longest time for one question to Kafka, S3 or Redis.")
]
EPILOG = """\
\b
Before a worker, with the settings that it will have:
  headrace doctor --bootstrap-servers kafka-1:9092 --models /srv/models
On the machine of a producer or a gateway, or for `headrace topics`, `dead` and `verify`:
  headrace doctor --role gateway

Only what is configured is checked. In Kafka nothing is written; in each S3 bucket one small object is put
and deleted. Exit code 1 when there is a fault; a note alone is none.
"""


@verb(app, WorkerSettings, epilog=EPILOG)
def doctor(settings: WorkerSettings, role: Role = "worker", budget_s: Budget = "5", as_json: Json = False) -> int:
    """Check all that a program of headrace needs: Kafka, S3, Redis, engines, devices, this machine."""
    logging.getLogger("headrace").addHandler(logging.NullHandler())
    part, limit_s = Part(str(ROLE.read(role, ROLE.flag))), float(str(BUDGET.read(budget_s, BUDGET.flag)))
    lines = asyncio.run(examine(settings, part, limit_s, None if as_json else _spinner()))
    if as_json:
        print(json.dumps(document(lines, part)))
    else:
        print_lines(lines)
    return FAILED if worst(lines) is State.FAULT else 0


class Examination(Struct):
    """One part of the checks, with what it is called while it runs."""

    title: str
    lines: Awaitable[Sequence[Line]]


async def examine(
    settings: WorkerSettings, part: Part, budget_s: float, spinner: Any = None, site: Site | None = None
) -> list[Line]:
    """All lines, in order; areas are looked at beside each other. `site` is the cluster, else that of the settings."""
    here = await asyncio.to_thread(look_at_models, settings) if part is Part.WORKER else FoundHere()
    s3_budget_s = budget_s * (1 + len(settings.s3_buckets) + (settings.s3_claim_bucket is not None))
    parts = [
        Examination("Kafka", _kafka(settings, part, budget_s, here, site)),
        Examination("S3", S3.within(s3_budget_s, "buckets", check_s3(settings, here.specs, budget_s))),
    ]
    if part is Part.WORKER:
        redis = check_redis(settings.redis_url, here.specs)
        parts.append(Examination("Redis", REDIS.within(budget_s, "connection", redis)))
        parts.append(Examination("engines", engine_lines(here.specs)))
    found = await _together(parts, spinner)
    specs = here.specs if part is Part.WORKER else None
    machine = machine_lines(specs, settings.max_batch_bytes, _connections(part))
    return [*found, *here.lines, *machine]


async def _together(parts: Sequence[Examination], spinner: Any) -> list[Line]:
    """The lines of all parts; meanwhile the spinner names those that are not done."""
    waiting = [part.title for part in parts]

    async def one(part: Examination) -> Sequence[Line]:
        lines = await part.lines
        waiting.remove(part.title)
        if spinner is not None and waiting:
            spinner.update(f"Looking at {', '.join(waiting)} ...")
        return lines

    if spinner is not None:
        spinner.update(f"Looking at {', '.join(waiting)} ...")
    with spinner or nullcontext():
        found = await asyncio.gather(*map(one, parts))
    return [line for lines in found for line in lines]


async def _kafka(
    settings: WorkerSettings, part: Part, budget_s: float, here: FoundHere, site: Site | None
) -> list[Line]:
    deadlines_s = {spec.name: spec.default_deadline_s for spec in here.specs} or dict.fromkeys(settings.model)
    client = client_lines(settings)
    return [*client, *await check_kafka(site or site_of(settings, budget_s), settings, part, deadlines_s)]


def _connections(part: Part) -> int:
    """HTTP connections that may be open at once."""
    return load_settings(GatewaySettings, {}, os.environ, None, KNOWN).max_connections if part is Part.GATEWAY else 0


def _spinner() -> Any:
    """Shows on a terminal that something is going on."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console

    return Console(stderr=True).status("Looking ...")
