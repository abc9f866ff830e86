"""
Curves as inline SVG: what the report's page draws, without a script and without the network.

A chart has one box, a few curves over the same points in time, a grid of three lines, and for every
point a transparent bar whose title the browser shows under the pointer. Colours are named by CSS
classes, so that the page decides them, in the light and in the dark.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 560
HEIGHT: Final = 150
_LEFT: Final = 52
_TOP: Final = 10
_BOTTOM: Final = 20


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a chart; `is_filled` also colours what is under it."""

    label: str
    style: str
    values: Sequence[float]
    is_filled: bool = False


def draw(curves: Sequence[Curve], times: Sequence[str], *, title: str, unit: str = "") -> str:
    """
    Return a chart as SVG. All curves have as many values as there are times.

    Args:
        title: Read aloud by a screen reader.
        unit: Stands behind the numbers at the axis, as in `/s`.
    """
    top = nice_ceiling(max((max(curve.values, default=0) for curve in curves), default=0))
    count = len(times)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        *_grid(top, unit),
    ]
    for curve in curves:
        points = [(_x(n, count), _y(value, top)) for n, value in enumerate(curve.values)]
        if count == 1:
            points.append((float(WIDTH), points[0][1]))
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        if curve.is_filled and points:
            floor = _y(0, top)
            area = f"{points[0][0]:.1f},{floor:.1f} {line} {points[-1][0]:.1f},{floor:.1f}"
            parts.append(f'<polygon class="area {curve.style}" points="{area}"/>')
        parts.append(f'<polyline class="line {curve.style}" points="{line}"/>')
    parts += _hints(curves, times, unit)
    if times:
        parts.append(f'<text class="tick" x="{_LEFT}" y="{HEIGHT - 5}">{escape(times[0])}</text>')
        parts.append(
            f'<text class="tick end" x="{WIDTH}" y="{HEIGHT - 5}">{escape(times[-1])}</text>'
        )
    parts.append("</svg>")
    return "".join(parts)


def nice_ceiling(value: float) -> float:
    """Return the next round number: 1, 2 or 5 times a power of ten; at least 1."""
    scale = 1.0
    while True:
        for factor in (1, 2, 5):
            if value <= factor * scale:
                return factor * scale
        scale *= 10


def short_number(value: float) -> str:
    """Return a number as it fits beside an axis: 950, 1.5 k, 20 M."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _x(position: int, count: int) -> float:
    return _LEFT + (WIDTH - _LEFT) * (position / (count - 1) if count > 1 else 0)


def _y(value: float, top: float) -> float:
    return _TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - value / top)


def _grid(top: float, unit: str) -> list[str]:
    parts = []
    for value in (0.0, top / 2, top):
        y = _y(value, top)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        label = escape(short_number(value) + unit)
        parts.append(f'<text class="tick end" x="{_LEFT - 6}" y="{y + 4:.1f}">{label}</text>')
    return parts


def _hints(curves: Sequence[Curve], times: Sequence[str], unit: str) -> list[str]:
    width = (WIDTH - _LEFT) / max(len(times), 1)
    height = HEIGHT - _TOP - _BOTTOM
    parts = []
    for n, time in enumerate(times):
        told = "\n".join(f"{it.label}: {short_number(it.values[n])}{unit}" for it in curves)
        parts.append(
            f'<rect class="hint" x="{_LEFT + n * width:.1f}" y="{_TOP}" width="{width:.1f}"'
            f' height="{height}"><title>{escape(time)}\n{escape(told)}</title></rect>'
        )
    return parts
