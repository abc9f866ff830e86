"""Answers in pages: put together, and given up where they have no end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest

from holdfast.admin import pages
from holdfast.admin.pages import PAGES_SECONDS_MAX, Pages, all_pages
from holdfast.errors import LinkLostError


def test_pages_become_one_answer() -> None:
    """Each asked for behind the one before; what stands beside the list is the first one's."""
    answers = {
        "/queues": {"role": "leader", "queues": [1, 2], "next": "b/ä"},
        "/queues?after=b%2F%C3%A4": {"role": "x", "queues": [], "next": "c"},
        "/queues?after=c": {"queues": [3], "next": None},
    }
    found = all_pages(answers.__getitem__, "/queues", "queues", whose="a:1")
    assert found == {"role": "leader", "queues": [1, 2, 3]}
    local = {
        "/queues?local": {"queues": [1], "next": "b"},
        "/queues?local&after=b": {"queues": [2]},
    }
    assert all_pages(local.__getitem__, "/queues?local", "queues", whose="a:1")["queues"] == [1, 2]


def same() -> Iterator[Any]:
    """Always the same."""
    return itertools.repeat("b")


def to_and_fro() -> Iterator[Any]:
    """Further on, and back."""
    return itertools.cycle(["b", "c"])


def mixed() -> Iterator[Any]:
    """Names, then numbers."""
    return iter(["b", 7])


@pytest.mark.parametrize(
    ("marks", "said"),
    [
        (same(), "ends with 'b' comes one that ends with 'b', which is not further on"),
        (to_and_fro(), "ends with 'c' comes one that ends with 'b'"),
        (mixed(), "ends with 'b' comes one that ends with '7'"),
        (iter([9, 8]), "ends with '9' comes one that ends with '8'"),
        (iter([True]), "ends with 'True'"),
        (iter([["b"]]), "which is not further on"),
        (iter(["x" * 9_999, "b"]), "ends with 'x{80}' comes"),
    ],
)
def test_a_page_that_leads_nowhere_ends_it(marks: Iterator[Any], said: str) -> None:
    """A command asked whoever answered so for ever; it says who that is."""

    def ask(_path: str) -> dict[str, Any]:
        return {"queues": [], "next": next(marks)}

    with pytest.raises(LinkLostError, match=f"a:1 does not answer as a node does: .*{said}"):
        all_pages(ask, "/queues", "queues", whose="a:1")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("COUNT", 20, "there were 20;"), ("BYTES", 2_000, r"there were 2,\d\d\d bytes;")],
)
def test_pages_without_an_end_are_bounded(
    monkeypatch: pytest.MonkeyPatch, name: str, value: int, said: str
) -> None:
    """Always another one that is further on, until the memory was full."""
    monkeypatch.setattr(pages, f"PAGES_{name}_MAX", value)
    marks = itertools.count(1)
    with pytest.raises(LinkLostError, match=f"its pages have no end: {said}"):
        all_pages(
            lambda _: {"queues": ["x" * 100], "next": next(marks)}, "/queues", "queues", whose="a:1"
        )
    assert next(marks) <= 21


def test_pages_that_drip_are_bounded() -> None:
    """But where one is the work of hours."""
    now = 0.0
    some = Pages("a:1", clock=lambda: now)
    patient = Pages("a:1", clock=lambda: now, seconds_max=inf)
    assert some.next_behind({"next": 1}) == patient.next_behind({"next": 1}) == 1
    now = PAGES_SECONDS_MAX
    assert patient.next_behind({"next": 2}) == 2
    with pytest.raises(LinkLostError, match="its pages have no end: they came for 600 s"):
        some.next_behind({"next": 2})
