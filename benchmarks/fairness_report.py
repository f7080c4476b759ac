"""What a neighbour costs: latencies without and with it, and whether they lie within the bound. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from headrace.sim_report import percentile_ms

LANES, TENANTS = "interactive beside bulk", "nine tenants beside a flood"
OPEN = "nine tenants beside an open flood"  # by one that waits for no reply and has a quota
BOUNDS = {LANES: 1.3, TENANTS: 1.2, OPEN: 1.2}  # times the P99 without the neighbour
NOISE = 1.5  # a P99 without the neighbour so many times what virtual time foretells is the machine's, and tells nothing


class Figures(Struct, frozen=True):
    """Latencies in milliseconds; infinite where requests were not answered."""

    requests: int
    p50_ms: float
    p99_ms: float

    @staticmethod
    def of(latencies_s: Iterable[float]) -> Figures:
        ordered = sorted(map(float, latencies_s))  # JSON takes no numbers of numpy
        return Figures(len(ordered), percentile_ms(ordered, 0.50) or 0.0, percentile_ms(ordered, 0.99) or 0.0)


class Compared(Struct, frozen=True):
    """Those who are measured, without and with the neighbour.

    Attributes:
        what: one of `BOUNDS`.
        device: what batches take.
        load: what they ask for, of the most rows a second that full batches could do.
        used: what ran in all beside the neighbour, of the same.
        slo_ms: the model's setting; what is free below it is the neighbour's, so that the bound is not kept with it.
        refused: of what the neighbour asked for, what exceeded its quota; None where it has none.
        foretold_p99_ms: P99 without the neighbour, by virtual time; None for what is virtual itself.
    """

    what: str
    device: str
    load: float
    without: Figures
    beside: Figures
    used: float
    slo_ms: float | None = None
    foretold_p99_ms: float | None = None
    refused: float | None = None

    @property
    def ratio(self) -> float:
        return self.beside.p99_ms / self.without.p99_ms

    @property
    def of_the_rest(self) -> float:
        """What the neighbour gets, of what the others leave of the device."""
        return (self.used - self.load) / (1 - self.load)

    @property
    def verdict(self) -> str:
        """`holds`, `within the SLO`, `noise` where the machine was too busy to tell, else `MISSED`."""
        if self.foretold_p99_ms is not None and not self.without.p99_ms <= NOISE * self.foretold_p99_ms:
            return "noise"
        if self.ratio <= BOUNDS[self.what]:
            return "holds"
        return "within the SLO" if self.slo_ms is not None and self.beside.p99_ms <= self.slo_ms else "MISSED"

    @property
    def passes(self) -> bool:
        return self.verdict in ("holds", "within the SLO")


def table(found: Sequence[Compared]) -> str:
    """Markdown."""
    lines = [
        "| | device | load | P50, P99 without, ms | beside, ms | P99 ratio | neighbour gets, of the rest | refused | |",
        "| " + "--- | " * 9,
    ]
    for each in found:
        device = each.device if each.slo_ms is None else f"{each.device}, `slo_ms: {each.slo_ms:g}`"
        latencies = " | ".join(f"{one.p50_ms:.1f}, {one.p99_ms:.1f}" for one in (each.without, each.beside))
        cells = (
            each.what,
            device,
            f"{each.load:.0%}",
            latencies,
            f"{each.ratio:.2f}",
            f"{each.of_the_rest:.0%}",
            "" if each.refused is None else f"{each.refused:.0%}",
            each.verdict,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(line.rstrip() for line in lines)
