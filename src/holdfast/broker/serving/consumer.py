"""
Who takes messages from a queue or topic, as these see it: prefetch, and what is not acknowledged.

A delivery is known by its *key*: a positive key is the sequence of a persistent message, a negative
one the serial number of a non-persistent message. Keys stand in `unacknowledged` in the order of
delivery, which is what a cumulative acknowledgement counts by.

It knows no queue or topic; `subscription.Subscription` does, which every consumer is.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

from holdfast.broker.serving.groups_seen import GroupsSeen
from holdfast.broker.serving.message import TransientMessage
from holdfast.model.policy_option import Value
from holdfast.model.records import MessageRecord

_COST_BYTES: Final = 900
"""What a subscription takes beside its names: measured, 100,000 on one queue that all claim to be
the only one of; one that claims nothing takes 120 less."""

_COPIES: Final = 3
"""How often its names are kept: as they came, as they are looked up, as they are written."""


def subscription_cost(subscription_id: str, destination: str) -> int:
    """What a subscription takes of the memory for subscriptions."""
    return _COST_BYTES + _COPIES * (len(subscription_id.encode()) + len(destination.encode()))


class AcknowledgeMode(Enum):
    """How a consumer acknowledges: not at all, cumulatively, or one by one."""

    AUTO = "auto"
    CLIENT = "client"
    INDIVIDUAL = "client-individual"


class Claim(NamedTuple):
    """What a consumer of a queue claims before others."""

    priority: int = 0
    """It gets messages before those of a lower one, as long as it has room."""
    is_exclusive: bool = False
    """It wants to be the only one that gets any."""


NO_CLAIM: Final = Claim()
"""What most claim: nothing."""


class TopicWishes(NamedTuple):
    """What a consumer of a topic wishes there."""

    pending_max: int | None = None
    """So many messages may wait for it, of more the oldest are dropped; -1: any number; None: as
    the policies say."""
    has_no_local: bool = False
    """It does not want what comes over its own connection."""
    is_retroactive: bool = False
    """It wants what the topic keeps of what was sent before."""


NO_WISHES: Final = TopicWishes()
"""What most wish: nothing."""


class Receiver(Protocol):
    """A connection as the broker sees it: somewhere to deliver to, with so much room."""

    id: str
    """What operators know it by."""

    room_bytes: int
    """What may still be handed to the connection before its socket has taken more."""

    @property
    def taken_bytes(self) -> int:
        """How much its socket has taken so far; less, if what it has not taken grows."""

    def deliver(
        self,
        subscription: Consumer,
        key: int,
        message: MessageRecord | TransientMessage,
        *,
        redelivered: int,
    ) -> None:
        """Write one delivery to the client; the loop asks for it, the broker does not."""

    def recount_room(self) -> None:
        """Note that something was given room and will not be delivered."""

    def overdue(self, subscription: Consumer, keys: list[int]) -> None:
        """Take from its client what it had for too long, as if it had rejected it."""

    def too_slow(self, subscription: Consumer, why: str, *, ends_connection: bool) -> None:
        """End a consumer, or all of its connection, as if that had been lost; say why."""


class DeliveryForm(Protocol):
    """How a subscription's deliveries are written, in its protocol."""

    groups: GroupsSeen | None
    """Of which message groups its consumer got something; told before a message of any."""

    def write(
        self,
        out: list[bytes],
        key: int,
        message: MessageRecord | TransientMessage,
        *,
        redelivered: int,
    ) -> None:
        """Append one delivery to what is to be sent."""

    def write_shared(self, out: list[bytes], serial: int, message: TransientMessage) -> None:
        """Append a topic message, of which all who want the same bytes may share them."""


Values: TypeAlias = Mapping[str, object]
"""What a message says, by name; None of a name of which it says nothing. It raises no KeyError."""


class MessageSelector(Protocol):
    """Which messages a consumer wants, where it does not want every one."""

    @property
    def condition(self) -> str:
        """What it asks for, the same for all that ask for the same in other letters."""

    @property
    def literal(self) -> tuple[str, str] | None:
        """A name, and the only word that may stand under it where it selects; None: any may."""

    @property
    def effort(self) -> int:
        """What asking it takes at most, counted in deliveries."""

    @property
    def cost_bytes(self) -> int:
        """What it takes of the memory for subscriptions."""

    def selects(self, message: TransientMessage) -> bool:
        """Whether its consumer wants a message. It never fails, whatever the message says."""

    def values_of(
        self, key: int, message: MessageRecord | TransientMessage, redelivered: int
    ) -> Values:
        """Give what a queue's message says to all selectors of the queue."""

    def is_true_of(self, values: Values) -> bool:
        """Whether its consumer wants a message that says so. It never fails."""


class Narrowed:
    """Why somebody has one message at a time only, and what room it has besides, then."""

    __slots__ = ("reasons", "room")

    def __init__(self) -> None:
        self.reasons: dict[object, None] = {}
        self.room = 0


