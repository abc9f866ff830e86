"""
Scheduled messages, as they are applied: they are due where others expire.

They stand on a queue of their own, from which nobody consumes. What fires is copied by moves, which
take their bytes to no other place; of what is to fire again one record says when.

Invariants:
    All of one firing stands in one entry: what went out, and when it is due again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from holdfast.broker.lasting.queue import LastingQueue
from holdfast.model.facts import Attributes, MessageFacts
from holdfast.model.records import FiredRecord, MessageRecord


class Scheduled(Protocol):
    """The state, as far as it has scheduled messages."""

    queues: dict[int, LastingQueue]

    def note_mortal(self, queue: LastingQueue, expiring: list[tuple[int, int]]) -> None:
        """Take note of when something is to be done with messages that live on a queue."""


def ends_at(record: MessageRecord) -> int:
    """Give when something is to be done with a message: it expires, or it is due; 0: never."""
    facts = record.facts
    if facts is None:
        return 0
    return facts.due_ms or 0 if record.is_scheduled else facts.expires_ms


def put_due(copy: MessageRecord, due_ms: int, repeats: int) -> None:
    """Let a copy of what is scheduled say when it is due next, and how often after that."""
    facts = copy.facts or MessageFacts()
    attributes = (facts.attributes or Attributes())._replace(repeats=repeats)
    known = None if attributes == Attributes() else attributes
    copy.facts = replace(facts, attributes=known, due_ms=due_ms)


def apply_fired(state: Scheduled, record: FiredRecord, _number: int) -> None:
    """Let a message that has fired wait for its next time, if it lives."""
    queue = state.queues.get(record.queue_number)
    if queue is None or not queue.index.is_live(record.sequence):
        return
    queue.index.put_repeats(record.sequence, record.repeats)
    state.note_mortal(queue, [(record.sequence, record.due_ms)])
