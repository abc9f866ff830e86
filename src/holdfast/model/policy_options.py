"""
What may be said of destinations by pattern: the table of all keys.

The names are those of ActiveMQ's policy entries. A key is here if something obeys it; the others
are in `unobeyed_keys`. How they are read stands in `policies`.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.advisory_options import ADVISORY_OPTIONS
from holdfast.model.allowed import Allowed
from holdfast.model.destination import Kind
from holdfast.model.limits import QUEUE_NAME_BYTES_MAX
from holdfast.model.policy_option import (
    FLOW_CONTROL,
    FORWARD_TO,
    MIRRORED,
    OFFLINE_TIMEOUT,
    VIRTUAL_TOPIC,
    VIRTUAL_TOPIC_POSTFIX,
    VIRTUAL_TOPIC_PREFIX,
    PolicyOption,
)
from holdfast.model.recovery_options import RECOVERY_OPTIONS
from holdfast.model.redelivery import (
    DELAY_MS_MAX,
    MAXIMUM_MOST,
    MULTIPLIER_MAX,
    UNLIMITED,
    Redelivery,
)
from holdfast.model.sharing_options import SHARING_OPTIONS
from holdfast.model.slow_consumer_options import SLOW_CONSUMER_OPTIONS
from holdfast.model.virtual_topics import DEFAULT_FORM

PREFETCH_MAX: Final = 65_535
_NAME_PART_BYTES_MAX: Final = 256
DELIVERY_SECONDS_MAX: Final = 7 * 24 * 3600
LIFETIME_MS_MAX: Final = 366 * 24 * 3600 * 1000
LENGTH_MAX: Final = 1_000_000_000
PENDING_RATE_MAX: Final = 10_000
LENGTH_BYTES_MAX: Final = 1 << 50
FORWARD_TO_BYTES_MAX: Final = 16 * 1024

BY_NAME: Final = "byName"

SHARED: Final = "shared"
INDIVIDUAL: Final = "individual"
DISCARD: Final = "discard"
OWN_OF_DURABLES: Final = "destinationPerDurableSubscriber"

SYNONYMS: Final = {
    "inactiveTimoutBeforeGC": "inactiveTimeoutBeforeGC",
    "max-length": "maxLength",
    "x-max-length": "maxLength",
    "max-size-messages": "maxLength",
    "max-length-bytes": "maxLengthBytes",
    "x-max-length-bytes": "maxLengthBytes",
    "max-size-bytes": "maxLengthBytes",
}
"""What else keys are called: by ActiveMQ before, by RabbitMQ, by Artemis."""

REJECT: Final = "reject"
BLOCK: Final = "block"
DROP_HEAD: Final = "drop-head"
OVERFLOWS: Final = (REJECT, BLOCK, DROP_HEAD)

_REDELIVERY: Final = Redelivery()
FALSE: Final = "false"
TRUE: Final = "true"

OPTIONS: Final = {
    option.name: option
    for option in (
        PolicyOption(
            name="queuePrefetch",
            kind=Kind.QUEUE,
            meaning="most deliveries unacknowledged at once, of a subscription that says nothing",
            allowed=Allowed(1, PREFETCH_MAX),
            setting="broker.prefetch_default",
        ),
        PolicyOption(
            name="queueBrowserPrefetch",
            kind=Kind.QUEUE,
            meaning="the same of one that only looks through the queue",
            allowed=Allowed(1, PREFETCH_MAX),
            default=500,
        ),
        PolicyOption(
            name="topicPrefetch",
            kind=Kind.TOPIC,
            meaning="the same of a subscription of a topic",
            allowed=Allowed(1, PREFETCH_MAX),
            setting="broker.prefetch_max",
        ),
        PolicyOption(
            name="durableTopicPrefetch",
            kind=Kind.TOPIC,
            meaning="the same of a durable subscription of a topic",
            allowed=Allowed(1, PREFETCH_MAX),
            default=100,
        ),
        PolicyOption(
            name="deadLetterStrategy",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="where rejected messages go: to one queue for all, to one of their queue's or"
            " topic's own, nowhere",
            choices=(SHARED, INDIVIDUAL, DISCARD),
            default=SHARED,
        ),
        PolicyOption(
            name="deadLetterQueue",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="the queue for all, if the strategy is shared",
            allowed=Allowed(1, QUEUE_NAME_BYTES_MAX),
            setting="broker.dead_letter_queue",
        ),
        PolicyOption(
            name="queuePrefix",
            kind=Kind.QUEUE,
            meaning="what stands before the queue's name, if the strategy is individual",
            allowed=Allowed(1, _NAME_PART_BYTES_MAX),
            default="ActiveMQ.DLQ.Queue.",
        ),
        PolicyOption(
            name="queueSuffix",
            kind=Kind.QUEUE,
            meaning="and what stands behind it",
            allowed=Allowed(0, _NAME_PART_BYTES_MAX),
        ),
        PolicyOption(
            name="topicPrefix",
            kind=Kind.TOPIC,
            meaning="what stands before the topic's name, if the strategy is individual",
            allowed=Allowed(1, _NAME_PART_BYTES_MAX),
            default="ActiveMQ.DLQ.Topic.",
        ),
        PolicyOption(
            name="topicSuffix",
            kind=Kind.TOPIC,
            meaning="and what stands behind it",
            allowed=Allowed(0, _NAME_PART_BYTES_MAX),
        ),
        PolicyOption(
            name=OWN_OF_DURABLES,
            kind=Kind.TOPIC,
            meaning="whether that of a durable subscription is its own, called by its client, too",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name="processNonPersistent",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="whether rejected messages go there that are not persistent; they are stored",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name="processExpired",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="whether what expires is a dead letter; else it is nowhere any more",
            choices=(FALSE, TRUE),
            default=TRUE,
        ),
        PolicyOption(
            name="expiration",
            kind=Kind.QUEUE,
            meaning="milliseconds that dead letters of the queue may stand where they are; 0: for"
            " ever",
            allowed=Allowed(0, LIFETIME_MS_MAX),
            default=0,
        ),
        PolicyOption(
            name="zeroExpirationOverride",
            kind=Kind.QUEUE,
            meaning="milliseconds after which messages expire that say nothing of it; 0: never",
            allowed=Allowed(0, LIFETIME_MS_MAX),
            default=0,
        ),
        PolicyOption(
            name="ttlCeiling",
            kind=Kind.QUEUE,
            meaning="most milliseconds that a message lives of which it is said how long; 0:"
            " without a limit",
            allowed=Allowed(0, LIFETIME_MS_MAX),
            default=0,
        ),
        PolicyOption(
            name="futureOnly",
            kind=Kind.QUEUE,
            meaning="whether a lifetime counts from when the message came, if that is later by its"
            " sender's clock, and none is cut",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name="expireMessagesPeriod",
            kind=Kind.QUEUE,
            meaning="milliseconds; 0: what has expired is taken off only as it would be delivered,"
            " else at once, whatever the number",
            allowed=Allowed(0, DELAY_MS_MAX),
            default=30_000,
        ),
        PolicyOption(
            name="maximumRedeliveries",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="how often a message comes again that fails; -1: for ever",
            allowed=Allowed(UNLIMITED, MAXIMUM_MOST),
            default=_REDELIVERY.maximum,
        ),
        PolicyOption(
            name="initialRedeliveryDelay",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="milliseconds that it rests after its first failure",
            allowed=Allowed(0, DELAY_MS_MAX),
            default=_REDELIVERY.initial_delay_ms,
        ),
        PolicyOption(
            name="redeliveryDelay",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="and after each later one",
            allowed=Allowed(0, DELAY_MS_MAX),
            default=_REDELIVERY.delay_ms,
        ),
        PolicyOption(
            name="useExponentialBackOff",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="instead of that, each time so many times as long as before",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name="backOffMultiplier",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="how many times",
            allowed=Allowed(1, MULTIPLIER_MAX),
            default=_REDELIVERY.multiplier,
            is_decimal=True,
        ),
        PolicyOption(
            name="maximumRedeliveryDelay",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="but no longer than this, in milliseconds; -1: without a limit",
            allowed=Allowed(UNLIMITED, DELAY_MS_MAX),
            default=_REDELIVERY.delay_ms_max,
        ),
        PolicyOption(
            name="useCollisionAvoidance",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="delays that differ by chance, so that what failed together does not come"
            " together",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name="collisionAvoidanceFactor",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="by which share of them at most",
            allowed=Allowed(0, 1),
            default=_REDELIVERY.scatter,
            is_decimal=True,
        ),
        PolicyOption(
            name="suspectAfter",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="after being lost so often with others' connections a message is sent alone,"
            " to find out which one is to blame; 0: never",
            allowed=Allowed(0, MAXIMUM_MOST),
            default=3,
        ),
        PolicyOption(
            name="deliverySecondsMax",
            kind=Kind.QUEUE,
            meaning="after so many seconds in delivery a message counts as rejected; 0: never",
            allowed=Allowed(0, DELIVERY_SECONDS_MAX),
            default=0,
        ),
        PolicyOption(
            name="prioritizedMessages",
            kind=Kind.QUEUE,
            meaning="whether messages of a higher priority are delivered first",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        *SHARING_OPTIONS,
        PolicyOption(
            name="maxLength",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="so many messages may be on the queue, or each durable subscription of the"
            " topic, with those in delivery; 0: without a limit",
            allowed=Allowed(0, LENGTH_MAX),
            default=0,
        ),
        PolicyOption(
            name="maxLengthBytes",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="and so many bytes of them, headers and bodies; 0: without a limit",
            allowed=Allowed(0, LENGTH_BYTES_MAX),
            default=0,
        ),
        PolicyOption(
            name="overflow",
            kind=Kind.QUEUE,
            meaning="what happens where that is reached: what is sent is refused, its sender waits,"
            " the oldest message that nobody has is dropped",
            choices=OVERFLOWS,
            default=REJECT,
        ),
        PolicyOption(
            name="deadLetterOverflow",
            kind=Kind.QUEUE,
            meaning="whether what is dropped so is a dead letter; else it is nowhere any more",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name="memoryLimit",
            kind=Kind.QUEUE,
            meaning="so many bytes of memory its non-persistent messages may take, before their"
            " senders wait; 0: as much as those of all queues",
            allowed=Allowed(0, LENGTH_BYTES_MAX),
            default=0,
        ),
        PolicyOption(
            name=FLOW_CONTROL,
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="whether senders wait: at a queue's memoryLimit, and for slow subscribers of a"
            " topic; else that limit says nothing, and those lose the oldest",
            choices=(FALSE, TRUE),
            default=TRUE,
        ),
        PolicyOption(
            name="sendFailIfNoSpace",
            kind=Kind.QUEUE,
            meaning="whether who would have to wait for room is refused at once",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name="sendFailIfNoSpaceAfterTimeout",
            kind=Kind.QUEUE,
            meaning="and after so many milliseconds; 0: as the setting broker.send_wait_seconds_max"
            " says",
            allowed=Allowed(0, DELAY_MS_MAX),
            default=0,
        ),
        PolicyOption(
            name="gcInactiveDestinations",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="whether a queue goes that is empty and that nobody uses for a while, and what"
            " durable subscriptions of wildcards have of such a topic",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name="inactiveTimeoutBeforeGC",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="for so many milliseconds",
            allowed=Allowed(1, LIFETIME_MS_MAX),
            default=60_000,
        ),
        PolicyOption(
            name="constantPendingMessageLimitStrategy",
            kind=Kind.TOPIC,
            meaning="so many messages may wait for a subscription that has its prefetch; of more"
            " the oldest are dropped; -1: without a limit",
            allowed=Allowed(UNLIMITED, LENGTH_MAX),
            default=UNLIMITED,
        ),
        PolicyOption(
            name="prefetchRatePendingMessageLimitStrategy",
            kind=Kind.TOPIC,
            meaning="the same as a multiple of its prefetch, where no number is said; 0: without a"
            " limit",
            allowed=Allowed(0, PENDING_RATE_MAX),
            default=0,
            is_decimal=True,
        ),
        PolicyOption(
            name="messageEvictionStrategy",
            kind=Kind.TOPIC,
            meaning="which messages are dropped then",
            choices=("oldestMessageEvictionStrategy",),
            default="oldestMessageEvictionStrategy",
        ),
        *SLOW_CONSUMER_OPTIONS,
        *RECOVERY_OPTIONS,
        *ADVISORY_OPTIONS,
        PolicyOption(
            name=OFFLINE_TIMEOUT,
            kind=Kind.TOPIC,
            meaning="after so many milliseconds a durable subscription ends that nobody consumes"
            " from; -1: never",
            allowed=Allowed(UNLIMITED, LIFETIME_MS_MAX),
            default=UNLIMITED,
        ),
        PolicyOption(
            name=FORWARD_TO,
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="where messages go that are sent there, each part perhaps `when` a selector is"
            " true; empty: there",
            allowed=Allowed(0, FORWARD_TO_BYTES_MAX),
        ),
        PolicyOption(
            name="forwardOnly",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="whether they go there only, and not to the destination itself, too",
            choices=(FALSE, TRUE),
            default=TRUE,
        ),
        PolicyOption(
            name="sendWhenNotMatched",
            kind=Kind.QUEUE,
            is_of_both=True,
            meaning="whether those stay of which no selector of the list is true, though they would"
            " go there only",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name=MIRRORED,
            kind=Kind.QUEUE,
            meaning="whether what is sent to the queue goes to the topic VirtualTopic.Mirror.QUEUE,"
            " too, if anybody listens there",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name=VIRTUAL_TOPIC,
            kind=Kind.TOPIC,
            meaning="whether queues may consume the topic; by its name: if it is VirtualTopic, or"
            " begins with that and a dot",
            choices=(BY_NAME, FALSE, TRUE),
            default=BY_NAME,
        ),
        PolicyOption(
            name=VIRTUAL_TOPIC_PREFIX,
            kind=Kind.TOPIC,
            meaning="what stands before its name in those of these queues; * is any one part",
            allowed=Allowed(2, _NAME_PART_BYTES_MAX),
            default=DEFAULT_FORM.prefix,
        ),
        PolicyOption(
            name=VIRTUAL_TOPIC_POSTFIX,
            kind=Kind.TOPIC,
            meaning="and what stands behind it",
            allowed=Allowed(0, _NAME_PART_BYTES_MAX),
        ),
    )
}
