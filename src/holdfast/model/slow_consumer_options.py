"""
Keys of policies about consumers that are slow: a part of the table in `policy_options`.

The names are those of ActiveMQ's two strategies, which are elements of its own there.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.allowed import Allowed
from holdfast.model.destination import Kind
from holdfast.model.policy_option import PolicyOption
from holdfast.model.redelivery import DELAY_MS_MAX, UNLIMITED

NO_STRATEGY: Final = "none"
ABORT_SLOW: Final = "abortSlowConsumerStrategy"
ABORT_SLOW_ACK: Final = "abortSlowAckConsumerStrategy"

_COUNT_MAX: Final = 1_000_000
_PERIOD_MS_MIN: Final = 1_000

SLOW_CONSUMER_OPTIONS: Final = (
    PolicyOption(
        name="slowConsumerStrategy",
        kind=Kind.QUEUE,
        is_of_both=True,
        meaning="which consumers are ended as they hold others up: none; those that have no room"
        " for what waits; those that do not acknowledge what they have",
        choices=(NO_STRATEGY, ABORT_SLOW, ABORT_SLOW_ACK),
        default=NO_STRATEGY,
    ),
    PolicyOption(
        name="maxSlowDuration",
        kind=Kind.QUEUE,
        is_of_both=True,
        meaning="milliseconds for which one may have no room and acknowledge nothing; -1: for ever",
        allowed=Allowed(UNLIMITED, DELAY_MS_MAX),
        default=30_000,
    ),
    PolicyOption(
        name="maxSlowCount",
        kind=Kind.QUEUE,
        is_of_both=True,
        meaning="how often one may be found to have become so; -1: any number of times",
        allowed=Allowed(UNLIMITED, _COUNT_MAX),
        default=UNLIMITED,
    ),
    PolicyOption(
        name="maxTimeSinceLastAck",
        kind=Kind.QUEUE,
        is_of_both=True,
        meaning="milliseconds for which one may have messages and acknowledge none of them",
        allowed=Allowed(1, DELAY_MS_MAX),
        default=30_000,
    ),
    PolicyOption(
        name="checkPeriod",
        kind=Kind.QUEUE,
        is_of_both=True,
        meaning="milliseconds between two looks at all consumers; the shortest counts that is said",
        allowed=Allowed(_PERIOD_MS_MIN, DELAY_MS_MAX),
        default=30_000,
    ),
    PolicyOption(
        name="abortConnection",
        kind=Kind.QUEUE,
        is_of_both=True,
        meaning="whether its connection ends with it, else only what it subscribed to",
        choices=("false", "true"),
        default="false",
    ),
    PolicyOption(
        name="ignoreIdleConsumers",
        kind=Kind.QUEUE,
        is_of_both=True,
        meaning="that who has no messages need not acknowledge any",
        choices=("true",),
        default="true",
    ),
)
