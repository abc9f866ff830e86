"""
What the policies say of one destination: worked out once by `policies`, kept with the destination.

Invariants:
    It holds as long as the policies were changed so many times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from holdfast.broker.serving.consumer import NO_CLAIM, Claim
from holdfast.model.groups import BUCKETS
from holdfast.model.policies import TRUE, Value
from holdfast.model.redelivery import Redelivery


class Sharing(NamedTuple):
    """How the consumers of a queue share its messages, as far as policies say it."""

    uses_priority: bool = True
    """Whether the priority counts of who subscribes now."""
    is_exclusive: bool = False
    """Whether who subscribes now is taken to want to be the only one."""
    consumers_awaited: int = 0
    """Nothing is dispatched before so many are there; 0: their number does not matter."""
    start_ms: int = 0
    """But so long after the first of them came it is in any case; 0: as long as is usual."""
    bucket_count: int = BUCKETS
    """Message groups are in so many buckets, each of which has one owner."""
    rebalances_groups: bool = True
    """Whether who has come gets some of what others own."""
    redelivery_keeps_order: bool = True
    """Whether what is behind a message of its group waits while that rests."""

    def counted(self, claim: Claim) -> Claim:
        """Give what counts of a claim."""
        if claim == NO_CLAIM and not self.is_exclusive:
            return NO_CLAIM
        priority = claim.priority if self.uses_priority else 0
        return Claim(priority, claim.is_exclusive or self.is_exclusive)

    @property
    def has_gate(self) -> bool:
        """Whether the first consumer waits."""
        return self.consumers_awaited > 1 or (not self.consumers_awaited and self.start_ms > 0)


EQUAL: Final = Sharing()
"""As long as nobody says otherwise."""


class Lifetimes(NamedTuple):
    """How long the messages of a queue may stand there, as far as policies say it."""

    default_ms: int = 0
    """How long, if nobody says it; 0: for ever."""
    ceiling_ms: int = 0
    """And never longer than this; 0: without a limit."""
    only_lengthens: bool = False
    """Nothing is worked out by which a message would expire sooner than its sender said."""
    buries: bool = True
    """What expires is a dead letter, else it is nowhere any more."""
    dead_ms: int = 0
    """How long dead letters of the queue may stand where they are; 0: for ever."""
    are_swept: bool = True
    """What expires is taken off the queue then, else when it would be delivered."""

    @property
    def say_anything(self) -> bool:
        """Whether a message's lifetime may be another than its sender said."""
        return bool(self.default_ms or self.ceiling_ms or self.only_lengthens)

    def expires_ms(self, said_ms: int, sent_ms: int, now_ms: int) -> int:
        """
        Give when a message expires, 0 for never.

        Args:
            said_ms: When its sender says it does; 0: it says nothing.
            sent_ms: When its sender says it sent it; 0: it says nothing.
            now_ms: When it came.
        """
        expires_ms = said_ms
        if not said_ms:
            expires_ms = now_ms + self.default_ms if self.default_ms else 0
        elif self.only_lengthens and 0 < sent_ms < said_ms:
            expires_ms = max(said_ms, now_ms + said_ms - sent_ms)
        if self.ceiling_ms and expires_ms > now_ms + self.ceiling_ms:
            cut_ms = now_ms + self.ceiling_ms
            expires_ms = max(cut_ms, said_ms) if self.only_lengthens else cut_ms
        return expires_ms


FOR_EVER: Final = Lifetimes()
"""As long as nobody says otherwise."""


class Effective(NamedTuple):
    """What holds for one destination, until the policies change."""

    change_count: int
    """How often the policies had been changed that it was made of."""
    prefetch: int
    """Most deliveries unacknowledged at once, of a subscription that says nothing."""
    dead_letter_queue: str
    """Where rejected messages go; empty: nowhere."""
    redelivery: Redelivery | None = None
    """How often, and when, rejected ones come again; None: nothing is said of it."""
    browser_prefetch: int = 0
    """The same of who only looks through a queue."""
    sharing: Sharing = EQUAL
    """How a queue's consumers share its messages."""
    keeps_volatile: bool = False
    """Whether non-persistent ones that are rejected go there, too."""
    delivery_ms_max: int = 0
    """How long who subscribes now may have a message; 0: for as long as he likes."""
    lifetimes: Lifetimes = FOR_EVER
    """How long a queue's messages may stand there."""


def lifetimes_of(values: Mapping[str, Value]) -> Lifetimes:
    """Give what a queue's policies say of how long its messages may stand there."""
    lifetimes = Lifetimes(
        default_ms=int(values["zeroExpirationOverride"]),
        ceiling_ms=int(values["ttlCeiling"]),
        only_lengthens=values["futureOnly"] == TRUE,
        buries=values["processExpired"] == TRUE,
        dead_ms=int(values["expiration"]),
        are_swept=int(values["expireMessagesPeriod"]) > 0,
    )
    return FOR_EVER if lifetimes == FOR_EVER else lifetimes  # One for all, as above.


def sharing_of(values: Mapping[str, Value]) -> Sharing:
    """Give what a queue's policies say of how its consumers share its messages."""
    sharing = Sharing(
        uses_priority=values["useConsumerPriority"] == TRUE,
        is_exclusive=values["allConsumersExclusiveByDefault"] == TRUE,
        consumers_awaited=int(values["consumersBeforeDispatchStarts"]),
        start_ms=int(values["timeBeforeDispatchStarts"]),
        bucket_count=int(values["messageGroupBuckets"]),
        rebalances_groups=values["groupRebalance"] == TRUE,
        redelivery_keeps_order=values["redeliveryKeepsOrder"] == TRUE,
    )
    return EQUAL if sharing == EQUAL else sharing  # One for all: there may be many queues.
