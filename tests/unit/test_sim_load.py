"""Made traces: the rate that was asked for, the same for the same seed; traces as files."""

from collections import Counter
from pathlib import Path

import pytest

from headrace.sim_load import Load, Mix, Pattern, make_trace, mix_of
from headrace.sim_trace import Arrival, Trace, TraceUnreadable, load_trace, save_trace
from producer_sdk.topics import Lane
from workers.shapes import Bucket


@pytest.mark.parametrize("pattern", Pattern)
def test_every_pattern_keeps_the_mean_rate(pattern: Pattern) -> None:
    arrivals = make_trace(Load(200.0, 200.0, pattern)).arrivals
    assert len(arrivals) == pytest.approx(200 * 200, rel=0.03)
    assert all(0 <= each.at_s < 200 for each in arrivals)


@pytest.mark.parametrize("pattern", Pattern)
def test_a_seed_gives_the_same_trace_in_order_of_time(pattern: Pattern) -> None:
    load = Load(100.0, 5.0, pattern, rows=mix_of("1=1,8=1", int), seed=7)
    arrivals = make_trace(load).arrivals
    assert arrivals == make_trace(load).arrivals
    assert list(arrivals) == sorted(arrivals, key=lambda each: each.at_s)


def test_bursts_are_denser_than_poisson() -> None:
    def densest(pattern: Pattern) -> int:
        arrivals = make_trace(Load(500.0, 20.0, pattern)).arrivals
        return max(Counter(int(each.at_s * 10) for each in arrivals).values())

    assert densest(Pattern.BURSTY) > 1.8 * densest(Pattern.POISSON)


def test_a_mix_comes_in_its_proportions() -> None:
    arrivals = make_trace(Load(1000.0, 10.0, lanes=mix_of("interactive=9,bulk=1", Lane))).arrivals
    assert sum(each.lane is Lane.BULK for each in arrivals) == pytest.approx(len(arrivals) / 10, rel=0.15)


def test_lengths_are_buckets_and_make_the_cost() -> None:
    arrivals = make_trace(Load(100.0, 2.0, rows=Mix.of(3), lengths=mix_of("16,128", int))).arrivals
    assert {(each.bucket, each.cost) for each in arrivals} == {((16,), 48.0), ((128,), 384.0)}


@pytest.mark.parametrize("text", ["1=0", "1=-1", "1=x", "x", "1=nan", ""])
def test_a_mix_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        mix_of(text, int)


def test_a_trace_comes_back_from_its_file(tmp_path: Path) -> None:
    arrivals = (
        Arrival(0.0),
        Arrival(0.5, Lane.INTERACTIVE, 3, 48.0, 192, 0.25, ((16, 2), (3,)), "acme", 1),
    )
    save_trace(Trace("made by hand", arrivals), tmp_path / "t")
    assert load_trace(tmp_path / "t") == Trace("made by hand", arrivals)


def test_a_padded_bucket_is_told_from_others_in_a_file(tmp_path: Path) -> None:
    buckets = Bucket(((2,),), (16,)), ((2,), (16,))
    save_trace(Trace("made by hand", tuple(Arrival(0.0, bucket=each) for each in buckets)), tmp_path / "t")
    read = [each.bucket for each in load_trace(tmp_path / "t").arrivals]
    assert (tuple(read), [type(each) for each in read]) == (buckets, [Bucket, tuple])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1"),
        ('{"headrace_trace": 2}', "format 2"),
        ('{"headrace_trace": 1}\n[0.0]\n[1.0, "nowhere"]', "line 3"),
        ("\udcff", "line 1"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_by_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "t").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(TraceUnreadable, match=told):
        load_trace(tmp_path / "t")
