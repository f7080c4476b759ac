"""One curve of the learned latency: run time over the size of a batch, learned run by run. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right

from msgspec import Struct

from . import fits
from .spread import Spread

MOST_CELLS = 40
LONGEST_S, SHORTEST_S = 1e6, 1e-9
_LEAST_SIZE, _MOST_SIZE = 1e-9, 1e18
_MOST_CACHED = 1024  # sizes of ragged batches are all different
_SURE = 8.0  # runs of a cell after which an error is put down to the device rather than to the curve
_MEMORY = 32.0  # runs that a cell averages over
_HALF_LIFE = 256.0  # runs of the curve after which a cell not seen since weighs half
# Share of an error that the level follows at once: least, and what is added while errors all go one way.
_DRIFT, _DRIFT_MORE, _TREND = 0.03, 0.1, 0.1
_OUTLIER = 0.4  # errors (logarithms) beyond it are cut to it, so that one stall says no more than a slow run
_SHIFT, _HURRY = 3, 0.4  # more outliers in a row than that, all to one side, are a shift, which is followed faster
_DRAWN = 2.0  # runs that the straight fit counts for beside each cell's own
_REBUILD_AFTER = 0.2  # so much have means moved, all moves added up
_QUANTILES_EVERY = 16
# Logarithms of run time over expected: from 0.55 to 4 times. It starts with what is usual, 20 runs' worth, so that
# a stall among the first runs does not become the high quantile.
_LOW, _WIDTH, _BINS, _SPREAD_MEMORY, _PRIOR_RUNS, _PRIOR_SIGMA = -0.6, 0.04, 50, 100.0, 20.0, 0.06


def _prior() -> list[float]:
    middles = [_LOW + _WIDTH * (at + 0.5) for at in range(_BINS)]
    weights = [math.exp(-0.5 * (middle / _PRIOR_SIGMA) ** 2) for middle in middles]
    return [_PRIOR_RUNS * weight / sum(weights) for weight in weights]


_PRIOR = _prior()


class Cell(Struct, array_like=True, gc=False):
    """Runs of nearly one size.

    Attributes:
        size, run_s: their means; `run_s` is what they would take at level 1.
        runs: how many, at most as many as it averages over.
        seen: the curve's count at the last of them.
    """

    size: float
    run_s: float
    runs: float
    seen: int


class CurveState(Struct, array_like=True):
    """A curve as plain data."""

    level: float
    count: int
    cells: dict[int, Cell]
    spread: list[float]


class Curve:
    """Run time over size: means by size, joined to a line that never falls, times a level that follows drift.

    Sizes lie in cells a half octave wide. A change that concerns all sizes (heat, a neighbour) moves the level within
    some tens of runs, for sizes not seen lately as well; one that concerns some sizes moves their cells.
    """

    __slots__ = (
        "_cells",
        "_factors",
        "_fit",
        "_haste",
        "_known",
        "_moved",
        "_near",
        "_noise",
        "_sizes",
        "_spread",
        "_times",
        "_trend",
        "count",
        "level",
    )

    def __init__(self) -> None:
        self.level = 1.0
        self.count = 0
        self._cells: dict[int, Cell] = {}
        self._spread = Spread(_LOW, _WIDTH, _SPREAD_MEMORY, _PRIOR)
        self._forget_trend()
        self._forget_built()

    def observe(self, size: float, run_s: float, usual_s: float = 0.0) -> None:
        """A batch of that size has run. `usual_s` is what others of the kind take: it tempers the very first run."""
        if not (_LEAST_SIZE <= size <= _MOST_SIZE and SHORTEST_S <= run_s <= LONGEST_S):
            size = min(max(size, _LEAST_SIZE), _MOST_SIZE)
            run_s = min(max(run_s, SHORTEST_S), LONGEST_S)
        self.count = count = self.count + 1
        cell = self._near.get(size)
        if cell is None:
            cell = self._cells.get(_place(size))
            if cell is None:
                self._open(size, run_s, usual_s)
                return
            if len(self._near) >= _MOST_CACHED:
                self._near.clear()
            self._near[size] = cell
        known = self._known.get(size)
        if known is None:
            known = self.at(size)
        self._follow(math.log(run_s / (self.level * known)), cell.runs)
        self._moved += _learn(cell, size, run_s / self.level)
        cell.seen = count
        if self._moved > _REBUILD_AFTER:
            self._known.clear()
        if not count % _QUANTILES_EVERY:
            self._factors.clear()

    def at(self, size: float) -> float:
        """Seconds that the size takes at level 1; something must have been observed."""
        known = self._known.get(size)
        if known is not None:
            return known
        if not self._known:
            self._build()
        if len(self._known) >= _MOST_CACHED:
            self._known.clear()
        self._known[size] = known = self._interpolate(size)
        return known

    def factor(self, quantile: float) -> float:
        """What the mean is multiplied by for that quantile."""
        factor = self._factors.get(quantile)
        if factor is None:
            self._factors[quantile] = factor = math.exp(self._spread.quantile(quantile))
        return factor

    def sizes(self) -> list[float]:
        """The sizes it has runs of."""
        return [cell.size for cell in self._cells.values()]

    def trust_less(self, runs: float) -> None:
        """Let each cell weigh as if it had no more than so many runs: what comes now is about to differ."""
        for cell in self._cells.values():
            cell.runs = min(cell.runs, runs)

    def _open(self, size: float, run_s: float, usual_s: float) -> None:
        """The first run of a size: half of its word is taken where something is known that it can be held against."""
        expected = self.level * self.at(size) if self._cells else usual_s
        if expected > 0.0:
            expected = min(expected, LONGEST_S)
            run_s = math.sqrt(expected * min(max(run_s, expected / 4.0), expected * 4.0))
        if len(self._cells) >= MOST_CELLS:
            del self._cells[min(self._cells, key=lambda at: self._cells[at].seen)]
        self._cells[_place(size)] = Cell(float(size), run_s / self.level, 1.0, self.count)
        self._forget_built()

    def _follow(self, error: float, runs: float) -> None:
        """Let level and spread learn from an error, the level the less the fewer `runs` the cell is sure by."""
        if -_OUTLIER <= error <= _OUTLIER:
            self._haste = 0
            cut = error
        else:
            side = 1 if error > 0.0 else -1
            self._haste = self._haste + side if self._haste * side > 0 else side
            cut = _OUTLIER * side
        self._trend += _TREND * (cut - self._trend)
        self._noise += _TREND * ((cut if cut > 0.0 else -cut) - self._noise)
        one_way = self._trend / self._noise if self._noise else 0.0
        step = (_DRIFT + _DRIFT_MORE * one_way * one_way) * cut
        self.level *= 1.0 + (step if runs >= _SURE else step * runs / _SURE)
        if not -_SHIFT <= self._haste <= _SHIFT:
            self.level *= 1.0 + _HURRY * cut
            return
        self._spread.add(error)

    def _forget_trend(self) -> None:
        self._haste = 0  # outliers in a row, negative for fast ones
        self._trend = self._noise = 0.0  # smoothed error, and its smoothed magnitude

    def _forget_built(self) -> None:
        self._known: dict[float, float] = {}
        self._factors: dict[float, float] = {}
        self._sizes: list[float] = []
        self._times: list[float] = []
        self._fit = (0.0, 1.0)
        self._near: dict[float, Cell] = {}
        self._moved = 0.0

    def _build(self) -> None:
        """Make the line anew: cells in order, drawn towards the straight fit, then none below another."""
        cells = sorted(self._cells.values(), key=lambda cell: cell.size)
        weights = [cell.runs * 0.5 ** ((self.count - cell.seen) / _HALF_LIFE) for cell in cells]
        self._sizes = [cell.size for cell in cells]
        self._fit = base, slope = fits.straight(self._sizes, [cell.run_s for cell in cells], weights)
        drawn = [
            (cell.run_s * cell.runs + _DRAWN * (base + slope * cell.size)) / (cell.runs + _DRAWN) for cell in cells
        ]
        self._times = fits.never_falling(drawn, weights)
        self._moved = 0.0

    def _interpolate(self, size: float) -> float:
        sizes, times = self._sizes, self._times
        size = min(max(size, _LEAST_SIZE), _MOST_SIZE)
        at = bisect_right(sizes, size)
        if 0 < at < len(sizes):
            low, high = sizes[at - 1], sizes[at]
            return times[at - 1] + (times[at] - times[at - 1]) * (size - low) / (high - low)
        edge = 0 if at == 0 else -1
        base, slope = self._fit
        return times[edge] * (base + slope * size) / (base + slope * sizes[edge])

    def to_state(self) -> CurveState:
        """What it knows; afterwards it answers exactly as a curve made from it."""
        self._forget_built()
        self._forget_trend()
        return CurveState(self.level, self.count, self._cells, self._spread.to_state())

    @staticmethod
    def from_state(state: CurveState) -> Curve:
        """The curve again. Raises ValueError for what no curve can have written."""
        cells = state.cells.items()
        sound = (
            1e-30 < state.level < 1e30
            and 0 < len(cells) <= MOST_CELLS
            and all(_LEAST_SIZE <= cell.size <= _MOST_SIZE and 1.0 <= cell.runs <= _MEMORY + 1.0 for _, cell in cells)
            and all(1e-40 < cell.run_s < 1e40 for _, cell in cells)
            and all(0 < cell.seen <= state.count < 2**53 for _, cell in cells)
            and len(state.spread) == _BINS
            and all(0.0 <= weight < 1e6 for weight in state.spread)
            and sum(state.spread) > 0.0
        )
        if not sound:
            raise ValueError("the state of a curve has values that no curve can have")
        curve = Curve()
        curve.level, curve.count, curve._cells = state.level, state.count, dict(state.cells)
        curve._spread = Spread(_LOW, _WIDTH, _SPREAD_MEMORY, state.spread)
        return curve


def _place(size: float) -> int:
    """The cell of a size: two to a doubling."""
    return math.floor(2.0 * math.log2(size))


def _learn(cell: Cell, size: float, run_s: float) -> float:
    """Move the cell's means; by how much of itself its time has moved."""
    runs = cell.runs
    excess = run_s / cell.run_s - 1.0
    if runs >= 3.0:
        excess = 0.6 if excess > 0.6 else -0.4 if excess < -0.4 else excess
    elif excess > 2.0:
        excess = 2.0
    elif excess < -0.5 and runs < 2.0:
        # The first run of a size compiles or allocates on many engines: a much faster second one is believed instead.
        cell.run_s = run_s
        cell.runs = 2.0
        return 1.0
    step = excess / (runs + 1.0)
    cell.run_s *= 1.0 + step
    if size != cell.size:
        cell.size += (size - cell.size) / (runs + 1.0)
    if runs < _MEMORY:
        cell.runs = runs + 1.0
    return step if step > 0.0 else -step
