"""
When a message that a consumer rejects comes again, and how often: the redelivery policy.

The names and the rules are those of ActiveMQ's redelivery policy; so are the defaults. It holds
where anything of it is said, by a policy, by a SUBSCRIBE or by the rejection itself; where nothing
is, what is rejected is dead at once, as in ActiveMQ.

Pure: the delays are the same wherever they are worked out.
"""

from __future__ import annotations

import zlib
from typing import Final, NamedTuple

MAXIMUM_MOST: Final = 254
"""More failures than 255 are not told apart."""
DELAY_MS_MAX: Final = 7 * 24 * 3600 * 1000
MULTIPLIER_MAX: Final = 1000
UNLIMITED: Final = -1

_PARTS: Final = 1 << 32


class Redelivery(NamedTuple):
    """What holds of what is rejected."""

    maximum: int = 6
    """How often it comes again; -1: for ever."""
    initial_delay_ms: int = 1000
    delay_ms: int = 1000
    is_exponential: bool = False
    multiplier: float = 5.0
    delay_ms_max: int = UNLIMITED
    is_scattered: bool = False
    """Whether delays are longer or shorter than they would be, by chance."""
    scatter: float = 0.15
    """By which share of them at most."""

    def is_exhausted(self, failures: int) -> bool:
        """Whether a message that failed so often comes no more."""
        return self.maximum != UNLIMITED and failures > self.maximum

    def delay_of(self, failures: int, chance: str) -> int:
        """
        Give how long a message rests that failed so often, in milliseconds.

        `chance` decides by how much a delay is scattered: equal ones alike.
        """
        delay = float(self.initial_delay_ms)
        for _ in range(1, failures):
            grows = self.is_exponential and self.multiplier > 1 and delay > 0
            delay = delay * self.multiplier if grows else float(self.delay_ms)
            if (not grows and not self.is_exponential) or delay > DELAY_MS_MAX:
                break
        if self.delay_ms_max != UNLIMITED and failures > 1 and self.is_exponential:
            delay = min(delay, max(self.delay_ms_max, self.delay_ms))
        if self.is_scattered:
            share = 2 * zlib.crc32(chance.encode()) / _PARTS - 1
            delay += delay * self.scatter * share
        return min(round(delay), DELAY_MS_MAX)


KEYS: Final = {
    "maximumRedeliveries": "maximum",
    "initialRedeliveryDelay": "initial_delay_ms",
    "redeliveryDelay": "delay_ms",
    "useExponentialBackOff": "is_exponential",
    "backOffMultiplier": "multiplier",
    "maximumRedeliveryDelay": "delay_ms_max",
    "useCollisionAvoidance": "is_scattered",
    "collisionAvoidanceFactor": "scatter",
}
"""By ActiveMQ's names: what each says."""
