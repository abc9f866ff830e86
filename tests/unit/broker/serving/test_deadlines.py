"""
What is due, and the room that it takes.
"""

from __future__ import annotations

from random import Random

from holdfast.broker.serving.deadlines import Deadlines


def test_they_come_in_order_whatever_was_looked_at() -> None:
    """
    Those that count, each once.
    """
    random = Random(7)
    deadlines: Deadlines[tuple[int, int]] = Deadlines()
    living: set[tuple[int, int]] = set()
    for serial in range(1, 2_000):
        if living and random.random() < 0.4:
            living.discard(random.choice(sorted(living)))
        entry = (random.randint(1, 50), serial)
        living.add(entry)
        deadlines.add(entry, living.__contains__)
        assert deadlines.soonest <= min(living)[0]
    came = [deadlines.pop() for _ in range(len(deadlines))]
    assert came == sorted(came)
    assert [entry for entry in came if entry in living] == sorted(living)
    assert deadlines.soonest == 0


def test_what_does_not_count_any_more_takes_no_room() -> None:
    """
    However often something comes that is due much later, and is done with at once.
    """
    deadlines: Deadlines[tuple[int, int]] = Deadlines()
    for serial in range(10_000):
        deadlines.add((1_000_000 + serial, serial), lambda entry: entry[1] < 10)
    assert len(deadlines) < 50
    assert deadlines.empty()
    assert len(deadlines) == 0
