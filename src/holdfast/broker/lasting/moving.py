"""
A move, as it is applied: messages leave one queue and stand on another, in one record.

Their bytes stay where they are. The slot on the other queue says which record has them, and which
one moved them here; what readers are shown of the way is made of both.

Invariants:
    What does not live on its queue is passed over: whatever ended it stands earlier in the log.
    Every number of the target that the record names is used, whatever lives.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.sequence_index import SequenceIndex
from holdfast.broker.lasting.topics import LastingSubscription, TopicState, settle, subscription_of
from holdfast.model.records import MoveRecord


class Moved(TopicState, Protocol):
    """The state, as far as a move changes it."""

    def note_mortal(self, queue: LastingQueue, expiring: list[tuple[int, int]]) -> None:
        """Take note that messages that live on a queue expire, each with its time."""

    def added(self, queue: LastingQueue, before: tuple[int, int]) -> None:
        """Count what came to a queue since so many messages and bytes lived there."""

    def settle(self, queue: LastingQueue, sequences: list[int]) -> None:
        """Let a queue be done with messages."""


def apply_move(state: Moved, record: MoveRecord, number: int) -> None:
    """Move what lives of these messages."""
    source: LastingQueue | None
    if record.topic_number:
        source = subscription_of(state, record)
    else:
        source = state.queues.get(record.queue_number)
    found = [] if source is None else _living(source, record)
    target = _target(state, record, is_needed=bool(found))
    if target is not None:
        _number(state, target, record)
        before = target.index.live_count, target.index.live_bytes
        for first, sequence, content, size in found:
            assert source is not None, "nothing of it lives"
            target.index.put_moved(sequence, content, size, number)
            target.index.put_group_hash(sequence, source.index.group_hash(first))
            target.index.put_priority(sequence, source.index.priority(first))
        state.added(target, before)
        if target.listener is not None:
            target.listener.arrived()
        if source is not None and (record.expires_ms or source.index.expiring):
            state.note_mortal(target, _expiring(source.index, record, found))
    if source is None or record.is_copy:
        return
    sequences = [each[0] for each in found]
    if isinstance(source, LastingSubscription):
        settle(state, source, sequences)
    else:
        state.settle(source, sequences)


def _living(source: LastingQueue, record: MoveRecord) -> list[tuple[int, int, int, int]]:
    """Give sequence, sequence on the target, record with the bytes and size of each that lives."""
    index = source.index
    found = []
    for first, target_first, count in record.runs:
        for place in range(count):
            content = index.record_number(first + place)
            if content:
                size = index.size(first + place)
                found.append((first + place, target_first + place, content, size))
    return found


def _expiring(
    source: SequenceIndex, record: MoveRecord, found: list[tuple[int, int, int, int]]
) -> list[tuple[int, int]]:
    """Give those that expire on the target, by their sequences there, with their times."""
    if record.clears_expiry:
        return [(each[1], record.expires_ms) for each in found if record.expires_ms]
    both = ((each[1], source.expires_ms(each[0])) for each in found)
    return [(sequence, expires_ms) for sequence, expires_ms in both if expires_ms]


def _target(state: Moved, record: MoveRecord, *, is_needed: bool) -> LastingQueue | None:
    if not record.target_number:
        return None
    target = state.queues.get(record.target_number)
    if target is None and is_needed:
        # Its declaration was written again further on; see `state`.
        target = state.queues[record.target_number] = LastingQueue(record.target_number, "")
    return target


def _number(state: Moved, target: LastingQueue, record: MoveRecord) -> None:
    following = max(run.target_first + run.length for run in record.runs)
    if following > target.next_sequence:
        target.next_sequence = following
        target.numbered_term = state.term
