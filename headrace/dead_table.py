"""Dead letters as a table: whole where a program reads it, cut to the width of a terminal. Pure."""

from collections.abc import Sequence
from datetime import datetime

from headrace.dead_reader import Letter
from headrace.dead_show import printable, when_text

COLUMNS = ("place", "id", "code", "attempts", "when", "origin", "re-driven", "message")
CUT_COLUMNS = ("place", "id", "code", "attempts", "when", "message")
LEAST_ID, LEAST_ROOM = 12, 26  # columns of a terminal for ids, and for ids and messages together
DROPPED = ("attempts", "when")  # in this order, where even that does not fit
GAP = "  "
MARK, LEGEND = "*", "* re-driven"


def table(letters: Sequence[tuple[Letter, bool]], columns: int | None = None) -> list[str]:
    """A line for each letter below the names of the columns; with each, whether it was re-driven.

    `columns` of a terminal: no line is longer, ids and messages are cut. None: nothing is cut.
    """
    if columns is None:
        return _lines([COLUMNS, *(_row(letter, redriven) for letter, redriven in letters)])
    rows = [CUT_COLUMNS, *(_short_row(letter, redriven) for letter, redriven in letters)]
    legend = [LEGEND[:columns]] if any(redriven for _, redriven in letters) else []
    return [*_lines(_fitted(rows, columns)), *legend]


def _row(letter: Letter, redriven: bool) -> tuple[str, ...]:
    facts = letter.facts
    code, attempts, message = (facts.code, str(facts.attempts), facts.message) if facts else ("-", "-", "-")
    origin = f"{facts.topic}:{facts.partition}:{facts.offset}" if facts else "-"
    cells = (letter.place, letter.id, code, attempts, when_text(letter.record.timestamp), origin,
             "yes" if redriven else "no", message)  # fmt: skip
    return tuple(map(printable, cells))


def _short_row(letter: Letter, redriven: bool) -> tuple[str, ...]:
    place, id, code, attempts, when, _, _, message = _row(letter, redriven)
    return place + MARK * redriven, id, code, attempts, _short(when), message


def _short(when: str) -> str:
    """Without year and seconds: letters are kept 30 days."""
    try:
        return datetime.fromisoformat(when).strftime("%m-%d %H:%M")
    except ValueError:
        return when


def _fitted(rows: Sequence[tuple[str, ...]], columns: int) -> list[tuple[str, ...]]:
    """Ids and messages cut to what the other columns leave."""
    for dropped in range(len(DROPPED) + 1):
        left_out = {CUT_COLUMNS.index(name) for name in DROPPED[:dropped]}
        kept = [[cell for place, cell in enumerate(row) if place not in left_out] for row in rows]
        _, id_width, *others, message_width = widths = _widths(kept)
        room = columns - widths[0] - sum(others) - len(GAP) * (len(widths) - 1)
        if room >= LEAST_ROOM:
            break
    id_width = min(id_width, max(LEAST_ID, room // 3, room - message_width))
    message_width = max(1, room - id_width)
    return [(row[0], _cut(row[1], id_width), *row[2:-1], _cut(row[-1], message_width)) for row in kept]


def _lines(rows: Sequence[Sequence[str]]) -> list[str]:
    from rich.cells import set_cell_size

    widths = _widths(rows)[:-1]
    return [GAP.join([*map(set_cell_size, row, widths), row[-1]]).rstrip() for row in rows]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Columns of a terminal, of which some characters take two."""
    from rich.cells import cell_len

    return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]


def _cut(text: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"
