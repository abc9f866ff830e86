"""
Producer sequences: new, stored, under way, gap.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.producers import Producers, Verdict, unpack_producer
from holdfast.errors import ProducerForgottenError, SequenceGapError


def test_numbers_are_taken_one_after_the_other() -> None:
    """
    From 1 on; each is new once, then under way, then stored.
    """
    producers = Producers()
    assert [producers.check("p", n) for n in (1, 2, 1)] == [
        *(Verdict.NEW, Verdict.NEW, Verdict.UNDER_WAY),
    ]
    producers.stored("p", 1, 10, 1000)
    assert producers.check("p", 1) is Verdict.STORED
    assert producers.check("p", 2) is Verdict.UNDER_WAY
    assert producers.check("other", 1) is Verdict.NEW


def test_asking_for_a_number_takes_none() -> None:
    """
    Stored or under way is taken; the next one is free until it is sent.
    """
    producers = Producers()
    assert not producers.has_taken("p", 1)
    producers.check("p", 1)
    assert [producers.has_taken("p", n) for n in (1, 2, 2)] == [True, False, False]


@pytest.mark.parametrize("sequence", [0, 2, 100])
def test_a_gap_names_what_is_expected(sequence) -> None:
    """
    An unknown producer begins with 1; nothing is kept of one that does not.
    """
    producers = Producers()
    with pytest.raises(SequenceGapError) as caught:
        producers.check("p", sequence)
    assert (caught.value.expected, caught.value.found) == (1, sequence)
    assert not producers.by_id


def test_a_new_leadership_forgets_what_was_only_assigned() -> None:
    """
    What was on its way to the log of a deposed leader may never have arrived.
    """
    producers = Producers()
    producers.check("p", 1)
    producers.stored("p", 1, 10, 1000)
    producers.check("p", 2)
    producers.check("q", 1)
    producers.forget_leadership()
    assert list(producers.by_id) == ["p"]
    assert producers.check("p", 2) is Verdict.NEW


def test_an_older_record_does_not_turn_back() -> None:
    """
    What the cleaner wrote again behind newer numbers changes nothing.
    """
    producers = Producers()
    producers.stored("p", 5, 50, 500)
    producers.stored("p", 4, 60, 600)
    assert producers.get("p") == (5, 50, 500)


def test_forgetting_keeps_what_is_on_its_way() -> None:
    """
    A producer that wakes while its forgetting is on its way to the log goes on where it was.
    """
    producers = Producers()
    producers.stored("p", 7, 50, 500)
    assert producers.check("p", 8) is Verdict.NEW
    assert producers.check("p", 9) is Verdict.NEW
    producers.forget("p")
    assert producers.check("p", 9) is Verdict.UNDER_WAY
    producers.stored("p", 8, 60, 600)
    producers.stored("p", 9, 61, 600)
    assert producers.check("p", 10) is Verdict.NEW
    producers.forget_leadership()
    producers.forget("p")
    producers.forget("p")
    assert not producers.by_id


def test_a_number_that_came_to_nothing_is_given_back() -> None:
    """
    The next message of that number is new; a producer that stored nothing is not known.
    """
    producers = Producers()
    producers.check("p", 1)
    producers.untake("p")
    assert not producers.by_id
    assert not producers.assigned
    producers.stored("p", 1, 1, 1)
    producers.check("p", 2)
    producers.untake("p")
    assert producers.check("p", 2) is Verdict.NEW


def test_who_goes_on_where_nothing_is_known_is_told_so() -> None:
    """
    Forgotten, or never begun: the broker cannot tell; beginning with 1 is always possible.
    """
    producers = Producers()
    producers.stored("p", 7, 50, 500)
    producers.forget("p")
    assert producers.forgotten_count == 1
    with pytest.raises(ProducerForgottenError) as caught:
        producers.check("p", 8)
    assert caught.value.code == "producer-forgotten"
    assert "another id" in str(caught.value)
    assert producers.check("p", 1) is Verdict.NEW
    with pytest.raises(SequenceGapError, match="missing messages"):
        producers.check("p", 3)


def test_the_length_of_ids_is_counted() -> None:
    """
    It stands in the log as often as the cleaner goes round.
    """
    producers = Producers()
    for number in (1, 2):
        producers.stored("four", number, number, 1)
        producers.stored("three", number, number, 1)
    assert producers.id_bytes == 9
    producers.forget("four")
    producers.forget("four")
    assert producers.id_bytes == 5


def test_what_is_applied_is_not_kept_as_assigned() -> None:
    """
    Else each producer would cost the leader twice.
    """
    producers = Producers()
    producers.check("p", 1)
    producers.check("p", 2)
    producers.stored("p", 1, 10, 1)
    assert producers.assigned == {"p": 2}
    producers.stored("p", 2, 11, 1)
    assert not producers.assigned
    assert producers.check("p", 3) is Verdict.NEW


def test_all_of_them_stay_as_they_were_for_who_asked() -> None:
    """
    A checkpoint, or a search for the least used, goes on for many turns.
    """
    producers = Producers()
    for number in range(5):
        producers.stored(f"p{number}", 1, 10 + number, 100)
    seen = producers.as_they_are()
    producers.stored("p3", 2, 50, 200)
    producers.stored("new", 1, 51, 200)
    producers.forget("p1")
    assert sorted((name, unpack_producer(value).last) for name, value in seen) == [
        (f"p{number}", 1) for number in range(5)
    ]
