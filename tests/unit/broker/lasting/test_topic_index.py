"""
A topic's index by itself; who needs what, with views on it, is in `test_view_index`.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.broker.lasting.sequence_index import CHUNK_SHIFT, CHUNK_SIZE, SequenceIndex
from holdfast.broker.lasting.topic_index import TopicIndex, bitmap_of, bits_of
from holdfast.broker.lasting.view_index import ViewIndex


def joined(index: TopicIndex, number: int, begin: int = 0) -> ViewIndex:
    view = ViewIndex(index, begin, number)
    view.join()
    index.takers[number] = index.by_slot[number] = view
    return view


@given(st.sets(st.integers(0, 300)))
def test_bits_go_there_and_back(places) -> None:
    """
    However many bytes they take.
    """
    assert bits_of(bitmap_of(places)) == sorted(places)


def test_what_nobody_takes_does_not_begin_to_live() -> None:
    """
    The last subscription ended while the message was on its way.
    """
    index = TopicIndex()
    index.is_whole = True
    assert not index.put(1, 1, 5)
    assert index.live_count == 0
    assert not index.died


def test_nothing_goes_before_all_subscriptions_are_known() -> None:
    """
    A replica that begins late learns further on who else needs what the one it knows is done with.
    """
    index = TopicIndex()
    index.put_next(1, 1, [1] * 10)
    joined(index, 1).remove([1, 2, 3])
    assert index.live_count == 10
    joined(index, 2).detach_through(2)
    index.become_whole()
    assert list(index.sequences(1, 1 << CHUNK_SHIFT)) == [3, 4, 5, 6, 7, 8, 9, 10]
    assert index.take_died() == [1, 2]


def test_who_is_away_costs_nothing_per_message() -> None:
    """
    Ten chunks for a hundred that have begun none: no flags, and no counts beside the chunks.
    """
    index = TopicIndex()
    index.is_whole = True
    views = [joined(index, number, 1) for number in range(100)]
    index.put_next(1, 1, [10] * (10 * CHUNK_SIZE))
    assert not any(view.chunks for view in views)
    assert all(chunk.done is None for chunk in index.chunks.values())
    assert {view.live_count for view in views} == {10 * CHUNK_SIZE}


def test_what_was_taken_for_a_queue_is_taken_over_whole() -> None:
    """
    Messages were met before the record that says that they stand on a topic.
    """
    queue = SequenceIndex()
    queue.put_next(5, 50, [3] * CHUNK_SIZE)
    queue.remove([6])
    queue.put_group_hash(7, 77)
    index = TopicIndex()
    index.take_over_from(queue)
    view = joined(index, 1)
    assert list(view.sequences(1, 9999)) == [5, *range(7, 5 + CHUNK_SIZE)]
    assert (view.live_count, view.live_bytes) == (CHUNK_SIZE - 1, 3 * (CHUNK_SIZE - 1))
    assert (view.record_number(8), view.group_hash(7)) == (53, 77)
