"""What a comparison with a peer comes to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from msgspec import Struct

from benchmarks.gates import Gate
from benchmarks.latencies import Summary

LEAST_OF_MOSEC = {("mlp", 64): 0.5, ("mlp", 256): 0.9, ("minilm", 64): 0.92, ("cls", 64): 0.6}


class Side(Struct, frozen=True):
    """One system with one model.

    Attributes:
        most_per_s: the rates of each run at its maximum.
        cpu_us: CPU of its processes a row there, Kafka's or Redis' not counted; None where it is not read.
        idle_ms: p50 of one request at a time.
        many: by number of connections, where more than one number was measured.
    """

    most_per_s: Sequence[float]
    cpu_us: float | None = None
    idle_ms: float | None = None
    many: Mapping[int, float] = {}

    @property
    def per_s(self) -> float:
        return median(self.most_per_s)


class Row(Struct, frozen=True):
    """A peer beside headrace: both maxima, and both latencies at one rate.

    `reason` says why it was not measured, `no_load` why only its latency was not.
    """

    peer: str
    model: str
    setup: str
    over: str
    reason: str | None = None
    note: str = ""
    ours: Side | None = None
    theirs: Side | None = None
    load_per_s: float | None = None
    our_load: Summary | None = None
    their_load: Summary | None = None
    no_load: str | None = None

    @property
    def throughput(self) -> float | None:
        """headrace's rows a second over the peer's."""
        return None if self.ours is None or self.theirs is None else self.ours.per_s / self.theirs.per_s

    def latency(self, quantile: str) -> float | None:
        """headrace's latency over the peer's at the same load, for `p50_ms` or `p99_ms`."""
        if self.our_load is None or self.their_load is None:
            return None
        ours: float = getattr(self.our_load, quantile)
        theirs: float = getattr(self.their_load, quantile)
        return ours / theirs

    @property
    def behind(self) -> str:
        """In what headrace is behind, in words; empty where in nothing."""
        words = []
        if self.throughput is not None and self.throughput < 1:
            words.append("throughput")
        words += [name[:3] for name in ("p50_ms", "p99_ms") if (self.latency(name) or 0) > 1]
        return ", ".join(words)


def gates(rows: Sequence[Row]) -> list[Gate]:
    """The gateway beside mosec: by model and connections, and idle."""
    found = []
    for row in rows:
        if row.peer != "mosec" or row.ours is None or row.theirs is None:
            continue
        for connections, theirs in row.theirs.many.items():
            bound = LEAST_OF_MOSEC.get((row.model, connections))
            ours = row.ours.many.get(connections)
            if bound is not None and ours is not None:
                name = f"{row.model}, gateway, {connections} connections: req/s, of mosec's"
                found.append(Gate(name, ours / theirs, bound, True))
        if row.model == "mlp" and row.ours.idle_ms and row.theirs.idle_ms:
            found.append(Gate("mlp, gateway, idle: p50, of mosec's", row.ours.idle_ms / row.theirs.idle_ms, 1.0, False))
    return found


def ratios(rows: Sequence[Row]) -> list[Gate]:
    """Every ratio of the table, for the stored baseline; bounds say where headrace is ahead."""
    found = []
    for row in rows:
        if row.throughput is not None:
            found.append(Gate(f"{row.model}, {row.peer}: throughput", row.throughput, 1.0, True))
        for name in ("p50_ms", "p99_ms"):
            if (latency := row.latency(name)) is not None:
                found.append(Gate(f"{row.model}, {row.peer}: {name[:3]}", latency, 1.0, False))
    return found
