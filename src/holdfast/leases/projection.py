"""
What a medium may show of the broker's state beside the log, to people who look into the medium.

A projection is derived from the log and read by nobody here: it may be late, it may be thrown away,
and whatever is changed in it by hand does nothing. The holder writes it in the pauses of the log,
under the same fence, so that what a deposed one still had to tell is never seen.

Source: Young, "CQRS documents" (2010), for the word.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from holdfast.leases.contract import Outcome

ROWS_MAX = 200
"""Of queues in one call, so that an append waits for no long one."""
KEYS_MAX = 2048
"""Of messages that are asked for in one call."""

MessagesShown = Literal["off", "headers", "full"]
"""Whether messages are shown, and whether with their bodies."""


class MessageKey(NamedTuple):
    """Which message of which queue a row is of."""

    queue_number: int
    sequence: int


class Span(NamedTuple):
    """Neighbouring sequences of one queue."""

    queue_number: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """What is told of one queue."""

    number: int
    name: str
    depth: int
    """Messages on it, those in delivery too."""

    bytes: int
    enqueued: int
    """Put on it since the process that tells this began to read the log."""

    dequeued: int
    """Acknowledged, in the same time."""

    oldest_at: int
    """When the first of them was sent, in milliseconds since 1970; 0 if there is none."""

    as_of_index: int
    """The entry of the log after which this was so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """What is told of one message that waits on a queue, or on a topic for its subscriptions."""

    queue_number: int
    sequence: int
    idx: int
    """The entry of the log that has it, as of then: the cleaner may write it again further on."""

    container: str
    """As ActiveMQ writes it: queue://NAME or topic://NAME."""

    message_id: str
    stored_at: int
    """When it was sent, in milliseconds since 1970."""

    expires_at: int
    """In the same way; 0: never."""

    priority: int
    size: int
    """Bytes of headers and body together."""

    headers: str | None = field(repr=False)
    """As an object of JSON; None: there are too many."""

    body: bytes | None = field(repr=False)
    """None where bodies are not shown, or where it is too long for that."""

    as_of_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRow:
    """What is told of one durable subscription."""

    number: int
    container: str
    """Its topic, as of messages; of one of a wildcard each topic has a row."""

    client_id: str
    name: str
    selector: str
    depth: int
    """Messages that it needs."""

    last_acked: int
    """It needs nothing up to this sequence of its topic."""

    as_of_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is written in one call, all or nothing."""

    queues: tuple[QueueRow, ...] = ()
    gone: tuple[int, ...] = ()
    """Numbers of queues that are not there any more."""

    stale_before: int = 0
    """Rows that are of before this entry are somebody else's, and of queues that are gone."""

    messages: tuple[MessageRow, ...] = ()
    settled: tuple[Span, ...] = ()
    """Of messages whose rows go."""

    subscriptions: tuple[SubscriptionRow, ...] = ()
    ended: tuple[int, ...] = ()
    """Numbers of subscriptions that are not there any more."""

    subscriptions_stale_before: int = 0
    """As of queues."""

    keys_after: MessageKey | None = None
    """Asked for are the rows of messages behind this one that are there, `KEYS_MAX` at most."""

    @property
    def is_of_messages(self) -> bool:
        """Whether they need the tables of messages and subscriptions."""
        is_asked = self.keys_after is not None
        has_rows = bool(self.messages or self.settled or self.subscriptions or self.ended)
        return is_asked or has_rows or self.subscriptions_stale_before != 0


@runtime_checkable
class Projection(Protocol):
    """The optional face of a medium that shows something."""

    def project(self, changes: Changes, seconds_max: float) -> Outcome:
        """
        Write these; what stands there already is written over, so that the same again harms nobody.

        Those that wait may take it for a sign of life; it is none to go by, as it need not last
        where the medium comes back after a crash.

        Raises:
            UnreachableError: It is not known whether it was written.
            StoreError: It cannot be written: the sentence says why.
        """
        ...

    def shown_keys(self, after: MessageKey, seconds_max: float) -> list[MessageKey]:
        """
        Give the rows of messages that are there behind this one, in order, `KEYS_MAX` at most.

        Raises:
            UnreachableError: It was not reached.
            StoreError: It cannot be read: the sentence says why.
        """
        ...
