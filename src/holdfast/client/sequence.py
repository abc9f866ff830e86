"""
The numbers a producer gives its messages, by which the broker stores each of them once.

The broker takes number n+1 of a producer id after n, confirms n again if it has it, and refuses a
gap. So a number that was refused is used again, and a producer whose numbers can no longer be
right, because the outcome of one is unknown, begins anew under another id. Pure.

Invariants:
    Numbers under one id are handed out without a gap.
    A number of unknown outcome is never given to another message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from holdfast.client.wire import producer_line
from holdfast.errors import DestinationError, ProducerForgottenError, SequenceGapError
from holdfast.model.destination import Destination, Kind, has_wildcards, parse_destinations
from holdfast.model.virtual_topics import is_virtual


class Sent(NamedTuple):
    """
    Which message was sent, by what its producer called it.

    The broker stores no other under these two. Archive and events have columns of
    these names, so it is found wherever it went; consumers see another id, which its queue gives.
    """

    producer_id: str | None
    """None: it has no number, as it is for a topic, not persistent, or the broker no Holdfast."""

    producer_sequence: int
    """From 1; 0: none."""


UNNUMBERED: Final = Sent(None, 0)
"""What is said of a message without a number."""


def is_lasting(destination: str) -> bool:
    """Whether what comes from a destination is settled for good: a queue keeps it until then."""
    return _is_any(destination, lambda each: each.kind is Kind.QUEUE)


def is_one(destination: str) -> bool:
    """Whether a subscription to it gets messages of one destination only."""
    return "," not in destination and not has_wildcards(destination.partition("?")[0].strip())


def is_counted(destination: str) -> bool:
    """
    Whether persistent messages for a destination, or for one of several, are numbered.

    The broker counts what it stores, or would store if somebody consumed a virtual topic. A number
    on anything else would be a gap before the next.
    """
    return _is_any(
        destination,
        lambda each: each.kind is Kind.QUEUE or (each.kind is Kind.TOPIC and is_virtual(each.name)),
    )


def _is_any(destination: str, is_it: Callable[[Destination], bool]) -> bool:
    try:
        return any(map(is_it, parse_destinations(destination)))
    except DestinationError:
        # The broker will say what is wrong with it; nothing is stored, so nothing is counted.
        return False


class ProducerSequence:
    """One producer id and its last number. `new_id` makes ids nobody else has."""

    __slots__ = ("_new_id", "id", "last", "line")

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self.renew()

    def renew(self) -> None:
        """Begin anew under another id: nothing may be under way under the old one."""
        self.id = self._new_id()
        self.line = producer_line(self.id)
        self.last = 0

    def next(self) -> int:
        """The number of the next message."""
        self.last += 1
        return self.last

    def is_forgotten(self, number: int, error: Exception) -> bool:
        """
        Whether a refusal only means that a broker forgot this producer, which was long idle.

        Then nothing of it is in doubt, if the refused message has gone over one link only: it may
        be sent again, once, under another id.
        """
        return number > 1 and getattr(error, "code", "") == ProducerForgottenError.code

    def refused(self, number: int, code: str) -> None:
        """
        The broker refused `number` and everything after it: go on from there.

        A gap with nothing refused before it means that the broker's memory of this producer is not
        ours: it came back from an older log.
        """
        if code in {SequenceGapError.code, ProducerForgottenError.code}:
            self.renew()
        else:
            self.last = number - 1
