"""
Errands and what is gone: a slice of them in each turn, and the next turn comes by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

STEPS = 5


def test_an_errand_goes_on_a_step_in_each_turn(hasty) -> None:
    """
    Where there is no time for more.
    """
    done: list[int] = []

    def steps() -> Iterator[None]:
        for number in range(STEPS):
            done.append(number)
            yield

    hasty.broker.errands.begin(steps())
    counts = []
    while hasty.broker.errands.under_way:
        counts.append(len(done))
        hasty.turn()
    assert counts == list(range(1, STEPS + 1))


def test_what_is_gone_is_freed_in_turns(hasty) -> None:
    """
    Of many things that are gone at once some are left for the next turn.
    """
    gone = [[number] for number in range(STEPS)]
    for each in gone:
        hasty.broker.flow.discards.add([each])
    hasty.turn()
    assert hasty.broker.has_to_let_go
    for _ in range(10 * STEPS):
        hasty.turn()
    assert not hasty.broker.has_to_let_go
