"""
What a leased world goes through: drawn from its seed, and bent by who wants a certain trouble.

Each kind of trouble has a name, by which it is chosen, counted and told. How a world ends is drawn
too: healed, or with something done to the medium that nobody may pass over.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from trials.leased.model_elector import ELECTORS, HONEST

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
CACHE_FULL = "no room for the cache"
"""Not among those that every world draws of: with it less may wait to be written."""
KINDS: tuple[str, ...] = (
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

NAMESAKE = "a broker starts with a living one's name"
NAMESAKE_OF_KILLED = "another broker starts with a killed one's name"
NAMESAKES_TOGETHER = "two brokers of one name start at once"
OF_NAMES = (NAMESAKE, NAMESAKE_OF_KILLED, NAMESAKES_TOGETHER)
"""What happens only where names are judged."""

ELECTOR_AWAY = "elector away"
ELECTOR_CUT = "one cut off from the elector"
ELECTOR_BACK = "elector started anew"
ELECTOR_KINDS = (ELECTOR_AWAY, ELECTOR_CUT, ELECTOR_BACK)

DATABASE_AWAY = "one database away"
DATABASE_CUT = "one cut off from a database"
DATABASE_FULL = "one database full"
DATABASE_DISABLED = "one database disabled"
DATABASE_SLOW = "the way to one database slow"
DATABASES_LOW = "all databases but one without room for what is large"
LARGE_LEFT = "a large entry under way when its holder ended"
LARGE_LEFT_ONE_AWAY = "the same while another database was away"
DATABASE_ASTRAY = "an address leads to a database of another log"
DATABASE_COPIED = "new connections lead to a copy of a database, which others went on with"
DATABASE_CROWDED = "a database lets no second connection in"
DATABASE_CLONED = "an address leads to a clone that others took, began a set in and went on with"
DATABASE_BACK = "a database is put back to what it was a while ago, under its holder"
DATABASE_ROT = "a row of one database rots"
"""Not drawn: where the others are away as well nobody has that row, and brokers may end."""
OF_SEVERAL = (
    DATABASE_AWAY,
    DATABASE_CUT,
    DATABASE_FULL,
    DATABASE_DISABLED,
)
OF_ADDRESSES = (DATABASE_ASTRAY, DATABASE_COPIED, DATABASE_CLONED)
OF_LARGE = (DATABASE_SLOW, DATABASES_LOW)
"""What happens beside these where some entries are large."""
"""What happens only where a log is kept in several databases."""

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

    lengths: tuple[float, ...] = (0.1, 0.5, 1.0, 1.5, 3.0)
    """How long a trouble lasts, in leases."""

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
    large: float = 0.0
    """That an entry is larger than a piece that is copied."""

    slow_bytes_per_second: int = 40_000
    """Where one is left under way at the end: it takes as long as a short lease."""

    clean: float = 0.04
    """That a proposal asks for the log to be cleaned."""

    rate: float = 0.05
    """How far clocks are off."""

    lease_ratios: tuple[float, ...] = (1.0,)
    """Each broker's own length of a lease is one of these times `lease_seconds`."""

    databases: int = 0
    """In so many that know nothing of each other; 0: in one that is a model of its own."""

    is_by_majority: bool = False
    """An append is confirmed once most of the databases have it."""

    is_shown: bool = False
    """The database shows something to people, which the holder tells all the time."""

    is_name_doubled: bool = False
    """Two of the brokers have one name."""

    are_names_judged: bool = False
    """Brokers judge who else has their name, and others start that have it."""

    ending: str = HEALED
    elector: str = ""
    """How it elects, see `model_elector`; empty where there is none."""

    session_seconds: float = 2.0
    slow_elector: float = 0.03
    """That its answer takes a good part of a session."""

    def __str__(self) -> str:
        medium = "database" if self.is_fence else "directory"
        if self.databases:
            medium = f"{self.databases} databases{', by majority' if self.is_by_majority else ''}"
        kinds = ", ".join(sorted(self.kinds))
        elector = f", an elector that is {self.elector}" if self.elector else ""
        return f"{self.brokers} brokers over a {medium}{elector}, {self.ending}: {kinds}"


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
    chance = random.Random(f"elector {seed}")  # noqa: S311 - to be repeated
    if chance.random() < 0.3:
        let_elect(made, chance.choice((HONEST, HONEST, *ELECTORS)), chance)
    chance = random.Random(f"names {seed}")  # noqa: S311 - to be repeated
    if chance.random() < 0.2:
        judge_names(made, chance)
    chance = random.Random(f"room {seed}")  # noqa: S311 - to be repeated
    if chance.random() < 0.2:
        made.kinds[CACHE_FULL] = chance.randint(1, 4)
    return made


def judge_names(made: Plan, chance: random.Random) -> None:
    """Give a world brokers that judge names, and others of their names."""
    made.are_names_judged = True
    made.kinds |= {kind: chance.randint(1, 3) for kind in OF_NAMES}


def without_elector(made: Plan) -> None:
    """Let a world be as it is without one."""
    made.elector = ""
    made.kinds = {kind: weight for kind, weight in made.kinds.items() if kind not in ELECTOR_KINDS}


def let_elect(made: Plan, manner: str, chance: random.Random) -> None:
    """Give a world an elector of this manner, and its troubles."""
    made.elector = manner
    made.session_seconds = made.lease_seconds * chance.choice((0.4, 0.8, 1.5))
    made.kinds |= {kind: chance.randint(1, 2) for kind in ELECTOR_KINDS}


def plan_of_several(seed: int) -> Plan:
    """Draw a world whose log is kept in several databases."""
    made = plan(seed)
    without_elector(made)
    chance = random.Random(f"several {seed}")  # noqa: S311 - to be repeated
    made.is_fence, made.ending = True, HEALED
    made.databases = chance.choice((2, 3, 3, 3, 4, 5))
    made.latency_seconds = min(made.latency_seconds, 0.005)
    made.kinds.pop(FULL, None)
    chosen = chance.sample(OF_SEVERAL, chance.randint(1, len(OF_SEVERAL)))
    made.kinds |= {kind: chance.randint(1, 5) for kind in chosen}
    chance = random.Random(f"majority {seed}")  # noqa: S311 - to be repeated
    made.is_by_majority = made.databases >= 3 and chance.random() < 0.5
    chance = random.Random(f"large {seed}")  # noqa: S311 - to be repeated
    if chance.random() < 0.3:
        with_large(made)
    chance = random.Random(f"addresses {seed}")  # noqa: S311 - to be repeated
    if chance.random() < 0.3:
        made.kinds |= {kind: chance.randint(1, 4) for kind in OF_ADDRESSES}
    chance = random.Random(f"let in {seed}")  # noqa: S311 - to be repeated
    if chance.random() < 0.3:
        made.kinds[DATABASE_CROWDED] = chance.randint(1, 4)
    chance = random.Random(f"back {seed}")  # noqa: S311 - to be repeated
    if not made.is_by_majority and chance.random() < 0.3:
        made.kinds[DATABASE_BACK] = chance.randint(1, 4)
        made.propose_seconds *= chance.choice((1, 10))
    return made


def with_large(made: Plan) -> None:
    """Let some entries be large, and ways slow, and most databases full at once."""
    made.large = 0.02
    made.kinds |= dict.fromkeys(OF_LARGE, 3)
