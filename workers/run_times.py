"""The learned latency: how long a batch of a bucket will run, by its rows and its cost. Pure.

Each bucket has a curve over the size of its batches; one curve of the whole model, over cost, stands in for buckets not
seen yet. Predictions are asked for in the batch loop, so they are cached; learning from a run takes some microseconds.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from typing import Protocol

import msgspec
from msgspec import Struct

from .run_time_curve import Curve, CurveState

FORM = 1
MOST_BUCKETS = 256
MOST_WRITTEN = 64  # buckets in a state, those seen last
# What lies outside is no batch that ever ran.
_MOST_ROWS = 1_000_000_000
_LEAST_S, _MOST_S = 1e-8, 1e7
_LEAST_COST, _MOST_COST = 1e-9, 1e18
_ALL_AT_FIRST, _ONE_IN = 64, 4  # runs that the curve of the whole model learns from
_NEAR_BEST = 0.97
_BELIEVED = 4.0  # a first run faster than a state's prediction by more is another device's
_DENSITY_MEMORY = 256.0
_LEVELLING = 0.05


class RunTimesLike(Protocol):
    """Who can say how long a batch will run."""

    def predict_s(self, bucket: object, rows: int, cost: float, quantile: float = 0.95) -> float:
        """Seconds below which a share of `quantile` of such batches runs; 0.0 while nothing is known."""


class _BucketState(Struct, array_like=True):
    curve: CurveState
    cost_of_row: float
    cost_share: float
    runs: float


class _State(Struct):
    form: int
    whole: CurveState | None
    buckets: dict[str, _BucketState]


class _Bucket:
    """A bucket's curve, over rows of its usual cost.

    Where rows of one bucket differ in cost (ragged inputs), `cost_share` of a row's weight is its cost over the usual
    one and the rest is 1. It starts at 1, for a cost was declared, and falls where times turn out not to depend on it.
    """

    __slots__ = ("cost_of_row", "cost_share", "curve", "is_hearsay", "runs")

    def __init__(self) -> None:
        self.curve = Curve()
        self.is_hearsay = False  # from a state, and nothing has run here since
        self.cost_of_row = 0.0
        self.cost_share = 1.0
        self.runs = 0.0

    def size(self, rows: int, cost: float) -> float:
        """The batch in rows of usual cost."""
        usual = self.cost_of_row * rows
        if cost == usual or usual <= 0.0 or not _LEAST_COST <= cost <= _MOST_COST:
            return rows
        return rows * (1.0 - self.cost_share + self.cost_share * min(cost / usual, 1e6))

    def observe(self, rows: int, cost: float, run_s: float, usual_s: float) -> None:
        if _LEAST_COST <= cost <= _MOST_COST:
            of_row = cost / rows
            if of_row != self.cost_of_row:
                self._learn_cost(rows, of_row, run_s)
        self.curve.observe(self.size(rows, cost), run_s, usual_s)

    def _learn_cost(self, rows: int, of_row: float, run_s: float) -> None:
        self.runs = min(self.runs + 1.0, _DENSITY_MEMORY)
        if self.curve.count and self.cost_of_row > 0.0:
            size = self.size(rows, of_row * rows)
            error = math.log(run_s / (self.curve.level * self.curve.at(size)))
            # How much more a row costs than usual; times that do not follow it lower its share.
            excess = max(-1.0, min(of_row / self.cost_of_row - 1.0, 1.0))
            step = _LEVELLING * max(-0.4, min(error, 0.4)) * excess / (excess * excess + 0.01)
            self.cost_share = max(0.0, min(self.cost_share + step, 1.0))
        self.cost_of_row += (of_row - self.cost_of_row) / self.runs


class RunTimes:
    """What a worker has learned of one model, version and device. One thread touches it.

    Buckets may be any hashables; beyond `most_buckets` the one seen least lately is forgotten.
    """

    def __init__(self, most_buckets: int = MOST_BUCKETS) -> None:
        self._most_buckets = most_buckets
        self._buckets: OrderedDict[object, _Bucket] = OrderedDict()
        self._whole = Curve()
        self._stored: dict[str, _Bucket] = {}  # read from a state, and not asked for by their bucket yet
        self._strange: set[object] = set()  # buckets that `_stored` has not got

    def __len__(self) -> int:
        return len(self._buckets)

    def observe(self, bucket: object, rows: int, cost: float, run_s: float) -> None:
        """A batch of the bucket ran for `run_s`; `cost` is that of all its rows. What cannot be is passed over."""
        if not (1 <= rows <= _MOST_ROWS and _LEAST_S <= run_s <= _MOST_S):
            return
        known = self._buckets.get(bucket)
        if known is None:
            known = self._find(bucket) or self._open(bucket)
        elif len(self._buckets) > 1:
            self._buckets.move_to_end(bucket)
        if known.is_hearsay:
            self._check_hearsay(known, rows, cost, run_s)
        whole = self._whole
        by_cost = cost if _LEAST_COST <= cost <= _MOST_COST else rows
        usual_s = whole.level * whole.at(by_cost) if whole.count and not known.curve.count else 0.0
        known.observe(rows, cost, run_s, usual_s)
        if whole.count < _ALL_AT_FIRST or not known.curve.count % _ONE_IN:
            whole.observe(by_cost, run_s)

    def predict_s(self, bucket: object, rows: int, cost: float, quantile: float = 0.95) -> float:
        """Seconds below which a share of `quantile` of such batches runs; 0.0 while nothing is known."""
        curve, size = self._curve_and_size(bucket, rows, cost)
        return curve.level * curve.at(size) * curve.factor(quantile) if curve.count else 0.0

    def mean_s(self, bucket: object, rows: int, cost: float) -> float:
        """Seconds that such a batch usually takes, stalls left out; 0.0 while nothing is known."""
        curve, size = self._curve_and_size(bucket, rows, cost)
        return curve.level * curve.at(size) if curve.count else 0.0

    def best_rows(self, bucket: object, max_rows: int) -> int:
        """The rows, at most `max_rows`, that most pass a second with; fewer where that costs under 3 %.

        It is `max_rows` for a bucket that is not known.
        """
        curve, _ = self._curve_and_size(bucket, 1, 1.0)
        if curve is self._whole:
            return max_rows
        candidates = {*sizes_up_to(max_rows), *(round(size) for size in curve.sizes())}
        pace = {rows: rows / curve.at(rows) for rows in candidates if 0 < rows <= max_rows}
        enough = _NEAR_BEST * max(pace.values())
        return min(rows for rows, per_s in pace.items() if per_s >= enough)

    def trust_less(self, runs: float = 4.0) -> None:
        """Keep what is known as a first guess that a few runs of each size replace: another version, a new process."""
        curves = [known.curve for known in (*self._buckets.values(), *self._stored.values())]
        for curve in (*curves, self._whole):
            curve.trust_less(runs)

    def to_state(self) -> dict[str, object]:
        """What is known as plain data that MessagePack can hold: the whole, and the buckets seen last."""
        named = {name: known for bucket, known in self._buckets.items() if (name := _name(bucket))}
        latest = list({**self._stored, **named}.items())[-MOST_WRITTEN:]
        buckets = {
            name: _BucketState(known.curve.to_state(), known.cost_of_row, known.cost_share, known.runs)
            for name, known in latest
        }
        state = _State(FORM, self._whole.to_state() if self._whole.count else None, buckets)
        plain: dict[str, object] = msgspec.to_builtins(state)
        return plain

    @staticmethod
    def from_state(state: object, most_buckets: int = MOST_BUCKETS) -> RunTimes:
        """What `to_state` gave; whatever else it is given, one that knows nothing. Raises nothing."""
        try:
            return _read(state, most_buckets)
        except (msgspec.ValidationError, ValueError, RecursionError, OverflowError):
            return RunTimes(most_buckets)

    def _curve_and_size(self, bucket: object, rows: int, cost: float) -> tuple[Curve, float]:
        known = self._buckets.get(bucket)
        if known is None:
            known = self._find(bucket) if self._stored else None
            if known is None:
                return self._whole, cost if _LEAST_COST <= cost <= _MOST_COST else max(rows, 1)
        return known.curve, known.size(rows, cost) if rows > 0 else 1.0

    def _check_hearsay(self, known: _Bucket, rows: int, cost: float, run_s: float) -> None:
        """Forget what a much slower device has taught: whom it makes hopeless does not run, so that it would last."""
        known.is_hearsay = False
        if _BELIEVED * run_s < known.curve.level * known.curve.at(known.size(rows, cost)):
            known.curve = Curve()
            self._whole = Curve()

    def _open(self, bucket: object) -> _Bucket:
        self._strange.discard(bucket)
        self._buckets[bucket] = opened = _Bucket()
        if len(self._buckets) > self._most_buckets:
            self._buckets.popitem(last=False)
        return opened

    def _find(self, bucket: object) -> _Bucket | None:
        """The stored bucket, which from now on has its key."""
        if not self._stored or bucket in self._strange:
            return None
        known = self._stored.pop(_name(bucket), None)
        if known is None:
            if len(self._strange) >= self._most_buckets:
                self._strange.clear()
            self._strange.add(bucket)
            return None
        self._buckets[bucket] = known
        if len(self._buckets) > self._most_buckets:
            self._buckets.popitem(last=False)
        return known


def sizes_up_to(most: int) -> list[int]:
    """Sizes worth telling apart, two to a doubling: 1, 2, 3, 4, 6, 8, 12, ... and `most` itself."""
    sizes = {most}
    power = 1
    while power < most:
        sizes |= {power, min(power + power // 2, most)}
        power *= 2
    return sorted(sizes)


def _name(bucket: object) -> str:
    """A name that another process gives it too; empty when it has none, since it shows where it lies in memory."""
    text = repr(bucket)
    return "" if " at 0x" in text else hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _read(raw: object, most_buckets: int) -> RunTimes:
    state = msgspec.convert(raw, _State)
    if state.form != FORM or len(state.buckets) > MOST_WRITTEN:
        raise ValueError("another form of state")
    read = RunTimes(most_buckets)
    if state.whole is not None:
        read._whole = Curve.from_state(state.whole)
    for name, each in state.buckets.items():
        if not (0.0 <= each.cost_of_row < math.inf and 0.0 <= each.cost_share <= 1.0 <= 1.0 + each.runs < 1e3):
            raise ValueError("the state of a bucket has values that no bucket can have")
        read._stored[name] = known = _Bucket()
        known.curve, known.is_hearsay = Curve.from_state(each.curve), True
        known.cost_of_row, known.cost_share, known.runs = each.cost_of_row, each.cost_share, each.runs
    return read
