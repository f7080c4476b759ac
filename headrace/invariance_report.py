"""What `headrace models check --invariance` prints: a line an output, and what is wrong as sentences below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from headrace.invariance_judge import ModelJudged
from headrace.print_table import print_lines


def report(judged: Sequence[ModelJudged]) -> dict[str, Any]:
    """The findings as JSON; a drift that has no number is null."""
    models = [{**msgspec.to_builtins(each), "passes": each.passes} for each in judged]
    return {"models": [_finite(model) for model in models], "passes": all(each.passes for each in judged)}


def print_judged(judged: Sequence[ModelJudged]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("model", "output", "datatype", "absolute", "relative", "check", box=None, pad_edge=False)
    for model in judged:
        for output in model.outputs:
            drift = output.greatest
            verdict = "DRIFTS" if output.findings else "invariant"
            numbers = (f"{drift.absolute:.3g}", f"{drift.relative:.3g}")
            table.add_row(*map(Text, (model.model, output.name, output.datatype, *numbers, verdict)))
    print_lines(table if table.row_count else None, list(_sentences(judged)))


def _sentences(judged: Sequence[ModelJudged]) -> Iterator[str]:
    for model in judged:
        yield from (f"fault: {model.model}: {fault}" for fault in model.faults)
        yield from (f"fault: {model.model}: {finding}" for output in model.outputs for finding in output.findings)
        yield from (f"note: {model.model}: {note}" for note in model.notes)
        if model.passes:
            yield (
                f"{model.model}: {model.requests} requests gave the same alone, padded, and in batches of up to "
                f"{model.most_rows} rows."
            )


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if value in (float("inf"),) else value
