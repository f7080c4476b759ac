"""Line charts as SVG text, in colours that can be read on light and on dark pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

Points: TypeAlias = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, BOTTOM = 76, 24, 44, 78
TICKS = 6
INK, GRID = "#7d8590", "#7d8590"
COLOURS = ("#2f81f7", "#d9730d", "#2da44e", "#bf5af2", "#cf4a4a", "#1b9e9e", "#a68a00", "#8c6d5a")
DASHES = ("", "7 4", "2 3")  # colours alone would leave some readers out
_NARROW = 6.6  # pixels a character takes at the legend's size


class Chart(Struct, frozen=True):
    """One chart: its words, and its lines by name, each a row of points (x, y).

    Points that are not finite, or not above 0 on a logarithmic axis, break the line.
    """

    title: str
    x_label: str
    y_label: str
    series: Mapping[str, Points]
    log_y: bool = False


class Scale(Struct, frozen=True):
    """Values of `low` to `high` on pixels of `start` to `end`; `ticks` are the values that the axis names."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    log: bool = False

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Mapping[str, Points],
    path: Path,
    log_y: bool = False,
) -> None:
    """Write one chart to `path`; folders above it are made."""
    line_charts([Chart(title, x_label, y_label, series, log_y)], path)


def line_charts(charts: Sequence[Chart], path: Path) -> None:
    """Write charts below one another into one picture; folders above `path` are made."""
    height = HEIGHT * len(charts)
    body = "".join(f'<g transform="translate(0 {HEIGHT * at})">\n{_draw(each)}</g>\n' for at, each in enumerate(charts))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="12" fill="{INK}">\n'
        f"<title>{escape('; '.join(each.title for each in charts))}</title>\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + body + "</svg>\n", encoding="utf-8")


def _draw(chart: Chart) -> str:
    points = [point for line in chart.series.values() for point in line if _is_drawn(point, chart.log_y)]
    xs = _scale([x for x, _ in points], LEFT, WIDTH - RIGHT, zero=False)
    ys = (_log_scale if chart.log_y else _scale)([y for _, y in points], HEIGHT - BOTTOM, TOP)
    lines = "".join(_line(line, xs, ys, at) for at, line in enumerate(chart.series.values()))
    return _frame(chart, xs, ys) + lines + _legend(list(chart.series))


def _is_drawn(point: tuple[float, float], log: bool) -> bool:
    return all(map(math.isfinite, point)) and not (log and point[1] <= 0)


def _scale(values: Sequence[float], start: float, end: float, zero: bool = True) -> Scale:
    """A scale with round ticks; from 0 where `zero` says so and no value is below."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    low = min(low, 0.0) if zero else low
    if high <= low:
        high = low + 1.0
    step = _round_step((high - low) / TICKS)
    low, high = (math.floor(low / step) * step, math.ceil(high / step) * step) if zero else (low, high)
    first = math.ceil(low / step - 1e-9)
    ticks = tuple(at * step for at in range(first, math.floor(high / step + 1e-9) + 1))
    return Scale(low, high, start, end, ticks)


def _log_scale(values: Sequence[float], start: float, end: float) -> Scale:
    low = math.floor(math.log10(min(values, default=1.0)))
    high = max(math.ceil(math.log10(max(values, default=10.0))), low + 1)
    return Scale(10.0**low, 10.0**high, start, end, tuple(10.0**at for at in range(low, high + 1)), log=True)


def _round_step(raw: float) -> float:
    power: float = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))


def _frame(chart: Chart, xs: Scale, ys: Scale) -> str:
    """Title, labels of the axes, ticks and their lines."""
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts = [
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="600">{escape(chart.title)}</text>',
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 38, chart.x_label, "middle"),
        f'<text transform="translate(18 {middle:g}) rotate(-90)" text-anchor="middle">{escape(chart.y_label)}</text>',
    ]
    for tick in ys.ticks:
        y = ys.at(tick)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{GRID}" stroke-opacity="0.25"/>')
        parts.append(_text(LEFT - 8, y + 4, _number(tick), "end"))
    parts += [_text(xs.at(tick), HEIGHT - BOTTOM + 18, _number(tick), "middle") for tick in xs.ticks]
    parts.append(f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" stroke="{GRID}" fill="none"/>')
    return "\n".join(parts) + "\n"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _number(value: float) -> str:
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):
        return f"{value:.0e}"
    return f"{value:,.6g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _line(points: Points, xs: Scale, ys: Scale, at: int) -> str:
    path, pen = [], "M"
    for point in points:
        if _is_drawn(point, ys.log):
            path.append(f"{pen}{xs.at(point[0]):.1f} {ys.at(point[1]):.1f}")
            pen = "L"
        else:
            pen = "M"
    return f'<path d="{"".join(path)}" fill="none" stroke-linejoin="round" {_stroke(at)}/>\n'


def _stroke(at: int) -> str:
    dash = DASHES[at // len(COLOURS) % len(DASHES)]
    return f'stroke="{COLOURS[at % len(COLOURS)]}" stroke-width="2"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _legend(names: Sequence[str]) -> str:
    """Names below the chart, in as many lines as they need."""
    x, y, parts = float(LEFT), HEIGHT - BOTTOM + 60.0, []
    for at, name in enumerate(names):
        width = 34 + _NARROW * len(name) + 14
        if x > LEFT and x + width > WIDTH - RIGHT:
            x, y = float(LEFT), y + 16
        parts.append(f'<path d="M{x:.1f} {y - 4:.1f}h26" {_stroke(at)}/>')
        parts.append(f'<text x="{x + 32:.1f}" y="{y:.1f}">{escape(name)}</text>')
        x += width
    return "\n".join(parts) + "\n"
