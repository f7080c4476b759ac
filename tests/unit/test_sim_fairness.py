"""The fairness study in small: what docs/batching.md promises of lanes and tenants, on a fixed seed in virtual time."""

import math

import pytest
from msgspec.structs import replace

from benchmarks.fairness_report import LANES, TENANTS, Compared, Figures, table
from benchmarks.fairness_virtual import DEVICES, beside_bulk, beside_flood, beside_open_flood

STEEP = replace(DEVICES[1], seconds=12.0)


def test_a_saturating_bulk_lane_hardly_moves_interactive_latency_and_takes_most_of_the_rest() -> None:
    found = beside_bulk(STEEP)
    assert found.ratio <= 1.3
    assert found.of_the_rest >= 0.6


def test_a_tenant_that_asks_for_a_hundred_times_its_load_hardly_moves_that_of_the_others() -> None:
    found = beside_flood(STEEP)
    assert found.ratio <= 1.2
    assert found.of_the_rest >= 0.5


def test_nor_does_one_that_waits_for_no_reply_where_tenants_have_a_quota() -> None:
    found = beside_open_flood(STEEP)
    assert found.ratio <= 1.2
    assert found.of_the_rest >= 0.5
    assert found.refused is not None
    assert found.refused > 0.8


@pytest.mark.parametrize(
    ("without", "beside", "kinds", "verdict"),
    [
        (10.0, 12.9, {}, "holds"),
        (10.0, 13.1, {}, "MISSED"),
        (10.0, 50.0, {"slo_ms": 50.0}, "within the SLO"),
        (10.0, 51.0, {"slo_ms": 50.0}, "MISSED"),
        (16.0, 16.0, {"foretold_p99_ms": 10.0}, "noise"),
        (math.inf, math.inf, {}, "MISSED"),
    ],
)
def test_a_verdict_says_whether_the_bound_holds(
    without: float, beside: float, kinds: dict[str, float], verdict: str
) -> None:
    one, other = Figures(100, 5.0, without), Figures(100, 5.0, beside)
    found = Compared(LANES, "a device", 0.4, one, other, 0.7, **kinds)
    assert found.verdict == verdict
    assert found.passes == (verdict in ("holds", "within the SLO"))
    assert table([found]).endswith(f"| 50% |  | {verdict} |")


def test_the_bound_beside_a_tenant_is_a_fifth() -> None:
    assert Compared(TENANTS, "", 0.5, Figures(9, 1.0, 10.0), Figures(9, 1.0, 12.1), 0.9).verdict == "MISSED"
