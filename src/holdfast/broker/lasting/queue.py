"""
A queue's lasting half: what the log says of it, the same on every node.

Only `apply` writes it. On the leader it has a serving half too (`serving.queue`), which may vanish
and is told of what is applied; it hangs here so that neither looks the other up.

Invariants:
    Without a listener nothing of what the log says is missing.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.broker.lasting.sequence_index import SequenceIndex
from holdfast.model.numbering import FIRST_TERM, Numbering
from holdfast.model.records import MessageRecord


class Listener(Protocol):
    """The leader's half of a queue, as it is told of what was applied to the lasting one."""

    def added(self, first: int, records: list[MessageRecord]) -> None:
        """Take note of messages that live from now on, under neighbouring numbers from `first`."""

    def arrived(self) -> None:
        """Take note that messages were moved here, whose bytes stand further back in the log."""

    def mortal(self, expiring: list[tuple[int, int]]) -> None:
        """Take note of messages that live from now on and expire, each with its time."""

    def gone(self, sequences: list[int]) -> None:
        """Take note of messages that lived and do not any more."""

    def returned(self, sequences: list[int], due_ms: int) -> None:
        """Take note that these came back, as far as they live; nobody gets them before."""

    def purged(self) -> None:
        """Take note that much was taken off at once; what still lives is in the index."""

    def mark_moved(self) -> None:
        """Take note that more may be dispatched."""

    def deleted(self) -> None:
        """Take note that the queue is gone."""


class LastingQueue:
    """One queue of one broker cluster."""

    __slots__ = (
        "acknowledged_total",
        "dispatch_mark",
        "enqueued_total",
        "home",
        "index",
        "is_declared",
        "listener",
        "name",
        "next_sequence",
        "number",
        "numbered_term",
    )

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.index = SequenceIndex()
        self.next_sequence = 1
        """The sequence after the last one applied."""
        self.numbered_term = FIRST_TERM
        """The term of the entry that has said so."""
        self.dispatch_mark = 0
        self.home = 0
        """The record number of the record that declares this queue; 0: not in the log."""
        self.is_declared = False
        """Whether the declaring record is applied; until then the queue is the leader's plan."""
        self.enqueued_total = self.acknowledged_total = 0
        """What went through it on this node: statistics, and not state. The leader counts here
        what it has in memory only, too."""
        self.listener: Listener | None = None
        """The leader's half, while there is one."""


def flagged_through(lasting: LastingQueue, numbering: Numbering) -> int:
    """
    Give the last sequence that a former leader may have sent.

    Numbers up to the floor of `numbering` belong to former generations of the cluster: where such a
    message still lives, it may have been seen.
    """
    return min(max(lasting.dispatch_mark, numbering.floor), lasting.next_sequence - 1)
