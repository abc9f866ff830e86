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
