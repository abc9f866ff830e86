"""
Producers' numbers on their way to the log: new, stored, under way, gap.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.producers import Producers
from holdfast.broker.serving.numbers_taken import NumbersTaken, Verdict
from holdfast.errors import ProducerForgottenError, SequenceGapError
from holdfast.model.limits import FLOOR_ID
from holdfast.model.owners import Owner
from holdfast.model.producer_ids import room_of


@pytest.fixture
def producers() -> Producers:
    return Producers()


@pytest.fixture
def numbers(producers) -> NumbersTaken:
    return NumbersTaken(producers)


def test_numbers_are_taken_one_after_the_other(producers, numbers) -> None:
    """
    From 1 on; each is new once, then under way, then stored.
    """
    assert [numbers.take("p", n) for n in (1, 2, 1)] == [
        *(Verdict.NEW, Verdict.NEW, Verdict.UNDER_WAY),
    ]
    producers.stored("p", 1, 10, 1000)
    assert numbers.take("p", 1) is Verdict.STORED
    assert numbers.take("p", 2) is Verdict.UNDER_WAY
    assert numbers.take("other", 1) is Verdict.NEW


def test_asking_for_a_number_takes_none(producers, numbers) -> None:
    """
    Stored or under way is taken; the next one is free until it is sent.
    """
    assert [numbers.has_taken("p", n) for n in (0, 1)] == [False, False]
    numbers.take("p", 1)
    assert [numbers.has_taken("p", n) for n in (1, 2, 2)] == [True, False, False]
    producers.stored("p", 1, 10, 1000)
    assert [numbers.has_taken("p", n) for n in (1, 2)] == [True, False]


@pytest.mark.parametrize("sequence", [0, 2, 100])
def test_a_gap_names_what_is_expected(producers, numbers, sequence) -> None:
    """
    An unknown producer begins with 1; nothing is kept of one that does not.
    """
    with pytest.raises(SequenceGapError) as caught:
        numbers.take("p", sequence)
    assert (caught.value.expected, caught.value.found) == (1, sequence)
    assert not producers.by_id
    assert not numbers.under_way


def test_a_new_leadership_forgets_what_was_only_taken(producers, numbers) -> None:
    """
    What was on its way to the log of a deposed leader may never have arrived.
    """
    numbers.take("p", 1)
    producers.stored("p", 1, 10, 1000)
    numbers.take("p", 2)
    numbers.take("q", 1)
    after = NumbersTaken(producers)
    assert list(producers.by_id) == ["p"]
    assert after.take("p", 2) is Verdict.NEW
    producers.stored("p", 2, 11, 1000)
    assert not after.under_way
    assert numbers.under_way == {"p": 2, "q": 1}


def test_forgetting_keeps_what_is_on_its_way(producers, numbers) -> None:
    """
    A producer that wakes while its forgetting is on its way to the log goes on where it was.
    """
    producers.stored("p", 7, 50, 500)
    assert numbers.take("p", 8) is Verdict.NEW
    assert numbers.take("p", 9) is Verdict.NEW
    producers.forget("p")
    assert numbers.take("p", 9) is Verdict.UNDER_WAY
    producers.stored("p", 8, 60, 600)
    producers.stored("p", 9, 61, 600)
    assert numbers.take("p", 10) is Verdict.NEW


def test_a_number_that_came_to_nothing_is_given_back(producers, numbers) -> None:
    """
    The next message of that number is new; a producer that stored nothing is not known.
    """
    numbers.take("p", 1)
    numbers.give_back("p")
    assert not producers.by_id
    assert not numbers.under_way
    producers.stored("p", 1, 1, 1)
    numbers.take("p", 2)
    numbers.give_back("p")
    assert numbers.take("p", 2) is Verdict.NEW
    numbers.take("p", 3)
    numbers.give_back("p")
    assert numbers.under_way == {"p": 2}


def test_who_goes_on_where_nothing_is_known_is_told_so(producers, numbers) -> None:
    """
    Forgotten, or never begun: the broker cannot tell; beginning with 1 is always possible.
    """
    producers.stored("p", 7, 50, 500)
    producers.forget("p")
    with pytest.raises(ProducerForgottenError) as caught:
        numbers.take("p", 8)
    assert caught.value.code == "producer-forgotten"
    assert "another id" in str(caught.value)
    assert numbers.take("p", 1) is Verdict.NEW
    with pytest.raises(SequenceGapError, match="missing messages"):
        numbers.take("p", 3)


def test_what_is_applied_is_not_kept_as_taken(producers, numbers) -> None:
    """
    Else each producer would cost the leader twice.
    """
    numbers.take("p", 1)
    numbers.take("p", 2)
    producers.stored("p", 1, 10, 1)
    assert numbers.under_way == {"p": 2}
    producers.stored("p", 2, 11, 1)
    assert not numbers.under_way
    assert numbers.take("p", 3) is Verdict.NEW


def test_a_floor_is_raised_until_its_own_record_is_applied(producers, numbers) -> None:
    """
    Neither a lower one on its way before it nor a producer of the same name as the floor ends that.
    """
    floors = numbers.floors
    assert [floors.raise_to("query", before) for before in (3, 3, 4)] == [True, False, True]
    numbers.take("query", 1)
    producers.stored("query", 1, 1, 1)
    producers.stored(FLOOR_ID + "query", 3, 2, 1)
    assert floors.raised == {"query"}
    assert floors.of("query") == 4
    producers.stored(FLOOR_ID + "query", 4, 3, 1)
    assert not floors.raised
    assert producers.floor_names == {"query"}
    assert floors.of("query") == 4


def test_what_was_taken_is_let_go_of_with_the_leadership(desk) -> None:
    """
    There may be as many as messages on their way; the next leadership has none of them.
    """
    desk.broker.send(desk.queue(), b"", b"x", desk.client, None, "p", 1)
    numbers = desk.broker.destinations.leadership.numbers
    assert desk.state.producers.listener is numbers
    desk.broker.follow()
    assert numbers.under_way == {"p": 1}
    assert not desk.broker.destinations.leadership.numbers.under_way
    desk.broker.let_go(lambda: False)
    assert not numbers.under_way


def test_a_log_that_is_replaced_has_a_leader_that_listens(desk) -> None:
    """
    The lasting half is another one then, and is listened to.
    """
    desk.broker.begin_anew()
    leadership = desk.broker.destinations.leadership
    assert desk.state.producers.listener is leadership.numbers
    desk.broker.lead()
    desk.broker.send(desk.queue(), b"", b"x", desk.client, None, "p", 1)
    desk.turn()
    assert desk.state.producers.last("p") == 1
    assert not desk.broker.destinations.leadership.numbers.under_way


OWN = room_of(Owner("ann", 7)) + "p"
OTHERS = room_of(Owner("eve")) + "p"


@pytest.mark.parametrize("where", ["stored", "under way"])
def test_what_was_numbered_elsewhere_counts_for_nothing_in_a_room(
    producers, numbers, where: str
) -> None:
    """
    Whoever begins with 1 is new; without it nothing is confirmed, nor told how far another came.
    """
    for number in (1, 2, 3):
        numbers.take("p", number)
        if where == "stored":
            producers.stored("p", number, 10 + number, 1000)
    for number in (2, 3, 4, 9):
        assert not numbers.has_taken(OWN, number)
        with pytest.raises(ProducerForgottenError) as caught:
            numbers.take(OWN, number)
        assert (caught.value.expected, "ann" in str(caught.value)) == (1, False)
    assert [numbers.take(OWN, n) for n in (1, 2, 2)] == [
        *(Verdict.NEW, Verdict.NEW, Verdict.UNDER_WAY),
    ]
    with pytest.raises(SequenceGapError, match="producer p: expected sequence 3, found 9"):
        numbers.take(OWN, 9)
    assert numbers.take(OTHERS, 1) is Verdict.NEW
    assert numbers.take("p", 4) is Verdict.NEW


def test_nothing_behind_a_first_number_that_was_refused_is_confirmed(producers, numbers) -> None:
    """
    Its client has more under way already: without the first of them all are refused.
    """
    producers.stored("p", 3, 10, 1000)
    assert numbers.take(OWN, 1) is Verdict.NEW
    numbers.give_back(OWN)
    for number in (2, 3, 4):
        with pytest.raises(ProducerForgottenError):
            numbers.take(OWN, number)
    assert [numbers.take(OWN, n) for n in (1, 2)] == [Verdict.NEW] * 2
