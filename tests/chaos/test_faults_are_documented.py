"""docs/failures.md lists every fault that is injected."""

from pathlib import Path

import chaos_weather
from chaos_rows import ROWS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "failures.md").read_text()


def test_every_row_is_in_the_docs_once() -> None:
    assert [row.name for row in ROWS if PAGE.count(f"| `{row.name}` |") != 1] == []


def test_every_simulated_fault_is_in_the_docs() -> None:
    assert [fault.__name__ for fault in chaos_weather.ALL if f"`{fault.__name__}`" not in PAGE] == []
