"""
How often messages came back: counted by the log, forgotten with the message, carried by copies.
"""

from __future__ import annotations

import hashlib

import pytest

from holdfast.broker.lasting.chunk import CHUNK_SIZE
from holdfast.broker.lasting.returns import COUNT_MAX, NEVER, Returned, Returns
from holdfast.broker.lasting.snapshot import Snapshot, digest_of
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import Attributes, MessageFacts, Place
from holdfast.model.records import (
    AcknowledgeRecord,
    MessageRecord,
    PurgeRecord,
    QueueRecord,
    ReturnCause,
    ReturnedRecord,
)

DUE = 1_900_000_000_000


@pytest.fixture
def state() -> BrokerState:
    state = BrokerState(BrokerSettings())
    records = [MessageRecord(1, sequence, b"", b"x", 1) for sequence in range(1, 1_001)]
    state.apply(1, [QueueRecord(1, "q"), *records], 1)
    return state


def returned(state: BrokerState, sequence: int) -> Returned:
    return state.queues[1].index.returned(sequence)


@pytest.mark.parametrize(
    ("cause", "failures"),
    [
        (ReturnCause.REJECTED, 1),
        (ReturnCause.TIMEOUT, 1),
        (ReturnCause.LOST_ALONE, 1),
        (ReturnCause.LOST, 0),
        (ReturnCause.RELEASED, 0),
    ],
)
def test_only_what_a_message_is_to_blame_for_counts_as_its_failure(state, cause, failures) -> None:
    """Every return is an attempt; the last one says until when it rests."""
    state.apply(2_000, [ReturnedRecord(1, cause, [5, 6], DUE)], 2)
    state.apply(2_001, [ReturnedRecord(1, cause, [5])], 2)
    assert returned(state, 5) == Returned(2, 2 * failures, 0)
    assert returned(state, 6) == Returned(1, failures, DUE)
    assert returned(state, 7) == NEVER


def test_counts_end_at_their_most() -> None:
    """A byte each: what fails for ever does not begin anew at nothing."""
    so_far = Returned(COUNT_MAX - 1, COUNT_MAX - 1)
    assert so_far.again(0, failed=True) == Returned(COUNT_MAX, COUNT_MAX)
    assert so_far.again(0, failed=True).again(7, failed=True) == Returned(COUNT_MAX, COUNT_MAX, 7)


def test_what_does_not_live_changes_nothing(state) -> None:
    """Settled before, never there, of a queue that is gone."""
    before = digest_of(state)
    state.apply(2_000, [ReturnedRecord(1, ReturnCause.LOST, [5_000, 1 << 40])], 2)
    state.apply(2_001, [ReturnedRecord(9, ReturnCause.LOST, [1])], 2)
    assert digest_of(state) == before


def test_a_chunk_without_them_has_nothing_again(state) -> None:
    """What is settled is forgotten: two states are equal that differ in what was only."""
    twin = BrokerState(BrokerSettings())
    records = [MessageRecord(1, sequence, b"", b"x", 1) for sequence in range(1, 1_001)]
    twin.apply(1, [QueueRecord(1, "q"), *records], 1)
    state.apply(2_000, [ReturnedRecord(1, ReturnCause.REJECTED, [5, 600], DUE)], 2)
    for each in (state, twin):
        each.apply(2_001, [AcknowledgeRecord(1, [5, 600])], 2)
    assert digest_of(state) == digest_of(twin)
    assert [chunk.returns for chunk in state.queues[1].index.chunks.values()] == [None, None]


def test_a_purge_leaves_the_counts_of_what_stays(state) -> None:
    """Also in the chunk through which its border goes."""
    border = CHUNK_SIZE + 50
    stays = [border + 1, border + 9]
    state.apply(2_000, [ReturnedRecord(1, ReturnCause.LOST, [3, border, *stays], DUE)], 2)
    state.apply(2_001, [PurgeRecord(1, border)], 2)
    assert [returned(state, each) for each in (3, border)] == [NEVER, NEVER]
    assert [returned(state, each) for each in stays] == [Returned(1, 0, DUE)] * 2


def test_a_copy_says_what_came_of_its_message() -> None:
    """
    Who has but the copies agrees with who saw it all, also where the copy is the newest message.
    """
    whole = BrokerState(BrokerSettings())
    whole.apply(1, [QueueRecord(1, "q"), MessageRecord(1, 1, b"", b"x", 1)], 1)
    whole.apply(3, [ReturnedRecord(1, ReturnCause.REJECTED, [1], DUE)], 1)
    copy = MessageRecord(1, 1, b"", b"x", 1)
    copy.rewritten, copy.redelivery_count = True, 1
    copy.facts = MessageFacts(attributes=Attributes(failures=1), due_ms=DUE)
    copies = [QueueRecord(1, "q", 2), copy]
    whole.apply(4, copies, 2)
    late = BrokerState(BrokerSettings())
    late.next_queue_number, late.counters_home = whole.next_queue_number, whole.counters_home
    late.apply(4, copies, 2)
    assert returned(late, 1) == Returned(1, 1, DUE)
    late.counters_home = whole.counters_home
    assert digest_of(late) == digest_of(whole)
    late.apply(6, [ReturnedRecord(1, ReturnCause.LOST, [1])], 3)
    assert returned(late, 1) == Returned(2, 1, 0)


def test_a_run_of_copies_is_taken_one_by_one_where_one_came_back() -> None:
    """Neighbours are applied together; the one with counts must not lose them there."""
    records = [MessageRecord(1, sequence, b"", b"x", 1) for sequence in (1, 2, 3)]
    for record in records:
        record.rewritten = True
    records[1].redelivery_count = 3
    records[1].facts = MessageFacts(attributes=Attributes(failures=2), places=(Place(2, 7),))
    state = BrokerState(BrokerSettings())
    state.apply(1, records, 1)
    assert [returned(state, each) for each in (1, 2, 3)] == [NEVER, Returned(3, 2), NEVER]
    assert state.queues[2].index.returned(7) == Returned(3, 2)


def test_a_snapshot_keeps_what_was_before_a_return(state) -> None:
    """A checkpoint is of one moment, whatever comes back while it is written."""
    state.apply(2_000, [ReturnedRecord(1, ReturnCause.LOST, [5], DUE)], 2)
    expected = digest_of(state)
    snapshot = state.snapshot = Snapshot(state, canonical=True)
    state.apply(2_001, [ReturnedRecord(1, ReturnCause.LOST, [5, 900])], 2)
    while not snapshot.step(1):
        pass
    state.snapshot = None
    assert digest_of(state) != expected
    assert hashlib.blake2b(b"".join(snapshot.parts), digest_size=16).digest() == expected


def test_slots_grow_as_far_as_something_has_come_back() -> None:
    """A queue of one message that came back does not take what a full chunk takes."""
    returns = Returns()
    returns.put(3, Returned(1))
    assert (len(returns.attempts), returns.dues, returns.count) == (4, None, 1)
    returns.put(1, Returned(2, 1, DUE))
    assert [returns.of(slot) for slot in (0, 1, 3, 400)] == [
        NEVER,
        Returned(2, 1, DUE),
        Returned(1),
        NEVER,
    ]
    returns.put(1, NEVER)
    returns.put(3, NEVER)
    assert returns.count == 0
