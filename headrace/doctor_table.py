"""The findings of `headrace doctor` for people: a line for each, folded on a terminal."""

from collections.abc import Sequence
from typing import Any

from headrace.doctor_line import Line, State, counted

_STYLES = {State.OK: "green", State.NOTE: "yellow", State.FAULT: "bold red", State.SKIPPED: "dim"}
_TEXT_STYLES = {State.SKIPPED: "dim"}
_COUNTED = {State.FAULT: "fault", State.NOTE: "note"}
_MARKS = {State.SKIPPED: "-"}


def print_lines(lines: Sequence[Line]) -> None:
    """All of them, then how many faults and notes there are; on a terminal the faults once more before that."""
    from rich.console import Console

    console = Console()
    if console.is_terminal:
        console.print(_table(lines))
        faults = [line for line in lines if line.state is State.FAULT]
        if faults and len(faults) < len(lines):
            console.print()
            console.print(_table(faults))
    else:
        for line in lines:
            print(f"{_mark(line.state):<5}  {line.area}: {line.name}: {line.text}")
    console.print(f"\n{summary(lines)}", markup=False, highlight=False, style=_STYLES[worst(lines)])


def _table(lines: Sequence[Line]) -> Any:
    """A mark for each, and its text, which folds beside the marks."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=5, no_wrap=True)
    table.add_column()
    for line in lines:
        text = Text.assemble((f"{line.area}: {line.name}: ", "bold"), (line.text, _TEXT_STYLES.get(line.state, "")))
        table.add_row(Text(_mark(line.state), style=_STYLES[line.state]), text)
    return table


def _mark(state: State) -> str:
    return _MARKS.get(state, state.value)


def worst(lines: Sequence[Line]) -> State:
    """FAULT, NOTE or OK."""
    states = {line.state for line in lines}
    return next((state for state in (State.FAULT, State.NOTE) if state in states), State.OK)


def summary(lines: Sequence[Line]) -> str:
    """As `2 faults, 1 note.`"""
    counts = {noun: sum(line.state is state for line in lines) for state, noun in _COUNTED.items()}
    told = [counted(count, noun) for noun, count in counts.items() if count]
    return f"{', '.join(told)}." if told else "All is well with what is configured."


def document(lines: Sequence[Line], role: str) -> dict[str, Any]:
    """All of it as JSON."""
    checks = [{"area": each.area, "check": each.name, "state": each.state, "text": each.text} for each in lines]
    return {"ok": worst(lines) is not State.FAULT, "role": role, "checks": checks}
