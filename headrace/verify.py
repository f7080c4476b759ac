"""`headrace verify`."""

import asyncio
import json
import sys
import time
from typing import Annotated

import msgspec
import typer

from headrace.checker import Report, check
from headrace.cli import Json, plain_app
from headrace.flags import verb
from headrace.history import Progress, read_history
from headrace.print_table import print_line
from headrace.verify_evidence import spot
from producer_sdk.broker import TopicPartition
from producer_sdk.settings import KafkaSettings
from producer_sdk.topics import Topics

app = plain_app()
EPILOG = """\
\b
It reads the model's requests, their replies and dead letters and the group's offsets, changes nothing, and may run
while requests come and go:
  headrace verify --model sum
For a program, or to guard a release: exit code 1 means that a request is lost or has contradictory outcomes.
  headrace verify --model sum --json | jq .lost

lost: finished (below the committed offset) without an outcome. waiting: without one, still to be read.
conflicting: an id with more different codes than requests. repeats: further replies of an id; readers drop them.
unverifiable: would be lost, but outcomes of that age are deleted: replies are kept an hour. dead: with a dead letter.

What is proved, and what is not, is in docs/delivery.md.
"""
Model = Annotated[str, typer.Option("--model", metavar="MODEL", help="The model whose requests to account for.")]
PATIENCE_S = 1.0
TELL_EVERY_S = 0.2
MEANINGS = {
    "accepted": "requests in the model's topics",
    "answered": "have a reply",
    "dead": "have a dead letter",
    "waiting": "have no outcome yet and are still to be read",
    "lost": "have no outcome and will not be read again",
    "unverifiable": "have none, but are older than the outcomes that are kept",
    "conflicting": "ids with more different outcomes than requests",
    "repeats": "further replies of an id, which readers drop",
}


@verb(app, KafkaSettings, epilog=EPILOG)
def verify(settings: KafkaSettings, model: Model, as_json: Json = False) -> int:
    """Account for every request of a model: answered, dead, waiting or lost."""
    line = _ProgressLine()
    reading = read_history(settings.broker(), Topics(settings.prefix), model, progress=Progress(line.tell))
    try:
        history = asyncio.run(reading)
    finally:
        line.clear()
    report = check(history)
    if as_json:
        print(json.dumps(document(report)))
    else:
        print_report(report)
    return 0 if report.kept else 1


def document(report: Report) -> dict[str, object]:
    """The report as JSON, without what only tests measure."""
    return {name: value for name, value in msgspec.to_builtins(report).items() if value is not None}


def print_report(report: Report) -> None:
    """The counts as a table, then a sentence for each thing that is wrong, then the verdict."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("requests", "", "", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for name, meaning in MEANINGS.items():
        table.add_row(name, str(getattr(report, name)), Text(meaning))
    console = Console()
    console.print(table)
    for line in ["", *sentences(report), verdict(report)]:
        print_line(console, line)


def sentences(report: Report) -> list[str]:
    """What is wrong, and what could not be told."""
    lines = [violation.sentence for violation in report.violations]
    for each in report.unverifiable_requests:
        place = spot(TopicPartition(each.topic, each.partition), each.offset)
        lines.append(f"request {each.id} at {place} cannot be verified")
    return [*lines, *(f"note: {note}" for note in report.notes)]


def verdict(report: Report) -> str:
    """The last line."""
    if report.kept and not report.violations:
        return "Nothing is lost, and no outcome contradicts another."
    broken = {violation.part for violation in report.violations}
    faults = [f"{report.lost} lost"] if report.lost else []
    faults += [f"{report.conflicting} with contradictory outcomes"] if report.conflicting else []
    faults += ["see above"] if broken else []
    return f"The delivery promise is broken: {', '.join(faults)}."


class _ProgressLine:
    """A line on the terminal while reading takes long; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        self._next = time.monotonic() + PATIENCE_S
        self._shown = False

    def tell(self, progress: Progress) -> None:
        now = time.monotonic()
        if now < self._next or not sys.stderr.isatty():
            return
        self._next = now + TELL_EVERY_S
        self._shown = True
        text = f"\r{progress.records:,} of {progress.of_records:,} records read"
        print(text, end="\x1b[K", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._shown:
            print("\r", end="\x1b[K", file=sys.stderr, flush=True)
