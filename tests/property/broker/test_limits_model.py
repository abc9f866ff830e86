"""
Consumers that have a message for too long, against a small model; see `limit_machine`.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.property.broker.limit_machine import LimitMachine
from tests.property.broker.suspect_machine import SuspectMachine
from tests.property.broker.test_broker_model import STEPS, arguments, is_possible

SLOW = STEPS | {
    **dict.fromkeys(("send", "subscribe", "turn", "time_passes"), 3.0),
    **dict.fromkeys(("late_word", "raise_the_level"), 1.0),
    **dict.fromkeys(("acknowledge", "acknowledge_by_guess", "reject"), 0.4),
    "change_leader": 0.1,
}

STORIES = {
    "of all kinds": {},
    "with transactions": {
        "begin": 2,
        "acknowledge_in_transaction": 6,
        "commit_transaction": 2,
        "abort_transaction": 3,
    },
    "with returns": {"raise_the_level": 2, "reject_for_now": 4},
}


@pytest.mark.parametrize("delay_ms", [0, 40])
@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
@example(seed=38755).via("a late word held what was on its way back once more, and gave it up")
@example(seed=36743).via("more was taken from a window than its consumer may have")
def test_nothing_is_in_delivery_for_too_long(story: str, delay_ms: int, seed: int) -> None:
    """
    And what is taken was; it comes again, counted, or is dead; a late word about it settles it once
    or is refused, whatever else happens.
    """
    walk(LimitMachine(delay_ms), Random(seed), SLOW | STORIES[story])


@pytest.mark.parametrize("suspect_after", [1, 2])
@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
def test_what_was_lost_with_others_is_sent_alone(story: str, suspect_after: int, seed: int) -> None:
    """
    To somebody who holds nothing, and gets nothing beside it; and all are delivered in the end.
    """
    deaths = {"consumer_dies": 3, "subscribe": 5, "raise_the_level": 2, "acknowledge": 2}
    walk(SuspectMachine(suspect_after), Random(seed), SLOW | STORIES[story] | deaths)


def walk(machine: LimitMachine, random: Random, weights: dict[str, float]) -> None:
    """Take so many steps, then let all that is left be delivered."""
    for step in range(120):
        (name,) = random.choices(list(weights), list(weights.values()))
        if name == "late_word":
            machine.late_word(random.randrange(100), is_open=random.random() < 0.3)
        elif is_possible(machine, name):
            getattr(machine, name)(**arguments(name, random))
        if step % 8 == 0:
            machine.check()
    machine.check()
    machine.teardown()
