"""
Which message is next by priority, and what it takes to find it.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.sequence_index import BY_PRIORITY
from holdfast.broker.serving.lanes import NO_RANK, Lanes
from holdfast.model.facts import Attributes, MessageFacts

ALL = 1 << 40


@pytest.fixture
def queue(desk):
    return desk.queue()


def stored(queue, *priorities: int) -> None:
    """Put messages with these priorities on a queue."""
    lasting = queue.lasting
    for priority in priorities:
        sequence = lasting.next_sequence
        queue.index.put(sequence, 1_000 + sequence, 10)
        queue.index.put_priority(sequence, priority)
        lasting.next_sequence = sequence + 1


def lanes_of(queue, *, covered: bool = True) -> Lanes:
    lanes = Lanes(queue, 1)
    lanes.left = ALL
    if covered:
        queue.lasting.dispatch_mark = ALL
    lanes.note()
    return lanes


def all_of(lanes: Lanes) -> list[int]:
    keys = []
    while key := lanes.next_key():
        keys.append(key)
    return keys


def test_the_highest_goes_first_and_of_one_the_oldest(queue) -> None:
    """Strictly, over chunks; what has no priority is between 3 and 5."""
    stored(queue, *([4] * 600), 9, 0, 5, 4, 9)
    lanes = lanes_of(queue)
    assert lanes.next_rank() == 0
    assert all_of(lanes) == [601, 605, 603, *range(1, 601), 604, 602]
    assert lanes.next_rank() == NO_RANK
    assert lanes.cursor == 606


def test_what_comes_meanwhile_is_found(queue) -> None:
    """Also in a chunk that a lane had done with."""
    stored(queue, 1, 9)
    lanes = lanes_of(queue)
    assert lanes.next_key() == 2
    stored(queue, 9, 4)
    lanes.note()
    assert all_of(lanes) == [3, 4, 1]


def test_what_was_given_back_goes_first_of_its_priority(queue) -> None:
    """And behind all of a higher one."""
    stored(queue, 4, 4, 4)
    lanes = lanes_of(queue)
    assert lanes.next_key() == 1
    assert lanes.next_key() == 2
    stored(queue, 9)
    lanes.put_back(2)
    lanes.put_back(1)
    lanes.put_back(3)  # It comes in its turn.
    assert 3 in lanes
    lanes.note()
    assert all_of(lanes) == [4, 1, 2, 3]
    assert 3 not in lanes


def test_what_is_gone_or_withheld_is_passed_over(queue) -> None:
    """However much of it there is."""
    stored(queue, 9, 9, 4, 4)
    lanes = lanes_of(queue)
    queue.index.remove([1])
    queue.custody.withheld.add(2)
    queue.custody.withheld.add(3)
    assert all_of(lanes) == [4]
    queue.custody.withheld.discard(2)
    lanes.put_back(2)
    assert all_of(lanes) == [2]


def test_nothing_goes_before_what_the_mark_does_not_cover(queue) -> None:
    """It is wanted, and comes once the log says so; the mark itself stays where it is."""
    stored(queue, 4, 4, 9, 4)
    queue.lasting.dispatch_mark = 2
    lanes = lanes_of(queue, covered=False)
    assert (lanes.next_key(), queue.wanted) == (0, 3)
    assert lanes.next_key(heeds_mark=False) == 3
    lanes.put_back(3)
    queue.lasting.see(3, 3)
    assert (lanes.next_key(), queue.wanted) == (3, 0)
    assert [lanes.next_key(), lanes.next_key()] == [1, 2]
    assert queue.lasting.dispatch_mark == 3


def test_non_persistent_ones_stand_where_they_were_sent(desk, queue) -> None:
    """Behind the persistent one of their priority that was sent before."""
    high = MessageFacts(attributes=Attributes(priority=9))
    stored(queue, 9)
    queue.assigned_sequence = 2
    desk.broker.send_transient(queue, b"", b"x", high)
    stored(queue, 9)
    queue.assigned_sequence = 3
    desk.broker.send_transient(queue, b"", b"y")
    assert queue.volatile_ordering == BY_PRIORITY
    lanes = lanes_of(queue)
    for key in (-1, -2):
        lanes.add_transient(key)
    assert all_of(lanes) == [1, -1, 2, -2]
    lanes.put_back(-1)
    lanes.put_back(-1)
    assert all_of(lanes) == [-1]


def test_a_new_leader_notes_a_backlog_in_steps(queue) -> None:
    """Nothing is given before all is noted: the highest may stand last."""
    stored(queue, *([1] * (40 * 512)), 9)
    queue.lasting.dispatch_mark = ALL
    lanes = Lanes(queue, 1)
    steps = 0
    while lanes.is_noting:
        lanes.left = 2
        lanes.note()
        steps += 1
    assert steps == 21
    lanes.left = ALL
    assert lanes.next_key() == 40 * 512 + 1


def test_one_message_is_found_behind_many_without_a_look_at_them(queue, monkeypatch) -> None:
    """Q14: chunks of other priorities are not touched."""
    stored(queue, *([1] * (100 * 512)), 9, 1)
    lanes = lanes_of(queue)
    looked_at = []
    chunks = queue.index.chunks

    class Watched(dict):
        def get(self, number, default=None):
            looked_at.append(number)
            return chunks.get(number, default)

    monkeypatch.setattr(queue.index, "chunks", Watched(chunks))
    assert lanes.next_key() == 100 * 512 + 1
    assert set(looked_at) <= {100}
    assert lanes.next_key() == 1


def test_an_operator_who_empties_the_queue_is_followed(queue) -> None:
    """What stood before is left out."""
    stored(queue, 9, 4, 9, 4)
    lanes = lanes_of(queue)
    lanes.skip_to(3)
    assert all_of(lanes) == [3, 4]
    lanes.put_back(3)
    lanes.empty()
    assert all_of(lanes) == []
