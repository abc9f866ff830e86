"""
The judge of message groups: what breaks a rule is found, what a lost link explains is not.
"""

from __future__ import annotations

from itertools import count

import pytest

from trials.chaos.group_rules import IN_TWO_HANDS, OUT_OF_GROUP_ORDER, GroupBook


class Told:
    """Consumers of one group, each line a millisecond after the one before."""

    def __init__(self) -> None:
        self.book = GroupBook()
        self.clock = count(1_000_000, 1_000_000)

    def get(self, consumer: str, place: int) -> None:
        event = {"t": next(self.clock), "c": consumer, "id": f"ID:x-1-{place}"}
        self.book.deliver(event, "g", place)

    def ask(self, consumer: str, *places: int) -> None:
        self.book.ask(consumer, [f"ID:x-1-{place}" for place in places], next(self.clock))

    def confirm(self, consumer: str, *places: int) -> None:
        next(self.clock)
        self.book.confirm(consumer, [f"ID:x-1-{place}" for place in places])

    def settle(self, consumer: str, *places: int) -> None:
        self.ask(consumer, *places)
        self.confirm(consumer, *places)

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.book.violations()]


@pytest.fixture
def told() -> Told:
    """
    Somebody gets three messages of a group and settles them.
    """
    made = Told()
    for place in (1, 2, 3):
        made.get("a", place)
    made.settle("a", 1, 2, 3)
    return made


def test_a_group_that_goes_on_to_another_is_well(told):
    """One after the other, in order."""
    told.get("b", 4)
    told.settle("b", 4)

    assert told.kinds == []


def test_two_who_have_a_group_at_once_are_found(told):
    """Both were alive all the time, as their receipts came over the links they had."""
    told.get("a", 4)
    told.get("b", 5)
    told.settle("a", 4)
    told.settle("b", 5)

    assert told.kinds == [IN_TWO_HANDS]
    assert "b got ID:x-1-5" in next(sentence for _, sentence in told.book.violations())


def test_who_asked_in_time_may_hear_of_it_late(told):
    """The group is free as soon as its owner's word has come, not when the owner hears so."""
    told.get("a", 4)
    told.ask("a", 4)
    told.get("b", 5)
    told.confirm("a", 4)
    told.settle("b", 5)

    assert told.kinds == []


def test_what_a_lost_link_left_behind_is_nobodys(told):
    """Its consumer does not know yet that another has the group."""
    told.get("a", 4)
    told.get("b", 4)
    told.book.relink("a")
    told.settle("a", 4)
    told.settle("b", 4)

    assert told.kinds == []


def test_who_never_had_a_receipt_is_no_witness(told):
    """It may have been dead for its broker."""
    told.get("a", 4)
    told.get("b", 5)
    told.settle("b", 5)
    told.ask("a", 4)

    assert told.kinds == []


def test_a_long_hold_is_seen_behind_a_short_one(told):
    """The first of two that somebody has lasts longer than the second."""
    told.get("a", 4)
    told.get("a", 5)
    told.settle("a", 5)
    told.get("b", 6)
    told.settle("a", 4)
    told.settle("b", 6)

    assert told.kinds == [IN_TWO_HANDS]


def test_what_comes_first_behind_a_later_one_is_found(told):
    """To whomever: the order of a group is one."""
    told.get("b", 5)
    told.settle("b", 5)
    told.get("c", 4)
    told.settle("c", 4)

    assert told.kinds == [OUT_OF_GROUP_ORDER]


def test_what_comes_again_is_not_out_of_order(told):
    """A returned message stands where it stood."""
    told.get("b", 2)
    told.settle("b", 2)

    assert told.kinds == []
