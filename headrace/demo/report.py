"""Prints the demo's answers for people."""

import statistics

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from headrace.demo.question import Answer, Way

SHORTEST_NAME = 12
BLANKS = 2  # between two columns


def print_answers(console: Console, answers: list[Answer]) -> None:
    """A table for each model and way, then a sentence for each answer that is not right.

    `ms` is the latency, `rows` those of the batch.
    """
    groups: dict[tuple[str, Way], list[Answer]] = {}
    for answer in answers:
        groups.setdefault((answer.question.model, answer.way), []).append(answer)
    for (model, way), group in groups.items():
        console.print(_table(f"{model}, by {way.value}", group, console.width))
    for answer in answers:
        if not answer.right:
            console.print(f"[red]wrong[/red] {escape(answer.explanation)}", soft_wrap=not console.is_terminal)


def summary(answers: list[Answer], duration_s: float, window: int) -> str:
    """How many are right, what the latencies consist of, the batches; `window` is how many were asked at a time."""
    right = sum(answer.right for answer in answers)
    told = [answer for answer in answers if not answer.fault]
    lines = [f"{right} of {len(answers)} answers right in {duration_s:.1f} s."]
    runs = [answer.run_ms for answer in told if answer.run_ms is not None]
    if told and runs:
        latency_ms = statistics.median(answer.latency_s for answer in told) * 1000
        lines.append(f"Median latency {latency_ms:.0f} ms, {statistics.median(runs):.0f} ms of it in the model.")
        lines.append(f"Up to {window} questions are asked at once: most of a latency is waiting for others.")
    rows = [answer.batch_rows for answer in told if answer.batch_rows is not None]
    if rows:
        lines.append(f"Batches of up to {max(rows)} rows, {statistics.mean(rows):.1f} seen by the mean request.")
    return "\n".join(lines)


def shortened(text: str, room: int) -> str:
    """The text in at most `room` characters: of a longer one the middle goes, for its end tells it from others."""
    if len(text) <= room:
        return text
    head = (room - 1) * 2 // 5
    return f"{text[:head]}…{text[len(text) - (room - 1 - head) :]}"


def _table(title: str, answers: list[Answer], width: int) -> Table:
    """Each answer on one line of at most `width` columns."""
    headings = ("answer", "expected", "ok", "ms", "rows")
    rows = [_cells(answer) for answer in answers]
    taken = sum(max(len(row[place]) for row in [headings, *rows]) + BLANKS for place in range(len(headings)))
    room = max(SHORTEST_NAME, width - taken - BLANKS - 1)
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("input", *headings):
        table.add_column(heading, justify="right" if heading in headings[3:] else "left", no_wrap=True)
    for answer, cells in zip(answers, rows, strict=True):
        style = "green" if answer.right else "red"
        texts = [Text(cell, style if place == headings.index("ok") else "") for place, cell in enumerate(cells)]
        table.add_row(Text(shortened(answer.question.name, room)), *texts)
    return table


def _cells(answer: Answer) -> tuple[str, ...]:
    return (
        "none" if answer.fault else f"{answer.label} ({answer.score:.3f})",
        " or ".join(answer.question.expected),
        "yes" if answer.right else "NO",
        f"{answer.latency_s * 1000:.1f}",
        "-" if answer.batch_rows is None else str(answer.batch_rows),
    )
