"""`headrace dead list`, `headrace dead show` and `headrace dead redrive`."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from headrace.broker_admin import admin_of
from headrace.cli import Json, plain_app
from headrace.dead_filter import Where, check_codes, parse_place, parse_where
from headrace.dead_judge import Wishes
from headrace.dead_reader import Letter, open_letters
from headrace.dead_redrive import Choice, Redrive
from headrace.dead_report import Report
from headrace.dead_show import document, lines, summary
from headrace.dead_table import table
from headrace.failure import FAILED, CommandError, UsageError
from headrace.flags import verb
from producer_sdk.oip import read_options
from producer_sdk.settings import KafkaSettings
from producer_sdk.topics import Topics

app = plain_app(help="Look at the records that failed, and publish them again.", no_args_is_help=True)
Model = Annotated[str, typer.Option("--model", metavar="NAME", help="The model whose dead letters to take.")]
Place = Annotated[
    str, typer.Argument(metavar="PLACE|ID", help="PARTITION:OFFSET on the dead topic, or the id of a request.")
]
Places = Annotated[
    list[str] | None, typer.Argument(metavar="PLACE...", help="PARTITION:OFFSET of letters, as list shows; else all.")
]
Conditions = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="KEY=VALUE", help="By code, id, topic, partition, before or after; repeatable."),
]
Newest = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=100_000, help="How many, the newest.")]
Oldest = Annotated[int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Publish no more than so many.")]
Raw = Annotated[str | None, typer.Option("--raw", metavar="FILE", help="Write the record's bytes there; - is stdout.")]
Rate = Annotated[float | None, typer.Option("--rate", metavar="F", min=0.001, help="Publish no more a second.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be published, and publish nothing.")]
ToVersion = Annotated[
    str | None, typer.Option("--to-version", metavar="V", help="Ask for this version of the model instead.")
]
DropDeadline = Annotated[bool, typer.Option("--drop-deadline", help="Publish expired ones too, without deadline.")]
Again = Annotated[bool, typer.Option("--again", help="Publish those that were re-driven before once more.")]
LIST_EPILOG = """\
\b
  headrace dead list --model sum --where code=RUNNER_CRASHED --where after=2h
  headrace dead list --model sum --where topic=bulk --where before=2026-05-31T14:00Z --json

Conditions on different keys must all hold, of those on one key any. --json prints a line for each letter.
"""
SHOW_EPILOG = """\
\b
  headrace dead show 0:17 --model sum
  headrace dead show my-request-1 --model sum --json
  headrace dead show 0:17 --model sum --raw record.bin

Of several letters with one id the newest is shown.
"""
REDRIVE_EPILOG = """\
\b
  headrace dead redrive --model sum --dry-run
  headrace dead redrive --model sum --where code=OUT_OF_MEMORY --rate 50
  headrace dead redrive 0:17 0:18 --model sum --to-version 3

The record goes back to its topic as it was, with its id: the reply goes to the caller's address once more.
A note on the dead topic remembers it, so that the next re-drive passes the letter over. One that fails
again is a new letter.
"""


@verb(app, KafkaSettings, name="list", epilog=LIST_EPILOG)
def list_letters(
    settings: KafkaSettings, model: Model, where: Conditions = None, limit: Newest = 50, as_json: Json = False
) -> int:
    """List dead letters, newest last: where they lie, what they were, why they failed."""
    wanted = parse_where(where or (), time.time())
    found = asyncio.run(_newest(settings, model, wanted, limit))
    if as_json:
        _print([msgspec.json.encode(summary(*each)).decode() for each in found])
    else:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        _print(table(found, columns) if found else ["No dead letters that match." if where else "No dead letters."])
    return 0


@verb(app, KafkaSettings, epilog=SHOW_EPILOG)
def show(settings: KafkaSettings, model: Model, place: Place, raw: Raw = None, as_json: Json = False) -> int:
    """Show a dead letter: facts, headers, and the request in it, or why there is none."""
    letter, redriven = asyncio.run(_one(settings, model, place))
    if raw is not None:
        _write(raw, letter)
    elif as_json:
        _print([msgspec.json.encode(document(letter, redriven)).decode()])
    else:
        _print(lines(letter, redriven))
    return 0


@verb(app, KafkaSettings, epilog=REDRIVE_EPILOG)
def redrive(
    settings: KafkaSettings,
    model: Model,
    place: Places = None,
    where: Conditions = None,
    limit: Oldest = None,
    rate: Rate = None,
    to_version: ToVersion = None,
    drop_deadline: DropDeadline = False,
    again: Again = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Publish dead letters again, to the topics that they came from; the oldest first."""
    if to_version is not None:
        read_options({"version": to_version})
    places = frozenset(map(_place, place)) if place else None
    wanted = parse_where(where or (), time.time())
    report = Report(places, each=dry_run or places is not None, as_json=as_json, dry_run=dry_run)
    wishes, choice = Wishes(to_version, drop_deadline, again), Choice(wanted.wants, places, limit)
    asyncio.run(_redrive(settings, model, wanted, choice, wishes, report, rate, dry_run))
    return FAILED if report.end() else 0


async def _newest(settings: KafkaSettings, model: str, wanted: Where, limit: int) -> list[tuple[Letter, bool]]:
    async with open_letters(settings.broker(), Topics(settings.prefix), model) as dead:
        await check_codes(wanted, dead)
        found = await dead.newest(limit, wanted.wants)
        return [(letter, dead.was_redriven(letter)) for letter in found]


async def _one(settings: KafkaSettings, model: str, text: str) -> tuple[Letter, bool]:
    async with open_letters(settings.broker(), Topics(settings.prefix), model) as dead:
        place = parse_place(text)
        letter = None if place is None else await dead.at(*place)
        if letter is None:  # an id may look like a place
            letter = next(iter(await dead.newest(1, lambda each: each.id == text)), None)
        if letter is None:
            raise CommandError(f"{dead.topic} holds no dead letter {text}: name one by PARTITION:OFFSET or by its id.")
        return letter, dead.was_redriven(letter)


async def _redrive(
    settings: KafkaSettings, model: str, wanted: Where, choice: Choice, wishes: Wishes, report: Report,
    rate: float | None, dry: bool,
) -> None:  # fmt: skip
    topics, broker = Topics(settings.prefix), settings.broker()
    async with open_letters(broker, topics, model) as dead:
        await check_codes(wanted, dead)
        await dead.read_notes()
        async with admin_of(broker) as admin:
            partitions = await admin.topics()
        producer = broker.producer()
        await producer.start()
        try:
            lanes = topics.lanes(model)
            run = Redrive(dead, producer, lanes, partitions, wishes, report.told, rate=rate, dry_run=dry)
            report.tally = run.tally
            await run.run(choice)
        finally:
            await producer.stop()


def _place(text: str) -> tuple[int, int]:
    place = parse_place(text)
    if place is None:
        raise UsageError(f"{text} is no place: write PARTITION:OFFSET as list shows it, or choose by --where.")
    return place


def _write(file: str, letter: Letter) -> None:
    value = letter.record.value or b""
    if file == "-":
        sys.stdout.buffer.write(value)
        sys.stdout.flush()
    else:
        Path(file).write_bytes(value)
    if letter.facts is not None and letter.facts.cut_from_bytes is not None:
        print(f"These are the first of {letter.facts.cut_from_bytes} bytes: the rest was not kept.", file=sys.stderr)


def _print(texts: Sequence[str]) -> None:
    try:
        for text in texts:
            print(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has read enough, as `| head` does; what is left in the buffer must not fail at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
