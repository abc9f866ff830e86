"""
Charts as SVG: well-formed, within their box, with round numbers at the axis.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from holdfast.spark.pipelines.report_chart import (
    HEIGHT,
    WIDTH,
    Curve,
    draw,
    nice_ceiling,
    short_number,
)


@pytest.mark.parametrize(
    ("value", "ceiling"), [(0, 1), (1, 1), (1.1, 2), (3, 5), (51, 100), (180_000, 200_000)]
)
def test_the_axis_ends_at_a_round_number(value: float, ceiling: float) -> None:
    """1, 2 or 5 times a power of ten, never below the highest point."""
    assert nice_ceiling(value) == ceiling


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.25, "0.25"), (950, "950"), (1500, "1.5 k"), (2e7, "20 M")]
)
def test_numbers_fit_beside_the_axis(value: float, text: str) -> None:
    """Three digits and a letter."""
    assert short_number(value) == text


@pytest.mark.parametrize("values", [[], [5.0], [0, 3, 7.5, 2]])
def test_every_point_is_in_the_box(values: list[float]) -> None:
    """No points, one or several: the drawing is well-formed and nothing leaves it."""
    times = [f"10:0{n}" for n in range(len(values))]
    svg = draw([Curve("a & b", "done", values, is_filled=True)], times, title="a < b", unit="/s")
    root = ET.fromstring(svg)
    for line in root.iter("polyline"):
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT
    assert len(list(root.iter("rect"))) == len(values)
