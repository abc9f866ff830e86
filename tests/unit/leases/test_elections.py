"""What an elector's word is worth: who is elected, whose session has ended, and until when ours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.leases.contract import Claimant, Holding, Place
from holdfast.leases.elections import Elections
from holdfast.leases.elector import Line, Reading

OWN, HOLDER, OTHER = "a" * 32, "b" * 32, "c" * 32
END = Place(0, bytes(16))
HELD = Holding(
    epoch=3,
    beat=7,
    claimant=Claimant(holder=HOLDER, name="b", admin="", stomp=""),
    is_released=False,
    first_index=1,
    end=END,
    sure=END,
)


def read(*holders: str, began: float, sure: float = 3.0) -> Reading:
    line = Line(holders=holders, sure_seconds=sure)
    return Reading(began=began, ended=began + 0.5, is_willing=True, line=line)


@pytest.fixture
def elections() -> Elections:
    """One that stands for election since 0, and knows nothing yet."""
    made = Elections(OWN)
    made.want(is_willing=True, now=0.0)
    return made


def may_take(elections: Elections, holding: Holding, now: float, *, is_over: bool) -> bool:
    """Of a holder that was first seen silent at 10, where the shorter time is 2.5 s."""
    return elections.may_take(holding, now, is_over=is_over, silent_since=10.0, short_seconds=2.5)


def test_a_session_counts_from_before_it_was_asked_for_less_the_margin(
    elections: Elections,
) -> None:
    """The answer took half a second, and the elector's clock may be the faster one."""
    elections.note(read(OWN, began=10.0), 0.1)
    assert 12.7 == pytest.approx(elections.sure_until)
    elections.note(read(OWN, began=9.0), 0.1)
    assert 12.7 == pytest.approx(elections.sure_until)


def test_only_who_stands_in_the_line_has_a_session_that_counts(elections: Elections) -> None:
    """Somebody took our place away, we did not want it, or what came is of before we did."""
    elections.note(read(OTHER, began=10.0), 0.1)
    assert elections.sure_until < 0
    elections.note(replace(read(OWN, began=10.0), is_willing=False), 0.1)
    assert elections.sure_until < 0
    elections.want(is_willing=False, now=11.0)
    elections.want(is_willing=True, now=12.0)
    elections.note(read(OWN, began=11.5), 0.1)
    assert elections.sure_until < 0
    elections.note(read(OWN, began=12.5), 0.1)
    assert 15.2 == pytest.approx(elections.sure_until)


def test_who_leaves_the_line_is_sure_of_nothing(elections: Elections) -> None:
    """The session may go on, but nobody sees it any more."""
    elections.note(read(OWN, began=10.0), 0.1)
    elections.want(is_willing=False, now=10.5)

    assert not elections.is_elected(10.6)


def test_the_first_of_the_line_is_elected_and_a_holder_is_passed_over(
    elections: Elections,
) -> None:
    """The holder stands there too: once its time is over the next one is elected."""
    elections.note(read(HOLDER, OWN, OTHER, began=10.0), 0.1)

    assert HOLDER == elections.elected()
    assert not elections.is_elected(11.0)
    assert elections.is_elected(11.0, but=HOLDER)
    assert not elections.is_elected(12.8, but=HOLDER)
    assert "" == Elections(OWN).elected()


def test_a_lease_whose_time_is_over_is_for_the_elected_one(elections: Elections) -> None:
    """And not for whoever is second."""
    elections.note(read(OTHER, OWN, began=14.0), 0.1)
    assert not may_take(elections, HELD, 14.5, is_over=True)
    elections.note(read(OWN, OTHER, began=14.2), 0.1)
    assert may_take(elections, HELD, 14.5, is_over=True)
    nobody = replace(HELD, claimant=None, epoch=0)
    assert may_take(elections, nobody, 14.5, is_over=True)


def test_a_session_that_ended_shortens_the_waiting(elections: Elections) -> None:
    """The line was read once the shorter time was over, and the holder stood in it before."""
    elections.note(read(HOLDER, OWN, began=10.0), 0.1)
    assert not may_take(elections, HELD, 12.6, is_over=False)
    elections.note(read(OWN, began=12.4), 0.1)
    assert not may_take(elections, HELD, 13.0, is_over=False)
    elections.note(read(OWN, began=12.6), 0.1)
    assert may_take(elections, HELD, 13.0, is_over=False)


def test_who_was_never_in_the_line_is_waited_for_in_full(elections: Elections) -> None:
    """A broker without an elector goes by its whole lease."""
    elections.note(read(OWN, began=12.6), 0.1)

    assert not may_take(elections, HELD, 13.0, is_over=False)


def test_trouble_leaves_what_was_known_until_it_is_too_old(elections: Elections) -> None:
    """A session does not end because one answer is lost."""
    elections.note(read(OWN, began=10.0), 0.1)
    elections.note(Reading(began=11.0, ended=12.0, is_willing=True, trouble="away"), 0.1)

    assert ("away", 10.5) == (elections.trouble, elections.heard_at)
    assert elections.is_elected(12.6)
    assert not elections.is_elected(12.7)


def test_patience_is_two_leases_unless_it_is_set() -> None:
    """Beyond the lease itself."""
    assert 10.0 == Elections(OWN).patience_seconds(5.0)
    assert 1.5 == Elections(OWN, 1.5).patience_seconds(5.0)


def test_what_is_remembered_of_a_line_has_an_end(elections: Elections) -> None:
    """Each start of a broker is another one: a year has thousands of them."""
    for number in range(3_000):
        elections.note(read(f"{number:032x}", began=10.0), 0.1)
    assert len(elections._known) <= 1_001
    assert f"{2_999:032x}" in elections._known
