"""
What is stored of producers: last numbers, floors' names, and who is told.
"""

from __future__ import annotations

from holdfast.broker.lasting.producers import Producers, unpack_producer
from holdfast.model.limits import FLOOR_ID


def test_an_older_record_does_not_turn_back() -> None:
    """
    What the cleaner wrote again behind newer numbers changes nothing.
    """
    producers = Producers()
    producers.stored("p", 5, 50, 500)
    producers.stored("p", 4, 60, 600)
    assert producers.get("p") == (5, 50, 500)
    assert [producers.last(each) for each in ("p", "other")] == [5, 0]


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
    assert producers.forgotten_count == 1


def test_floors_are_known_by_name_as_long_as_their_numbers_are() -> None:
    """
    Whoever leads asks for the names with each message, and never looks for them.
    """
    producers = Producers()
    producers.stored(FLOOR_ID + "query", 3, 1, 1)
    producers.stored("query-3-0", 1, 2, 1)
    producers.stored(FLOOR_ID + "query", 4, 3, 1)
    assert producers.floor_names == {"query"}
    producers.forget("query-3-0")
    assert producers.floor_names == {"query"}
    producers.forget(FLOOR_ID + "query")
    assert not producers.floor_names


def test_whoever_leads_is_told_of_every_number_that_is_applied() -> None:
    """
    Also of one that changes nothing: it may be the leader's own, on a floor that was higher.
    """
    told: list[tuple[str, int]] = []

    class Leader:
        def stored(self, producer_id: str, sequence: int) -> None:
            told.append((producer_id, sequence))

    producers = Producers()
    producers.stored("p", 1, 10, 1)
    producers.listener = Leader()
    producers.stored("p", 3, 11, 1)
    producers.stored("p", 2, 12, 1)
    assert told == [("p", 3), ("p", 2)]


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
