"""
What the policies say of one destination: worked out once by `policies`, kept with the destination.

Invariants:
    It holds as long as the policies were changed so many times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from holdfast.broker.serving.consumer import NO_CLAIM, Claim
from holdfast.model.advisory_options import ADVISED_BY
from holdfast.model.groups import BUCKETS
from holdfast.model.policy_option import FLOW_CONTROL, OFFLINE_TIMEOUT, Value
from holdfast.model.policy_options import DROP_HEAD, REJECT, TRUE
from holdfast.model.recovery_options import (
    FIXED_COUNT,
    FIXED_SIZE,
    LAST_IMAGE,
    RECOVERED_BYTES_MAX,
    RECOVERED_COUNT_MAX,
    RECOVERY_POLICY,
    TIMED,
)
from holdfast.model.redelivery import Redelivery
from holdfast.model.slow_consumer_options import ABORT_SLOW_ACK, NO_STRATEGY


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


class Limits(NamedTuple):
    """How much may be on a queue, as far as policies say it."""

    length: int = 0
    """So many messages; 0: without a limit."""
    bytes: int = 0
    """So many bytes of them; 0: without a limit."""
    overflow: str = REJECT
    """What becomes of more."""
    buries: bool = False
    """Whether what is dropped is a dead letter."""
    memory_bytes: int = 0
    """So much memory non-persistent ones may take; 0: as much as those of all queues."""
    fails_at_once: bool = False
    """Whether nobody waits for room."""
    wait_ms: int = 0
    """Nor for longer than this; 0: as the settings say."""
    is_of_mirror: bool = False
    """The queue shows what comes to another one, and never refuses that anything."""

    @property
    def drops(self) -> bool:
        """Whether there is room for all, as old ones go."""
        is_limited = self.length or self.bytes or (self.is_of_mirror and self.memory_bytes)
        return self.overflow == DROP_HEAD and bool(is_limited)

    def of_mirror(self) -> Limits:
        """Give the same of a queue that consumes a mirror: old ones go, whatever is said."""
        return self._replace(overflow=DROP_HEAD, fails_at_once=False, wait_ms=0, is_of_mirror=True)


class Keeping(NamedTuple):
    """What a topic's durable subscriptions may keep, as far as policies say it."""

    prefetch: int
    """Of one that says nothing."""
    length: int = 0
    """So many messages each; 0: without a limit."""
    bytes: int = 0
    """So many bytes of them; 0: without a limit."""
    offline_ms: int = 0
    """For so long nobody may consume from one, then it ends; 0: for ever."""

    @property
    def limits(self) -> Limits | None:
        """How much may be on one as on a queue; None: nothing is said of it."""
        limits = Limits(length=self.length, bytes=self.bytes, overflow=DROP_HEAD)
        return limits if limits.drops else None


class SlowRule(NamedTuple):
    """When a consumer is slow for too long, as far as policies say it."""

    waits_for_words: bool = False
    """It has messages and acknowledges none of them; else it has no room for what waits."""
    duration_ms: int = 0
    """For how long it may; 0: for ever."""
    count_max: int = 0
    """How often it may be found to have become slow; 0: any number of times."""
    ends_connection: bool = False
    """Whether its connection ends with it."""


class Recovery(NamedTuple):
    """What a topic keeps for who comes later, as far as policies say it."""

    count_max: int = RECOVERED_COUNT_MAX
    bytes_max: int = RECOVERED_BYTES_MAX
    """Headers and bodies."""
    duration_ms: int = 0
    """And nothing that is older; 0: however old it is."""


