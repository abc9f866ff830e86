"""
What a session sends, and what it comes to: the words between a protocol's frames and its holdings.

A protocol's parser has frames of its own. What they have in common is said here by what they are
asked, so that nothing has to be copied out of them for each message.

Values only.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.model.facts import MessageFacts


class Action(Enum):
    """What somebody wants of a destination."""

    SEND = "send"
    CONSUME = "consume"


class Target:
    """What the constant headers of a send come to: worked out once, used for every one."""

    __slots__ = (
        *("destination", "destinations", "facts", "is_limited", "is_plain", "is_wanted", "lines"),
        *("persistent", "producer_id", "queue", "transaction"),
    )

    def __init__(self, destination: Queue | Topic, lines: bytes, *, persistent: bool) -> None:
        self.destination = destination
        self.queue = destination if isinstance(destination, Queue) else None
        """The destination again, if it is a queue."""
        self.destinations: tuple[Queue | Topic, ...] | None = None
        """All that it goes to; None where that is one."""
        self.is_limited = False
        """Whether policies say how much may be on one of them."""
        self.is_plain = False
        """Whether it is kept by one queue, in no transaction: nothing of that is asked then."""
        self.lines = lines
        """The headers as they are stored."""
        self.facts: MessageFacts | None = None
        """What the broker has to know of each such message; None if that is nothing."""
        self.persistent = self.is_wanted = persistent
        """Whether it is kept; and whether it is to be, which comes later for a topic that is stored
        by the time of its COMMIT."""
        self.producer_id: str | None = None
        self.transaction: str | None = None


class Question(Topic):
    """Where a question is sent to: nothing of it is kept, it is answered as it comes."""

    __slots__ = ("answer",)

    def __init__(self, name: str, answer: Callable[[bytes | None], bool]) -> None:
        super().__init__(name)
        self.answer = answer
        """Answers; whether it tells the receipt itself."""


class Shared(Protocol):
    """What several sends have in common."""

    @property
    def cost_bytes(self) -> int:
        """About what it takes of memory, once for all of them."""


class Outgoing(Protocol):
    """A message that a client sends, as its protocol's parser gives it."""

    body: bytes
    receipt: bytes | None
    """What the client wants back once the message is safe; None: nothing."""
    producer_sequence: bytes | None
    """The producer's number of it, in digits."""

    @property
    def block(self) -> Shared:
        """The headers."""


class Goodbye(NamedTuple):
    """A client's last word, which is obeyed when what it sent before is done."""

    receipt: bytes | None
    cost_bytes: int
    """What it takes where it waits."""
