"""The flags of `headrace simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _text(flag: str, metavar: str, help: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(flag, metavar=metavar, help=help)
    return option


Models = Annotated[
    Path | None, typer.Option("--models", metavar="DIR", help="Model directory, whose model.yaml says what is usual.")
]
Model = Annotated[str | None, typer.Option("--model", metavar="MODEL", help="The model, of DIR or of the topics.")]
TraceFile = Annotated[Path | None, typer.Option("--trace", metavar="FILE", help="Replay this trace.")]
Record = Annotated[
    Path | None, typer.Option("--record", metavar="FILE", help="Write the trace to this file, and simulate nothing.")
]
LastS = Annotated[
    float | None, typer.Option("--last-s", metavar="S", help="Of the topics, the last S seconds alone.", min=0)
]
Rate = Annotated[
    float | None, typer.Option("--rate", metavar="R", help="Make up R requests a second, on average.", min=0.001)
]
Seconds = Annotated[float, typer.Option("--seconds", metavar="S", help="With --rate: for how long.", min=0.001)]
PatternName = Annotated[str, _text("--pattern", "PATTERN", "With --rate: steady, poisson, bursty or diurnal arrivals.")]
Rows = Annotated[str, _text("--rows", "MIX", "With --rate: rows of a request.")]
Lengths = Annotated[
    str | None, _text("--lengths", "MIX", "With --rate: lengths of rows, each its own bucket; cost is rows * length.")
]
Deadlines = Annotated[str, _text("--deadline-ms", "MIX", "With --rate: deadlines from publication; none is for ever.")]
Lanes = Annotated[str, _text("--lane", "MIX", "With --rate: interactive, async, bulk.")]
Tenants = Annotated[str, _text("--tenant", "MIX", "With --rate: names of tenants.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Of all that is drawn: the same gives the same.")]
BatchSizes = Annotated[str | None, _text("--max-batch-size", "N,...", "Rows a batch.")]
Waits = Annotated[str | None, _text("--max-wait-ms", "MS,...", "How long the oldest request waits for company.")]
Slos = Annotated[str | None, _text("--slo-ms", "MS,...", "Time within which requests are to be answered, or none.")]
Replicas = Annotated[str | None, _text("--replicas", "N,...", "Runners of a worker.")]
Workers = Annotated[str, _text("--workers", "N,...", "Workers, among which the partitions are shared.")]
Partitions = Annotated[int, typer.Option("--partitions", metavar="N", help="Partitions of a lane's topic.", min=1)]
RunMs = Annotated[str | None, _text("--run-ms", "FORMULA", "How long a batch takes, as '8 + 0.5*rows' or '... *cost'.")]
RunSpread = Annotated[
    float, typer.Option("--run-spread", metavar="SHARE", help="With --run-ms: up to so much longer, by chance.", min=0)
]
RunTimesFile = Annotated[
    Path | None,
    typer.Option("--run-times", metavar="FILE", help="What a worker learned; without it, what lies beside the model."),
]
OverheadMs = Annotated[
    float, typer.Option("--overhead-ms", metavar="MS", help="What a request takes besides waiting and running.", min=0)
]