class Effective(NamedTuple):
    """What holds for one destination, until the policies change."""

    change_count: int
    """How often the policies had been changed that it was made of."""
    prefetch: int
    """Most deliveries unacknowledged at once, of a subscription that says nothing."""
    dead_letter_queue: str
    """Where dead letters go, if it is no composite one; empty: nowhere."""
    redelivery: Redelivery | None = None
    """How often, and when, rejected ones come again; None: nothing is said of it."""
    browser_prefetch: int = 0
    """The same of who only looks through a queue."""
    sharing: Sharing = EQUAL
    """How a queue's consumers share its messages."""
    keeps_volatile: bool = False
    """Whether non-persistent ones that are rejected go there, too."""
    is_prioritized: bool = False
    """Whether messages of a higher priority go first."""
    suspect_after: int = 0
    """After being lost with others so often a message is sent alone; 0: never."""
    delivery_ms_max: int = 0
    """How long who subscribes now may have a message; 0: for as long as he likes."""
    lifetimes: Lifetimes = FOR_EVER
    """How long a queue's messages may stand there."""
    limits: Limits | None = None
    """How much may be on a queue; None: nothing is said of it."""
    pending_max: int = -1
    """So many messages may wait for one subscription of a topic; -1: without a limit."""
    pending_rate: float = 0.0
    """The same as a multiple of its prefetch, where that says nothing; 0: without a limit."""
    has_flow_control: bool = True
    """Whether who sends to a topic waits for its slow subscribers; else those lose the oldest."""
    slow_rule: SlowRule | None = None
    """When one of its consumers is slow for too long; None: never."""
    recovery: Recovery | None = None
    """What a topic keeps for who comes later; None: nothing."""
    is_always_retroactive: bool = False
    """Whether everybody is given that who comes."""
    advisories: frozenset[str] = frozenset()
    """Which kinds are said of it beside those that are said of all."""
    dead_letter_places: tuple[str, ...] = ()
    """The names of the queues where they stand then, each has all of them; none: nowhere."""
    is_paused: bool = False
    """Whether nobody is given any of a queue's messages."""
    keeps_dead_letters: bool = False
    """It is one of these, or that queue: what is dead stays there, or is nowhere any more."""

    def pending_max_for(self, prefetch: int) -> int:
        """Give how many messages may wait for a subscription of this prefetch; -1: any number."""
        if self.pending_max >= 0 or not self.pending_rate:
            return self.pending_max
        return int(self.pending_rate * prefetch)


def advisories_of(values: Mapping[str, Value]) -> frozenset[str]:
    """Give which kinds of advisories policies let be said of a destination."""
    return frozenset(kind for key, kind in ADVISED_BY.items() if values[key] == TRUE)


def recovery_of(values: Mapping[str, Value]) -> Recovery | None:
    """Give what a topic's policies let it keep for who comes later; None: nothing."""
    kind = values[RECOVERY_POLICY]
    if kind == LAST_IMAGE:
        return Recovery(count_max=1)
    if kind == FIXED_COUNT:
        return Recovery(count_max=int(values["recoveryMaximumCount"]))
    if kind == FIXED_SIZE:
        return Recovery(bytes_max=int(values["recoveryMaximumSize"]))
    return Recovery(duration_ms=int(values["recoverDuration"])) if kind == TIMED else None


def slow_rule_of(values: Mapping[str, Value]) -> SlowRule | None:
    """Give what policies say of consumers that are slow; None: they may be."""
    strategy = values["slowConsumerStrategy"]
    if strategy == NO_STRATEGY:
        return None
    ends_connection = values["abortConnection"] == TRUE
    if strategy == ABORT_SLOW_ACK:
        duration_ms = int(values["maxTimeSinceLastAck"])
        return SlowRule(True, duration_ms, ends_connection=ends_connection)
    return SlowRule(
        duration_ms=max(0, int(values["maxSlowDuration"])),
        count_max=max(0, int(values["maxSlowCount"])),
        ends_connection=ends_connection,
    )


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


def keeping_of(values: Mapping[str, Value]) -> Keeping:
    """Give what a topic's policies say of its durable subscriptions."""
    return Keeping(
        prefetch=int(values["durableTopicPrefetch"]),
        length=int(values["maxLength"]),
        bytes=int(values["maxLengthBytes"]),
        offline_ms=max(0, int(values[OFFLINE_TIMEOUT])),
    )


def limits_of(values: Mapping[str, Value]) -> Limits | None:
    """Give what a queue's policies say of how much may be on it; None: nothing."""
    limits = Limits(
        length=int(values["maxLength"]),
        bytes=int(values["maxLengthBytes"]),
        overflow=str(values["overflow"]),
        buries=values["deadLetterOverflow"] == TRUE,
        memory_bytes=int(values["memoryLimit"]) if values[FLOW_CONTROL] == TRUE else 0,
        fails_at_once=values["sendFailIfNoSpace"] == TRUE,
        wait_ms=int(values["sendFailIfNoSpaceAfterTimeout"]),
    )
    says_anything = limits.length or limits.bytes or limits.memory_bytes
    return limits if says_anything or limits.fails_at_once or limits.wait_ms else None
