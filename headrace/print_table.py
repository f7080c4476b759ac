"""A table for people with sentences below it, which a program that reads them gets each on one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_lines(table: Table | None, sentences: Sequence[str]) -> None:
    """The table, a blank line, and each sentence on a line of its own."""
    from rich.console import Console

    console = Console()
    if table is not None:
        console.print(table)
    for line in [*([""] if table is not None and sentences else []), *sentences]:
        print_line(console, line)


def print_line(console: Console, line: str) -> None:
    """A sentence, folded between words on a terminal alone: a program that reads it gets it on one line."""
    console.print(line, markup=False, highlight=False, soft_wrap=not console.is_terminal)
