"""Stored ratios of an earlier run, and which of today's are worse. Absolute figures change with the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from rich.table import Table

from benchmarks.gates import Gate

FOLDER = Path(__file__).with_name("baselines")
THRESHOLD = 0.15


class Ratio(Struct, frozen=True):
    """One measure over another of the same run; `at_least` tells that more is better."""

    ratio: float
    at_least: bool


class Baseline(Struct, frozen=True):
    """What an earlier run came to: on which machine, with which versions, and its ratios by name."""

    machine: str
    ratios: Mapping[str, Ratio]


class Change(Struct, frozen=True):
    """A ratio of both runs; `worse` is by which share today's is worse, negative where it is better."""

    name: str
    stored: float
    now: float
    worse: float


def ratios_of(gates: Sequence[Gate]) -> dict[str, Ratio]:
    """The gates' ratios by name."""
    return {gate.name: Ratio(gate.ratio, gate.at_least) for gate in gates}


def changes(now: Mapping[str, Ratio], stored: Mapping[str, Ratio]) -> list[Change]:
    """Every ratio that both runs have. Pure."""
    return [_change(name, each, stored[name]) for name, each in now.items() if name in stored]


def _change(name: str, now: Ratio, stored: Ratio) -> Change:
    better = now.ratio / stored.ratio if now.at_least else stored.ratio / now.ratio
    return Change(name, stored.ratio, now.ratio, 1 / better - 1)


def file_for(kind: str, cores: int) -> Path:
    """Where the ratios of a kind of run (`bench`, `peers`) lie for machines of so many cores."""
    return FOLDER / f"{kind}-{cores}-cores.json"


def load(file: Path) -> Baseline | None:
    """A stored baseline, None where there is none yet. Raises msgspec.MsgspecError when the file is no baseline."""
    return msgspec.json.decode(file.read_bytes(), type=Baseline) if file.is_file() else None


def store(file: Path, baseline: Baseline) -> None:
    """Keep a run's ratios for later ones; rounded, so that a diff shows what changed."""
    rounded = {name: Ratio(round(each.ratio, 3), each.at_least) for name, each in sorted(baseline.ratios.items())}
    file.parent.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(Baseline(baseline.machine, rounded)))
    file.write_bytes(text + b"\n")


def table(found: Sequence[Change], threshold: float) -> Table:
    """Every change; those beyond the threshold are regressions."""
    shown = Table(title=f"Against the stored baseline (regression beyond {threshold:.0%})")
    for name in ("ratio", "stored", "now", "worse by", ""):
        shown.add_column(name, justify="left" if name == "ratio" else "right")
    for each in found:
        verdict = "[bold red]REGRESSION[/bold red]" if each.worse > threshold else ""
        shown.add_row(each.name, f"{each.stored:.2f}", f"{each.now:.2f}", f"{each.worse:+.0%}", verdict)
    return shown
