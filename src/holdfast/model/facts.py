"""
What a message is, as far as the broker has to know: facts beside headers and body, as values.

The leader takes them once, when the message is sent; whoever applies the record reads them and
never the headers. Each is there only where it is set, and so are its bytes in the log: a message of
which nothing is to be known has none. `store.fact_blocks` turns them into bytes and back.

Today's broker sets `origin`, `due_ms` of what is scheduled, and the attributes. The others have
their place in the log, so that tools and readers of this version understand what a later one
writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

PRIORITY_DEFAULT: Final = 4
"""Of a message that says none."""

PRIORITY_MAX: Final = 9


class Attributes(NamedTuple):
    """What decides in which order, and until when, a message is delivered."""

    expires_ms: int = 0
    """Milliseconds since the epoch; 0: never."""

    group_hash: int = 0
    """Of its group's name (`model.groups`); 0: it is in none."""

    priority: int = PRIORITY_DEFAULT
    """0 to 9; a higher one goes first, where the policy of its queue says so."""

    failures: int = 0
    """Returns that can be blamed on the message."""
    repeats: int = 0
    """How often it is sent again after the next time; of scheduled messages (`model.schedules`)."""


class Place(NamedTuple):
    """A queue on which a message stands, and its sequence there."""

    queue_number: int
    sequence: int


class Encoding(IntEnum):
    """What headers and body are written in; consumers of other protocols get them converted."""

    STOMP = 0
    OPENWIRE = 1
    AMQP = 2
    MQTT = 3


class BodyKind(IntEnum):
    """What the producer said the body is."""

    NONE = 0
    TEXT = 1
    BYTES = 2
    MAP = 3
    STREAM = 4
    OBJECT = 5
    OTHER = 6


class Form(NamedTuple):
    """How a message is written. Without one: STOMP; a text if it has no `content-length`."""

    encoding: Encoding
    kind: BodyKind


class Hops(NamedTuple):
    """The way of a message through a network of clusters."""

    clusters: tuple[int, ...]
    """The first four bytes of the clusters' identities, as numbers, in the order of the way."""

    first: Place
    """Where it stood in the first of them."""


class Cause(IntEnum):
    """Why a message stands on another queue than it was sent to, or on none any more."""

    REJECTED = 1
    """A consumer rejected it, and it was not to come again: it is a dead letter."""

    MOVED = 2
    """An operator moved it."""

    COPIED = 3
    """An operator copied it: it stands where it stood, too."""

    RETRIED = 4
    """An operator sent a dead letter back to where it came from."""

    REMOVED = 5
    """An operator took it off its queue; it is nowhere any more."""

    EXHAUSTED = 6
    """It was rejected once more than it may come again."""

    LOST = 7
    """It was alone with consumers whose connections were lost, too often."""

    EXPIRED = 8
    """Its time was over before anybody got it."""

    FIRED = 9
    """It was scheduled, and the time came."""

    MAXLEN = 10
    """Its queue was full, and newer ones came."""

    FORBIDDEN = 11
    """It was scheduled, and as its time came its sender might not send it there any more."""


DEAD_LETTER_CAUSES = frozenset(
    {
        *(Cause.REJECTED, Cause.EXHAUSTED, Cause.LOST, Cause.EXPIRED, Cause.MAXLEN),
        Cause.FORBIDDEN,
    }
)
"""Those that make a message a dead letter."""


TOPIC_MARK: Final = "topic://"
"""How the name of a topic begins where names of queues stand as well."""


class Origin(NamedTuple):
    """Where a message that was moved comes from."""

    cause: Cause
    queue: str
    """The queue's name; it may be deleted since."""

    message_id: str
    """By which consumers knew it there; empty where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFacts:
    """The facts that are set; at least one is."""

    attributes: Attributes | None = None
    due_ms: int | None = None
    """Not to be delivered before, in milliseconds since the epoch."""

    places: tuple[Place, ...] = ()
    """Where it stands beside the place that its record names first."""

    skips: bytes = b""
    """Of the durable subscriptions of the topic that its record names first, by slot, a bit each:
    those that do not get it."""

    form: Form | None = None
    hops: Hops | None = None
    origin: Origin | None = None

    @property
    def expires_ms(self) -> int:
        """When it expires, in milliseconds since the epoch; 0: never."""
        return 0 if self.attributes is None else self.attributes.expires_ms

    @property
    def repeats(self) -> int:
        """How often it is sent again after the next time, if it is scheduled."""
        return 0 if self.attributes is None else self.attributes.repeats

    @property
    def size(self) -> int:
        """Bytes that they take in the log."""
        size = 0 if self.attributes is None else 16
        size += 0 if self.due_ms is None else 8
        size += 2 + 12 * len(self.places) if self.places else 0
        size += 2 + len(self.skips) if self.skips else 0
        size += self.form is not None
        if self.hops is not None:
            size += 1 + 4 * len(self.hops.clusters) + 12
        if self.origin is not None:
            size += 5 + len(self.origin.queue.encode()) + len(self.origin.message_id.encode())
        return size
