"""
The collector of cycles looks when it is told to, and at what was made lately.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from holdfast.server import cycle_collector
from holdfast.server.cycle_collector import CycleCollector


class Ring:
    """Something that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector() -> Iterator[CycleCollector]:
    made = CycleCollector()
    made.begin(0.0)
    yield made
    made.end()


def ring() -> weakref.ref[Ring]:
    """Make a ring that nobody holds."""
    return weakref.ref(Ring())


def test_it_looks_at_what_was_made_since_the_last_time(collector) -> None:
    """
    Left to itself it went through 200,000 objects at once where as many went as came.
    """
    looked_at: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            looked_at.append(len(gc.get_objects(generation=about["generation"])))

    kept = [[number] for number in range(100_000)]
    collector.step(1.0)
    gc.callbacks.append(note)
    for step in range(20):
        for number in range(5_000):
            kept[(step * 5_000 + number) % len(kept)] = [number]
        collector.step(1.0)
    gc.callbacks.remove(note)
    assert len(looked_at) == 20
    assert max(looked_at) <= 6_000


def test_it_never_looks_by_itself(collector) -> None:
    """
    Not even where very many objects stay.
    """
    before = [generation["collections"] for generation in gc.get_stats()]
    kept = [[number] for number in range(100_000)]
    assert [generation["collections"] for generation in gc.get_stats()] == before
    assert kept


def test_young_cycles_go_at_the_next_step(collector) -> None:
    """
    Most are of what was made and dropped at once.
    """
    dropped = ring()
    assert dropped() is not None
    collector.step(1.0)
    assert dropped() is None


@pytest.mark.parametrize("is_much", [False, True])
def test_old_cycles_go_while_there_is_little_to_look_through(collector, is_much: bool) -> None:
    """
    Once a minute; a full memory would take as long as it is large.
    """
    held = Ring()
    dropped = weakref.ref(held)
    collector.step(1.0)
    del held
    collector.step(2.0)
    assert dropped() is not None
    kept = [[number] for number in range(3 * cycle_collector._BLOCKS_MAX)] if is_much else []
    collector.step(61.0)
    assert (dropped() is not None) == is_much
    del kept
    collector.step(62.0)
    assert (dropped() is not None) == is_much
    collector.step(122.0)
    assert dropped() is None


def test_it_is_left_to_itself_in_the_end() -> None:
    """
    Whatever else runs in the process.
    """
    made = CycleCollector()
    made.begin(0.0)
    assert not gc.isenabled()
    made.end()
    assert gc.isenabled()
