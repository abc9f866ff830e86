"""
Moves as the leader writes them, and what becomes of them in a log.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.model.facts import Cause
from holdfast.model.format_level import MOVES_LEVEL
from holdfast.model.records import FormatRecord, MoveRecord


@pytest.fixture
def moving(desk):
    """A leader at the level of moves, with six messages on `orders`."""
    desk.broker.receipts.record(FormatRecord(MOVES_LEVEL))
    for number in range(6):
        desk.send(b"%d" % number)
    desk.turn()
    return desk.broker.moving


def move(desk, sequences, target="other", **options) -> None:
    going = [desk.queue(target)] if target else []
    desk.broker.moving.take(desk.queue(), going, sequences, Cause.MOVED, moved_at=5, **options)


def test_nothing_is_moved_before_every_member_can_read_it(desk) -> None:
    """
    An older member would stop at such a record.
    """
    assert not desk.broker.moving.is_possible


def test_neighbours_are_one_run_and_get_the_next_numbers_of_the_target(desk, moving) -> None:
    """
    Twenty bytes for a run, however long it is; what is sent next stands behind them.
    """
    desk.send(b"there", "other")
    move(desk, [1, 2, 3, 5])
    desk.send(b"behind", "other")
    (record,) = (it for it in desk.broker.receipts.batch.records if isinstance(it, MoveRecord))
    assert record.runs == [(1, 2, 3), (5, 5, 1)]
    assert (record.queue_name, record.moved_at) == ("orders", 5)
    desk.turn()
    assert list(desk.queue().index.sequences(1, 99)) == [4, 6]
    assert list(desk.queue("other").index.sequences(1, 99)) == [1, 2, 3, 4, 5, 6]


def test_a_record_names_a_thousand_and_is_alone_with_them_in_its_entry(desk, moving) -> None:
    """
    However short it is, whoever applies an entry at once must not be busy with more.
    """
    for _ in range(2_100):
        desk.send(b"x")
    desk.turn()
    move(desk, list(range(7, 2_107)))
    batches = [*desk.broker.receipts.closed, desk.broker.receipts.batch]
    assert [batch.moved_count for batch in batches] == [1_000, 1_000, 100]


def test_what_somebody_has_is_not_at_hand(desk, moving, new_client) -> None:
    """
    Delivered, acknowledged in a transaction, on its way elsewhere, gone.
    """
    queue = desk.queue()
    assert all(moving.is_at_hand(queue, sequence) for sequence in range(1, 7))
    desk.subscribe(client=new_client(), mode=AcknowledgeMode.INDIVIDUAL, prefetch=2)
    desk.turn()
    assert [moving.is_at_hand(queue, sequence) for sequence in range(1, 8)] == [
        *(False, False, True, True, True, True, False)
    ]
    move(desk, [4])
    moving.keep_from_all(queue, [4])
    assert not moving.is_at_hand(queue, 4)


def test_what_is_moved_is_delivered_to_nobody_any_more(desk, moving, new_client) -> None:
    """
    Not even before the record is in the log; what is given back of it neither.
    """
    queue, client = desk.queue(), new_client()
    move(desk, [1, 3])
    moving.keep_from_all(queue, [1, 3])
    desk.subscribe(client=client, mode=AcknowledgeMode.INDIVIDUAL, prefetch=9)
    desk.turn()
    assert client.keys == [2, 4, 5, 6]
    assert not queue.custody.withheld, "nothing is known of what is gone"


def test_a_copy_stays_where_it_was_too(desk, moving) -> None:
    """
    And may be moved and settled by itself.
    """
    move(desk, [1, 2], is_copy=True)
    desk.turn()
    assert desk.queue().index.live_count == 6
    assert list(desk.queue("other").index.sequences(1, 99)) == [1, 2]
    assert desk.state.live_count() == 8


def test_what_goes_nowhere_is_gone(desk, moving) -> None:
    """
    With its bytes counted no more.
    """
    move(desk, [2], target="")
    desk.turn()
    assert desk.state.live_count() == 5
    assert desk.state.live_bytes() == 5


def test_whoever_reads_the_log_comes_to_the_same_state(desk, moving) -> None:
    """
    Moves and copies, there and back again.
    """
    move(desk, [1, 2, 4])
    move(desk, [3], is_copy=True)
    desk.turn()
    desk.broker.moving.take(desk.queue("other"), [desk.queue()], [1, 3], Cause.RETRIED, moved_at=6)
    desk.turn()
    assert digest_of(desk.replayed()) == digest_of(desk.state)


def test_what_the_cleaner_writes_again_waits(desk, moving) -> None:
    """
    Moved meanwhile it would stand where the cleaner does not look any more.
    """
    queue = desk.queue()
    number = queue.index.record_number(3)
    moving.closed_through = number
    assert [moving.is_closed(queue, sequence) for sequence in (2, 3, 4)] == [True, True, False]
    desk.broker.follow()
    assert moving.closed_through == 0
