"""
A queue's lasting half: what the log says of it, the same on every node.

Only `apply` writes it. On the leader it has a serving half too (`serving.queue`), which may vanish
and is told of what is applied; it hangs here so that neither looks the other up.

Invariants:
    Without a listener nothing of what the log says is missing.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from holdfast.broker.lasting.seen_ranges import Ranges, Seen, united
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
        "seen",
    )

    takes_runs: ClassVar[bool] = True
    """Whether many messages may be put at once."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.index = SequenceIndex()
        self.next_sequence = 1
        """The sequence after the last one applied."""
        self.numbered_term = FIRST_TERM
        """The term of the entry that has said so."""
        self.dispatch_mark = 0
        self.seen: Ranges = ()
        """What a consumer may have seen beyond it."""
        self.home = 0
        """The record number of the record that declares this queue; 0: not in the log."""
        self.is_declared = False
        """Whether the declaring record is applied; until then the queue is the leader's plan."""
        self.enqueued_total = self.acknowledged_total = 0
        """What went through it on this node: statistics, and not state. The leader counts here
        what it has in memory only, too."""
        self.listener: Listener | None = None
        """The leader's half, while there is one."""

    def end(self) -> None:
        """
        Tell the leader's half, for the last time, that the queue is gone.

        Each has the other else, and what goes in a circle is found by Python's collector only,
        which looks through all ages of objects while there are few of them.
        """
        listener, self.listener = self.listener, None
        if listener is not None:
            listener.deleted()

    def see(self, first: int, mark: int) -> bool:
        """Note what a consumer may have seen from now on; whether that is more than before."""
        before = self.dispatch_mark, self.seen
        self.dispatch_mark, self.seen = united(*before, first, mark)
        return before != (self.dispatch_mark, self.seen)

    def may_be_sent(self, sequence: int) -> bool:
        """Whether the log says of a message that a consumer may have seen it."""
        return sequence <= self.dispatch_mark or sequence in Seen(self.dispatch_mark, self.seen)


def flagged_through(lasting: LastingQueue, numbering: Numbering) -> int:
    """
    Give the last sequence that a former leader may have sent; there may be gaps (`seen`).

    Numbers up to the floor of `numbering` belong to former generations of the cluster: where such a
    message still lives, it may have been seen.
    """
    last = lasting.seen[-1][1] if lasting.seen else lasting.dispatch_mark
    return min(max(last, numbering.floor), lasting.next_sequence - 1)
