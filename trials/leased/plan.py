"""
What a leased world goes through: drawn from its seed, and bent by who wants a certain trouble.

Each kind of trouble has a name, by which it is chosen, counted and told. How a world ends is drawn
too: healed, or with something done to the medium that nobody may pass over.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

KILL = "kill"
POWER = "power cut"
PAUSE = "pause"
CALL = "pause in a call"
CUT_OFF = "one cut off"
AWAY = "medium away"
LONG_AWAY = "one away for long"
SLOW = "medium slow"
FULL = "medium full"
TRANSFER = "hand-over"
CLEAN_STOP = "clean stop"
WIPE = "cache lost"
ROT = "cache rots"
KINDS = (
    KILL,
    POWER,
    PAUSE,
    CALL,
    CUT_OFF,
    AWAY,
    LONG_AWAY,
    SLOW,
    FULL,
    TRANSFER,
    CLEAN_STOP,
    WIPE,
    ROT,
)

HEALED = "healed"
RESTORED = "medium restored from a backup"
ROW_GONE = "lease row gone"
ROTTEN = "entry of the medium rotten"
ENDINGS = (HEALED, RESTORED, ROW_GONE, ROTTEN)


@dataclass(slots=True)
class Plan:
    """One world's."""

    brokers: int
    is_fence: bool
    lease_seconds: float
    chaos_seconds: float
    pause_seconds: tuple[float, float]
    """Between two troubles."""

    kinds: dict[str, int] = field(default_factory=dict)
    """Weights."""

    latency_seconds: float = 0.005
    lost_request: float = 0.01
    lost_reply: float = 0.01
    late: float = 0.01
    late_seconds: float = 12.0
    """A statement that comes late does so within this time."""

    slow_reply: float = 0.01
    """That a reply takes a good part of the lease, where the bound of the call lets it."""

    slow_kinds: tuple[str, ...] = ()
    """Of these statements only, if any are named."""

    stale: float = 0.2
    """That a look at a directory shows what was there a while ago."""

    propose_seconds: float = 0.08
    clean: float = 0.04
    """That a proposal asks for the log to be cleaned."""

    rate: float = 0.05
    """How far clocks are off."""

    lease_ratios: tuple[float, ...] = (1.0,)
    """Each broker's own length of a lease is one of these times `lease_seconds`."""

    is_name_doubled: bool = False
    """Two of the brokers have one name."""

    ending: str = HEALED

    def __str__(self) -> str:
        medium = "database" if self.is_fence else "directory"
        kinds = ", ".join(sorted(self.kinds))
        return f"{self.brokers} brokers over a {medium}, {self.ending}: {kinds}"


def plan(seed: int) -> Plan:
    """Draw a world."""
    chance = random.Random(f"leased {seed}")  # noqa: S311 - to be repeated
    lease = chance.choice((2.0, 3.0, 5.0))
    made = Plan(
        brokers=chance.choice((2, 2, 3, 3, 4)),
        is_fence=chance.random() < 0.65,
        lease_seconds=lease,
        chaos_seconds=lease * chance.uniform(8, 16),
        pause_seconds=(0.1 * lease, lease * chance.choice((0.6, 1.2, 2.5))),
        latency_seconds=chance.choice((0.001, 0.005, 0.03)),
        late_seconds=lease * chance.choice((1.0, 3.0, 6.0)),
        propose_seconds=chance.choice((0.03, 0.1, 0.4)),
        is_name_doubled=chance.random() < 0.1,
    )
    for name in ("lost_request", "lost_reply", "late", "slow_reply"):
        setattr(made, name, chance.choice((0.0, 0.005, 0.02, 0.06)))
    chosen = chance.sample(KINDS, chance.randint(3, 7))
    made.kinds = {kind: chance.randint(1, 4) for kind in chosen}
    if made.is_fence and chance.random() < 0.15:
        made.ending = chance.choice(ENDINGS[1:])
    if chance.random() < 0.2:
        made.lease_ratios = (0.4, 1.0, 2.0)
    return made