class Consumer:
    """One consumer on one queue or topic."""

    __slots__ = (
        "claim",
        "client",
        "cost_bytes",
        "delivery_ms_max",
        "destination",
        "id",
        "drops_oldest",
        "form",
        "groups",
        "has_no_local",
        "is_closed",
        "is_on_topic",
        "is_ready",
        "is_retroactive",
        "mode",
        "narrowed",
        "ordinal",
        "overdue",
        "pending",
        "pending_bytes",
        "pending_max",
        "prefetch",
        "receiver",
        "redelivery",
        "reserved_count",
        "selector",
        "unacknowledged",
        "user",
    )

    def __init__(
        self,
        receiver: Receiver,
        subscription_id: str,
        *,
        mode: AcknowledgeMode,
        prefetch: int,
        destination: str = "",
        client: str = "",
        selector: MessageSelector | None = None,
    ) -> None:
        self.receiver = receiver
        self.id = subscription_id
        self.mode = mode
        self.prefetch = prefetch
        self.destination = destination
        """As the consumer wrote it: what its messages say they are addressed to."""
        self.client = client
        """By what its client can be known again on another connection; empty: by nothing."""
        self.cost_bytes = subscription_cost(subscription_id, destination)
        """What it takes of the memory for subscriptions."""
        self.selector = selector
        """Which messages it wants; None: all."""
        if selector is not None:
            self.cost_bytes += selector.cost_bytes
        self.user: str | None = None  # Of whose share of all subscriptions it is, if of anybody's.
        self.unacknowledged: dict[int, None] = {}
        self.is_ready = False
        """Whether it stands in its queue's ring of consumers with room."""
        self.is_closed = self.is_on_topic = False  # The second: it hangs on no queue.
        self.pending: deque[TransientMessage] | None = None
        """Topic messages that wait for room; None if none ever did: an empty one is more than all
        the rest, and most subscriptions never need it."""
        self.pending_bytes = 0
        self.pending_max: int | None = None
        """So many of them may wait, see `TopicWishes`."""
        self.drops_oldest = False  # Whether nobody who sends to its topic waits for it.
        self.has_no_local = False
        """Whether it does not want what comes over its own connection."""
        self.is_retroactive = False
        """Whether it wants what was sent before it came."""
        self.redelivery: Mapping[str, Value] | None = None
        """What it says itself of the redelivery of what it rejects, by the policies' keys."""
        self.claim = NO_CLAIM
        """What it claims before others, on a queue."""
        self.delivery_ms_max = 0
        """How long it may have a message of a queue; 0: for as long as it likes."""
        self.overdue: dict[int, bool] | None = None
        """What was taken from it after that, and it has said nothing of since; whether that takes
        up room."""
        self.groups: GroupsSeen | None = None
        """Of which message groups it got something; None before it owns any."""
        self.narrowed: Narrowed | None = None
        """What it has less room than it had for; None: nothing."""
        self.reserved_count = 0
        """So many of what it was given open transactions have acknowledged."""
        self.ordinal = 0
        """The session's number for it."""
        self.form: DeliveryForm | None = None
        """How its session writes a delivery; None before it is subscribed."""

    def wish(self, wishes: TopicWishes) -> None:
        """Let it be as its client wishes, before it is on a topic."""
        self.pending_max, self.has_no_local, self.is_retroactive = wishes

    @property
    def held_count(self) -> int:
        """How much its client has of it in delivery, from whichever queue."""
        return len(self.unacknowledged)

    @property
    def width(self) -> int:
        """How much that may be at most."""
        return self.prefetch

    def narrow(self, reason: object) -> None:
        """Let it have one message at a time from now on; what is out stays so."""
        narrowed = self.narrowed
        if narrowed is None:
            narrowed = self.narrowed = Narrowed()
        narrowed.reasons[reason] = None
        if self.prefetch > 1:
            narrowed.room += self.prefetch - 1
            self.prefetch = 1

    def widen(self, reason: object) -> None:
        """Give it the room that it had, if nothing else is a reason against that."""
        narrowed = self.narrowed
        if narrowed is None:
            return
        narrowed.reasons.pop(reason, None)
        if not narrowed.reasons:
            self.narrowed = None
            if not self.is_closed:
                self.prefetch += narrowed.room

    def regain(self) -> None:
        """Give it back the room that something took up; what it may have alone stays alone."""
        if self.is_closed:
            return
        if self.narrowed is not None and self.prefetch > 0:
            self.narrowed.room += 1
        else:
            self.prefetch += 1

    @property
    def effort(self) -> int:
        """What handing it a message takes at most, counted in deliveries."""
        return 1 if self.selector is None else 1 + self.selector.effort

    def lapse(self, key: int) -> None:
        """
        Note that it had a message for too long: it is taken from it.

        Until it says something of it that goes on taking up room, so that whoever has stopped
        working is not given one message after the other.
        """
        if self.overdue is None:
            self.overdue = {}
        # A window to which a transaction gave back may hold more than that.
        self.overdue[key] = has_room = self.prefetch > 0
        self.prefetch -= has_room

    def answered(self, key: int) -> bool:
        """Note that it has said something of a message; whether that was taken from it."""
        if self.overdue is None or key not in self.overdue:
            return False
        if self.overdue.pop(key):
            self.regain()
        return True

    def has_room(self) -> bool:
        """Whether one more message may be delivered now."""
        return len(self.unacknowledged) < self.prefetch and self.receiver.room_bytes > 0
