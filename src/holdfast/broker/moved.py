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

from holdfast.model.facts import MessageFacts, Origin
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
    before = content.facts or MessageFacts()
    attributes = before.attributes
    if attributes is not None:
        expires_ms = 0 if move.clears_expiry else attributes.expires_ms
        attributes = attributes._replace(failures=0, expires_ms=expires_ms)
    was = f"ID:{cluster}-{move.queue_number}-{move.source_of(sequence)}"
    origin = Origin(move.cause, move.queue_name, was)
    moved.facts = replace(
        before, attributes=attributes, origin=origin, places=(), skips=b"", due_ms=None
    )
    return moved
