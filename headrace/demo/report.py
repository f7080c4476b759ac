"""Prints the demo's answers for people."""

import statistics

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headrace.demo.question import Answer, Way


def print_answers(console: Console, answers: list[Answer]) -> None:
    """A table for each model and way, then a sentence for each answer that is not right."""
    groups: dict[tuple[str, Way], list[Answer]] = {}
    for answer in answers:
        groups.setdefault((answer.question.model, answer.way), []).append(answer)
    for (model, way), group in groups.items():
        console.print(_table(f"{model}, by {way.value}", group))
    for answer in answers:
        if not answer.right:
            console.print(f"[red]wrong[/red] {escape(answer.explanation)}", soft_wrap=True)


def summary(answers: list[Answer], duration_s: float) -> str:
    """One line: how many are right, the latencies, the batches."""
    right = sum(answer.right for answer in answers)
    told = [answer for answer in answers if not answer.fault]
    parts = [f"{right} of {len(answers)} answers right in {duration_s:.1f} s"]
    if told:
        parts.append(f"median latency {statistics.median(answer.latency_s for answer in told) * 1000:.0f} ms")
    rows = [answer.batch_rows for answer in told if answer.batch_rows is not None]
    if rows:
        parts.append(f"batches of up to {max(rows)} rows, {statistics.mean(rows):.1f} seen by the mean request")
    return "; ".join(parts) + "."


def _table(title: str, answers: list[Answer]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("input", overflow="fold")
    for heading in ("answer", "expected", "ok"):
        table.add_column(heading, no_wrap=True)
    for heading in ("latency ms", "batch rows"):
        table.add_column(heading, justify="right", no_wrap=True)
    for answer in answers:
        label = f"{answer.label} ({answer.score:.3f})" if not answer.fault else "none"
        table.add_row(
            escape(answer.question.name),
            escape(label),
            escape(" or ".join(answer.question.expected)),
            "[green]yes[/green]" if answer.right else "[red]NO[/red]",
            f"{answer.latency_s * 1000:.1f}",
            "-" if answer.batch_rows is None else str(answer.batch_rows),
        )
    return table
