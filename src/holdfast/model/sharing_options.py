"""
Keys of policies about how the consumers of a queue share its messages: a part of the table in
`policy_options`.

The names are ActiveMQ's, but for those of message groups' buckets and of what waits for one that is
to come again.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.allowed import Allowed
from holdfast.model.destination import Kind
from holdfast.model.groups import BUCKETS, BUCKETS_MAX
from holdfast.model.policy_option import PolicyOption
from holdfast.model.redelivery import DELAY_MS_MAX

AWAITED_MAX: Final = 10_000

PAUSED: Final = "paused"

SHARING_OPTIONS: Final = (
    PolicyOption(
        name=PAUSED,
        kind=Kind.QUEUE,
        meaning="whether nobody is given any of its messages; what is sent there is taken",
        choices=("false", "true"),
        default="false",
    ),
    PolicyOption(
        name="useConsumerPriority",
        kind=Kind.QUEUE,
        meaning="whether consumers of a higher priority get messages first",
        choices=("false", "true"),
        default="true",
    ),
    PolicyOption(
        name="allConsumersExclusiveByDefault",
        kind=Kind.QUEUE,
        meaning="whether each consumer wants to be the only one that gets messages",
        choices=("false", "true"),
        default="false",
    ),
    PolicyOption(
        name="consumersBeforeDispatchStarts",
        kind=Kind.QUEUE,
        meaning="so many consumers are waited for before the first message goes out",
        allowed=Allowed(0, AWAITED_MAX),
        default=0,
    ),
    PolicyOption(
        name="timeBeforeDispatchStarts",
        kind=Kind.QUEUE,
        meaning="but no longer than so many milliseconds after the first one came",
        allowed=Allowed(0, DELAY_MS_MAX),
        default=0,
    ),
    PolicyOption(
        name="messageGroupBuckets",
        kind=Kind.QUEUE,
        meaning="message groups are in so many buckets, each of which one consumer has",
        allowed=Allowed(1, BUCKETS_MAX),
        default=BUCKETS,
    ),
    PolicyOption(
        name="groupRebalance",
        kind=Kind.QUEUE,
        meaning="whether a consumer that comes gets message groups of others",
        choices=("false", "true"),
        default="true",
    ),
    PolicyOption(
        name="redeliveryKeepsOrder",
        kind=Kind.QUEUE,
        meaning="whether the rest of a message group waits for one that is to come again later",
        choices=("false", "true"),
        default="true",
    ),
)
