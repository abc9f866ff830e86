"""
Keys of policies that let the broker say what happens to messages: a part of `policy_options`.

The names are ActiveMQ's. What is said without any of them stands in `advisories`, with the rest.
"""

from __future__ import annotations

from typing import Final

from holdfast.model import advisories
from holdfast.model.destination import Kind
from holdfast.model.policy_option import PolicyOption

ADVISED_BY: Final = {
    "advisoryForConsumed": advisories.CONSUMED,
    "advisoryForDelivery": advisories.DELIVERED,
    "advisoryForDiscardingMessages": advisories.DISCARDED,
    "advisoryForDispatched": advisories.DISPATCHED,
    "advisoryForFastProducers": advisories.FAST_PRODUCER,
    "advisoryForSlowConsumers": advisories.SLOW_CONSUMER,
    "advisoryWhenFull": advisories.FULL,
    "sendAdvisoryIfNoConsumers": advisories.NO_CONSUMER,
}
"""By key, which kind of advisories it lets be said."""

_MEANINGS: Final = {
    "advisoryForConsumed": "of each message of it that is acknowledged",
    "advisoryForDelivery": "of each message that has come to it",
    "advisoryForDiscardingMessages": "of each that is dropped, as too many waited",
    "advisoryForDispatched": "of each that is sent to a consumer",
    "advisoryForFastProducers": "of producers that must wait for room on it",
    "advisoryForSlowConsumers": "of consumers that are found slow",
    "advisoryWhenFull": "that there is no room for what is sent there",
    "sendAdvisoryIfNoConsumers": "each message that is not stored and finds no consumer, itself",
}

ADVISORY_OPTIONS: Final = tuple(
    PolicyOption(
        name=name,
        kind=Kind.QUEUE,
        is_of_both=True,
        meaning=f"whether who listens to {kind} is told {_MEANINGS[name]}",
        choices=("false", "true"),
        default="false",
    )
    for name, kind in ADVISED_BY.items()
)
