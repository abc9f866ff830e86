"""
A message that was moved, as whoever reads it sees it: its own bytes, and the way that it came.

The bytes stand in the record that it was sent with, the way in the one that moved it; a slot of its
queue names both. Here they become one record again, as if it had been written so: that is what
consumers get, and what the cleaner writes when the old bytes have to go.

Invariants:
    Nothing of the way of before the last move is left: where it stood, from when on, how often it
    failed there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from holdfast.broker.lasting.sequence_index import SequenceIndex
from holdfast.model.facts import Attributes, MessageFacts, Origin
from holdfast.model.records import MessageRecord, MoveRecord


def as_moved(
    content: MessageRecord, move: MoveRecord, queue_number: int, sequence: int, cluster: str
) -> MessageRecord:
    """Give the message that a move has put on a queue under this sequence."""
    moved = MessageRecord(
        queue_number,
        sequence,
        content.headers,
        content.body,
        content.size,
        content.producer_id,
        content.producer_sequence,
    )
    moved.stored_at = content.stored_at
    was = f"ID:{cluster}-{move.queue_number}-{move.source_of(sequence)}"
    origin = Origin(move.cause, move.queue_name, was)
    expires_ms = move.expires_ms if move.clears_expiry else None
    moved.facts = facts_elsewhere(content.facts, origin, expires_ms=expires_ms)
    return moved


def facts_elsewhere(
    before: MessageFacts | None, origin: Origin, *, expires_ms: int | None
) -> MessageFacts:
    """
    Give the facts of a message that comes to another queue: what it is, not where it stood.

    Args:
        expires_ms: When it expires there; None: as before.
    """
    facts = before or MessageFacts()
    attributes: Attributes | None = (facts.attributes or Attributes())._replace(
        failures=0, repeats=0
    )
    if attributes is not None and expires_ms is not None:
        attributes = attributes._replace(expires_ms=expires_ms)
    if attributes == Attributes():
        attributes = None
    return replace(facts, attributes=attributes, origin=origin, places=(), skips=b"", due_ms=None)


class ReadsRecords(Protocol):
    """What gives records by their numbers; a store does."""

    def read(self, record_number: int) -> MessageRecord:
        """Read a message."""

    def read_move(self, record_number: int) -> MoveRecord:
        """Read what moved messages."""


def read_as_it_stands(
    store: ReadsRecords,
    record_number: int,
    queue_number: int,
    index: SequenceIndex,
    sequence: int,
    cluster: str,
) -> MessageRecord:
    """
    Read a message of a queue by the record that has its bytes, with the way that it came.

    Raises:
        CorruptEntryError: The bytes, or what moved them, are damaged.
        RecordNotFoundError: There is no such record.
    """
    content = store.read(record_number)
    move_number = index.move_number(sequence)
    if not move_number:
        return content
    return as_moved(content, store.read_move(move_number), queue_number, sequence, cluster)
