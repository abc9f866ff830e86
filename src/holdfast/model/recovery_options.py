"""
Keys of policies about what a topic keeps for who comes later: a part of the table in
`policy_options`.

The names are those of ActiveMQ's subscription recovery policies, which are elements of their own
there, each with one number.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.allowed import Allowed
from holdfast.model.destination import Kind
from holdfast.model.limits import MiB
from holdfast.model.policy_option import PolicyOption

NO_RECOVERY: Final = "noSubscriptionRecoveryPolicy"
LAST_IMAGE: Final = "lastImageSubscriptionRecoveryPolicy"
FIXED_COUNT: Final = "fixedCountSubscriptionRecoveryPolicy"
FIXED_SIZE: Final = "fixedSizedSubscriptionRecoveryPolicy"
TIMED: Final = "timedSubscriptionRecoveryPolicy"

RECOVERED_COUNT_MAX: Final = 10_000
"""So many messages one topic keeps at most, whatever is said."""
RECOVERED_BYTES_MAX: Final = 16 * MiB
"""And so many bytes of them."""
_DURATION_MS_MAX: Final = 24 * 3600 * 1000

RECOVERY_POLICY: Final = "subscriptionRecoveryPolicy"

RECOVERY_OPTIONS: Final = (
    PolicyOption(
        name=RECOVERY_POLICY,
        kind=Kind.TOPIC,
        meaning="what the leader keeps in memory of what was sent to the topic, for subscribers"
        " that ask for it: nothing, the last message, the last ones up to a number, up to so many"
        " bytes, or of the last while",
        choices=(NO_RECOVERY, LAST_IMAGE, FIXED_COUNT, FIXED_SIZE, TIMED),
        default=NO_RECOVERY,
    ),
    PolicyOption(
        name="recoveryMaximumCount",
        kind=Kind.TOPIC,
        meaning="up to which number",
        allowed=Allowed(1, RECOVERED_COUNT_MAX),
        default=100,
    ),
    PolicyOption(
        name="recoveryMaximumSize",
        kind=Kind.TOPIC,
        meaning="up to how many bytes, headers and bodies",
        allowed=Allowed(1, RECOVERED_BYTES_MAX),
        default=65_536,
    ),
    PolicyOption(
        name="recoverDuration",
        kind=Kind.TOPIC,
        meaning="of the last how many milliseconds",
        allowed=Allowed(1, _DURATION_MS_MAX),
        default=60_000,
    ),
    PolicyOption(
        name="alwaysRetroactive",
        kind=Kind.TOPIC,
        meaning="whether every subscriber is taken to ask for it",
        choices=("false", "true"),
        default="false",
    ),
)
