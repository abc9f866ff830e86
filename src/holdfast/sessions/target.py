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

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.sending import Sending
from holdfast.broker.serving.durable import StoredTopic
from holdfast.broker.serving.patterns import Patterns
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.model.destination import Destination
from holdfast.model.facts import MessageFacts


class Action(Enum):
    """What somebody wants of a destination."""

    SEND = "send"
    CONSUME = "consume"
    ASK = "ask"
    """Send a question there, which is kept nowhere."""

    MANAGE = "manage"
    """Look at what is everybody's, and take it back."""


class Basis(Protocol):
    """What a target rests on: as long as it is there, the same headers come to the same."""

    @property
    def is_outdated(self) -> bool:
        """Whether that is to be worked out anew."""


class StoredBasis:
    """A topic, and what its messages are stored for: both are sent to."""

    __slots__ = ("_patterns", "_stored", "_topic")

    def __init__(self, topic: Topic, stored: StoredTopic, patterns: Patterns) -> None:
        self._topic = topic
        self._stored = stored
        self._patterns = patterns

    @property
    def is_outdated(self) -> bool:
        """Whether one of them is gone, or it is stored for nobody any more, or for others, too."""
        topic, stored, patterns = self._topic, self._stored, self._patterns
        if topic.is_deleted or stored.is_deleted or not stored.subscription_count:
            return True
        return bool(patterns) and stored.parts_given != patterns.change_count


class MomentaryBasis:
    """What counts a lifetime from now rests on the time, too: of one turn, mostly."""

    __slots__ = ("_basis", "_sending", "_stamp", "_state", "_wall")

    def __init__(self, basis: Basis, sending: Sending, state: BrokerState) -> None:
        """Hold for as long as both clocks say what they say now: ours, and the log's."""
        self._basis = basis
        self._sending = sending
        self._state = state
        self._wall = sending.now_microseconds
        self._stamp = state.timestamp

    @property
    def is_outdated(self) -> bool:
        """Whether time has passed, or what this rests on beside is outdated."""
        is_past = self._sending.now_microseconds != self._wall
        return is_past or self._state.timestamp != self._stamp or self._basis.is_outdated


class Target:
    """What the constant headers of a send come to: worked out once, used for every one."""

    __slots__ = (
        *("basis", "destination", "destinations", "facts", "is_limited", "is_placed", "is_plain"),
        *(
            "is_wanted",
            "lines",
            "mirrors",
            "persistent",
            "producer_id",
            "queue",
            "transaction",
            "wild_count",
        ),
        "written",
    )

    def __init__(self, destination: Queue | Topic, lines: bytes, *, persistent: bool) -> None:
        self.destination = destination
        self.queue = destination if isinstance(destination, Queue) else None
        """The destination again, if it is a queue."""
        self.destinations: tuple[Queue | Topic, ...] | None = None
        """All that it goes to; None where that is one."""
        self.basis: Basis = destination
        """What all of this rests on."""
        self.is_limited = False
        """Whether policies say how much may be on one of them."""
        self.is_placed = False
        """Whether it passes policies by, as an operator's copy does."""
        self.is_plain = False
        """Whether it is kept by one queue, in no transaction: nothing of that is asked then."""
        self.lines = lines
        """The headers as they are stored."""
        self.mirrors: tuple[str, ...] = ()
        """The topics of mirrors among them that were written, where it is to be kept."""
        self.facts: MessageFacts | None = None
        """What the broker has to know of each such message; None if that is nothing."""
        self.persistent = self.is_wanted = persistent
        """Whether it is kept; and whether it is to be, which comes later for a topic that is stored
        by the time of its COMMIT."""
        self.producer_id: str | None = None
        self.transaction: str | None = None
        self.written: tuple[Destination, ...] = ()
        """As its client wrote them, which is what grants are about."""
        self.wild_count = 0
        """How often a durable subscription of a wildcard had been made then: a new one may mean a
        topic that is not stored so far."""


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
