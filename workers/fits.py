"""Lines through points: a straight one, and one that never falls. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

_LEAST_SPREAD = 1e-12


def straight(sizes: Sequence[float], times: Sequence[float], weights: Sequence[float]) -> tuple[float, float]:
    """Base and slope, neither negative, of the straight line through the points by least relative squares.

    Sizes, times and weights are above 0. Two made-up points far out, half a run each, say half base and half slope:
    they decide while one size is known.
    """
    total = sum(weights)
    size = math.exp(sum(w * math.log(x) for w, x in zip(weights, sizes, strict=True)) / total)
    time = math.exp(sum(w * math.log(y) for w, y in zip(weights, times, strict=True)) / total)
    # In units of the middle, so that sizes of any magnitude keep their digits.
    points = [(x / size, y / time, w) for x, y, w in zip(sizes, times, weights, strict=True)]
    points += [(0.125, 0.5625, 0.5), (8.0, 4.5, 0.5)]
    s = sx = sy = sxx = sxy = 0.0
    for x, y, w in points:
        w /= y * y
        s, sx, sy, sxx, sxy = s + w, sx + w * x, sy + w * y, sxx + w * x * x, sxy + w * x * y
    spread = s * sxx - sx * sx
    # Of times that differ by more than the digits of a float hold, one point has all the weight.
    slope = (s * sxy - sx * sy) / spread if spread > _LEAST_SPREAD * s * sxx else 0.0
    slope = min(max(slope, 0.0), sxy / sxx)
    base = max((sy - slope * sx) / s, 0.0)
    return base * time, slope * time / size


def never_falling(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The values, where some fall replaced by their weighted mean, so that none is below the one before."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        members = 1
        while pools and pools[-1][0] > value:
            above, its_weight, its_members = pools.pop()
            value = (value * weight + above * its_weight) / (weight + its_weight)
            weight += its_weight
            members += its_members
        pools.append((value, weight, members))
    return [value for value, _, members in pools for _ in range(members)]
