"""The pictures of the docs: SVG that holds what it is given."""

import math
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.plot import COLOURS, Chart, line_chart, line_charts

SVG = "{http://www.w3.org/2000/svg}"


def lines(path: Path) -> list[str]:
    """The drawn lines, as paths, without those of the legend."""
    found = [each.get("d", "") for each in ElementTree.parse(path).iter(f"{SVG}path") if each.get("stroke") in COLOURS]
    return [each for each in found if "h26" not in each]


def test_a_chart_holds_its_words_and_a_line_for_each_series(tmp_path: Path) -> None:
    path = tmp_path / "new" / "chart.svg"
    line_chart("A <title>", "load, %", "ms", {"p50 & p99": [(1.0, 2.0), (3.0, 4.0)], "b": [(1.0, 9.0)]}, path)
    words = {each.text for each in ElementTree.parse(path).iter(f"{SVG}text")}
    assert {"A <title>", "load, %", "ms", "p50 & p99", "b"} <= words
    assert len(lines(path)) == 2


def test_points_that_cannot_be_drawn_break_the_line(tmp_path: Path) -> None:
    points = [(1.0, 1.0), (2.0, 10.0), (3.0, 0.0), (4.0, math.nan), (5.0, 100.0), (6.0, 10.0)]
    line_chart("t", "x", "y", {"a": points}, tmp_path / "log.svg", log_y=True)
    (line,) = lines(tmp_path / "log.svg")
    assert (line.count("M"), line.count("L")) == (2, 2)


def test_a_higher_value_is_drawn_higher(tmp_path: Path) -> None:
    line_chart("t", "x", "y", {"a": [(0.0, 1.0), (1.0, 5.0)]}, tmp_path / "a.svg")
    (line,) = lines(tmp_path / "a.svg")
    low, high = (float(point.split(" ")[1]) for point in line[1:].split("L"))
    assert high < low


def test_charts_without_points_are_drawn_empty(tmp_path: Path) -> None:
    line_charts([Chart("a", "x", "y", {}), Chart("b", "x", "y", {"none": []}, log_y=True)], tmp_path / "empty.svg")
    assert ElementTree.parse(tmp_path / "empty.svg").getroot().tag == f"{SVG}svg"
