"""
What is going to fail, where and for how long: a schedule is a value, drawn from a seed or written.

`KINDS` is the vocabulary: each kind of fault with its price in seconds, where it may strike and
which of the numbered faults F1-F41 it shows. A `Schedule` is a list of steps over one topology. It
goes to JSON and back unchanged, so that the one that failed can be run again or made smaller.

Invariants:
    The same seed and seconds give the same schedules.
    `deal` gives every kind that applies to some topology to one of them before any comes twice.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.errors import ConfigError

TOPOLOGIES = ("three", "five", "witness", "sites", "learner")
Parameter = float | str | bool

_WITH_MAJORITY = ("three", "five", "sites", "learner")
"""Here a data node may be taken away for good and brought back empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """One kind of fault. `cost` is how long it takes with its repair, in seconds, about."""

    name: str
    shows: tuple[str, ...]
    """Numbers of the promise table, as "F1"; those that speak of one role only show there."""

    where: tuple[str, ...] = ("leader", "follower")
    topologies: tuple[str, ...] = TOPOLOGIES
    seconds: tuple[float, float] = (0.3, 2.0)
    """How long it lasts before it is healed: at least, at most."""

    cost: float = 5.0
    weight: int = 2
    is_destructive: bool = False
    """It spoils what a disk had made durable: one machine at a time, and whole again before the
    next."""

    parameters: Mapping[str, tuple[Parameter, ...]] = field(default_factory=dict)
    """What each parameter may be."""


def _kind(name: str, shows: str, **more: Any) -> FaultKind:
    return FaultKind(name=name, shows=tuple(shows.split()), **more)


KINDS: dict[str, FaultKind] = {
    kind.name: kind
    for kind in (
        # Processes.
        _kind("crash", "F1 F2 F29 F30 F32", weight=8, cost=4.5),
        _kind("crash everywhere", "F3 F29", where=("all",), seconds=(0.0, 0.5), cost=7.0),
        _kind("crash again and again", "F29 F40", where=("any",), seconds=(3.0, 5.0), cost=9.0),
        _kind("pause", "F7 F8 F34", seconds=(0.4, 4.0), weight=4, cost=5.0),
        _kind("stop", "", seconds=(0.2, 1.0), cost=5.0),
        _kind("transfer", "", where=("leader",), seconds=(0.0, 0.2), weight=4, cost=2.5),
        _kind("consumer killed", "F31", where=("client",), seconds=(0.5, 1.0), cost=3.0),
        _kind("consumer and leader killed", "F31", where=("leader",), weight=4, cost=5.0),
        _kind("site lost", "F36", where=("site",), topologies=("sites",), cost=7.0, weight=4),
        _kind("data node lost after the other's crash", "F35", where=("follower",),
              topologies=("witness",), seconds=(1.0, 2.0), cost=10.0, is_destructive=True),
        # Links.
        _kind("partition", "F9 F34", where=("leader", "minority"), seconds=(1.0, 4.0), cost=6.0),
        _kind("one-way cut", "F10", where=("leader out", "leader in"), seconds=(2.0, 4.0),
              cost=6.0),
        _kind("one-sided reset", "", where=("leader",), seconds=(1.0, 3.0), cost=6.0, weight=3),
        _kind("partial partition", "F11", where=("leader",), seconds=(2.0, 4.0), cost=6.0),
        _kind("ring partition", "F12", where=("all",), topologies=("five", "sites"),
              seconds=(4.0, 7.0), cost=9.5),
        _kind("bad links", "F13", where=("all",), seconds=(4.0, 7.0), cost=9.0,
              parameters={"delay": (0.005, 0.05, 0.2), "loss": (0.02, 0.05),
                          "duplicate": (0.0, 0.05), "late": (0.0, 0.003)}),
        _kind("client cut off", "F30 F34", where=("leader",), seconds=(1.0, 3.0), cost=5.0),
        # Disks that fail and keep what they have.
        _kind("power cut", "F4 F29", weight=6, cost=5.0),
        _kind("power cut everywhere", "F5", where=("all",), seconds=(0.0, 0.5), cost=8.0),
        _kind("power cut while the others are paused", "F6", where=("follower",),
              topologies=("three", "witness", "learner"), seconds=(2.0, 3.0), cost=8.0),
        _kind("fsync EIO", "F15", weight=3, cost=5.0),
        _kind("write EIO", "F15", cost=5.0),
        _kind("disk full", "F17", seconds=(1.5, 3.0), cost=6.0,
              parameters={"how": ("told in time", "at a write")}),
        _kind("slow disk", "F27 F28", seconds=(3.0, 6.0), cost=8.0,
              parameters={"sync": (0.05, 0.2, 0.5)}),
        _kind("disk hangs", "F27", topologies=_WITH_MAJORITY, seconds=(4.0, 7.0), cost=10.0,
              weight=3),
        # Disks that lose what they had promised to keep.
        _kind("lying disk", "F16", seconds=(1.0, 2.0), cost=8.0, is_destructive=True),
        _kind("bit flip", "F18", seconds=(0.0, 0.0), cost=8.0, is_destructive=True,
              parameters={"part": ("body", "header")}),
        _kind("crash and a bit flip at the log's end", "F19", cost=6.0, is_destructive=True),
        _kind("bit flip in the ballot", "F19", cost=6.0, is_destructive=True),
        _kind("bit flip in a checkpoint", "F19", cost=6.0, is_destructive=True),
        _kind("different damage on every node", "F20", where=("all",), seconds=(0.0, 0.0),
              cost=9.0, is_destructive=True, topologies=_WITH_MAJORITY),
        _kind("log cut short", "F22", cost=7.0, is_destructive=True,
              parameters={"bytes": (4096.0, 65536.0, 1048576.0)}),
        _kind("disk rolled back", "F23", seconds=(1.5, 3.0), cost=10.0, is_destructive=True),
        _kind("wiped disk", "F24", cost=7.0, is_destructive=True, weight=3),
        # Clocks and operators.
        _kind("clock jump", "F14", where=("leader", "follower"), seconds=(2.0, 3.0), cost=4.5,
              parameters={"by": (-3600.0, -1.0, 1.0, 3600.0)}),
        _kind("clock skew", "F14", where=("leader", "follower"), seconds=(2.0, 4.0), cost=4.5,
              parameters={"rate": (0.9, 1.1)}),
        _kind("add member", "F26", where=("newcomer",), topologies=_WITH_MAJORITY,
              seconds=(0.5, 1.0), cost=9.0),
        _kind("remove member", "F26", where=("follower",), topologies=_WITH_MAJORITY,
              seconds=(0.5, 1.0), cost=9.0, is_destructive=True),
        _kind("promote learner", "F26", where=("learner",), topologies=("learner",),
              seconds=(0.5, 1.5), cost=9.0, is_destructive=True),
    )
}  # fmt: skip
"""The words are those of the simulator's nemesis (`testing/faults.py`) where it has the fault."""


_ONLY_AT = {
    **dict.fromkeys(("F1", "F4", "F7", "F8", "F32", "F34"), "leader"),
    "F2": "follower",
}
"""Numbers that speak of one role."""

BACKGROUND = ("bad links", "slow disk", "clock skew", "clock jump")
"""These may last while another fault happens: they take nothing away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    One fault.

    `where` is a role (leader, follower, witness, learner, any, all, ...) or a node's name.
    """

    fault: str
    where: str = "any"
    at: float = 0.0
    """Not before so many seconds after the load began; in any case after the step before."""

    seconds: float = 1.0
    """Healed or repaired after so long."""

    together: bool = False
    """The next step begins while this one lasts; both are healed after it."""

    parameters: dict[str, Parameter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.fault not in KINDS:
            raise ConfigError([f"fault: no kind of fault is called {self.fault!r}"])

    @property
    def kind(self) -> FaultKind:
        """What is known of this kind of fault."""
        return KINDS[self.fault]

    def __str__(self) -> str:
        end = ", with the next" if self.together else ""
        more = "".join(f" {key} {value}" for key, value in self.parameters.items())
        return f"{self.fault} ({self.where}) for {self.seconds:.1f} s{more}{end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What happens to one cluster. `seconds` bounds the time of its steps; 0: all are taken."""

    name: str
    topology: str
    seed: int
    steps: tuple[Step, ...]
    seconds: float = 0.0
    is_calm: bool = False
    """Every step finds a whole and level cluster, so that its gap is its own."""

    def __post_init__(self) -> None:
        if self.topology not in TOPOLOGIES:
            raise ConfigError([f"topology: {self.topology!r} is none of {', '.join(TOPOLOGIES)}"])

    def to_json(self) -> dict[str, Any]:
        """The schedule as lists, dictionaries, strings and numbers."""
        return asdict(self) | {"steps": [asdict(step) for step in self.steps]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Schedule:
        """
        The schedule of a value made by `to_json`, or written by hand.

        Raises:
            ConfigError: A field, a fault or a topology is not known.
        """
        try:
            steps = tuple(Step(**each) for each in value["steps"])
            return cls(**{**value, "steps": steps})
        except (TypeError, KeyError) as error:
            raise ConfigError([f"schedule: {error}"]) from error


def read_schedules(path: Path) -> list[Schedule]:
    """
    The schedules of a JSON file: one, a list, or a report of a run (which holds them).

    Raises:
        ConfigError: The file holds something else.
        OSError: It cannot be read.
    """
    try:
        value = json.loads(path.read_text())
    except ValueError as error:
        raise ConfigError([f"schedule: {path} is not JSON: {error}"]) from error
    if isinstance(value, dict) and "scenarios" in value:
        value = [each["schedule"] for each in value["scenarios"]]
    found = value if isinstance(value, list) else [value]
    return [Schedule.from_json(each) for each in found]


def applying(topology: str) -> list[FaultKind]:
    """The kinds of faults that a topology can have."""
    return [kind for kind in KINDS.values() if topology in kind.topologies]


def draw_step(kind: FaultKind, chance: random.Random) -> Step:
    """One step of a kind, with place, length and parameters by chance."""
    return Step(
        fault=kind.name,
        where=chance.choice(kind.where),
        seconds=round(chance.uniform(*kind.seconds), 2),
        parameters={name: chance.choice(values) for name, values in kind.parameters.items()},
    )


def deal(seed: int, seconds: Mapping[str, float]) -> list[Schedule]:
    """
    A mix for each of some topologies, given the seconds that its faults may take.

    First every kind that applies somewhere goes to one of the topologies, then each is filled with
    kinds by weight. Time that runs short is taken from the second part.
    """
    chance = random.Random(f"{seed}:deal")  # noqa: S311 - to be repeated from a seed
    drawn: dict[str, list[Step]] = {topology: [] for topology in seconds}
    left = dict(seconds)
    kinds = list(KINDS.values())
    chance.shuffle(kinds)
    kinds.sort(key=lambda kind: len([name for name in kind.topologies if name in seconds]))
    for kind in kinds:
        places = [topology for topology in seconds if topology in kind.topologies]
        if places:
            place = max(places, key=lambda topology: left[topology])
            drawn[place].append(draw_step(kind, chance))
            left[place] -= kind.cost
    for topology, steps in drawn.items():
        chance.shuffle(steps)
        steps.extend(fill(left[topology], topology, chance))
    return [
        Schedule(
            name="mix",
            topology=topology,
            seed=seed,
            steps=tuple(combine(steps, chance)),
            seconds=round(seconds[topology], 1),
        )
        for topology, steps in drawn.items()
    ]


def combine(steps: list[Step], chance: random.Random) -> list[Step]:
    """Let some of the faults that only trouble the cluster last while the next one happens."""
    found = []
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        is_fit = (
            step.fault in BACKGROUND
            and following is not None
            and following.fault != "add member"
            and not following.kind.is_destructive
        )
        is_together = is_fit and chance.random() < 0.5
        found.append(replace(step, together=True) if is_together else step)
    return found


def fill(seconds: float, topology: str, chance: random.Random) -> list[Step]:
    """Steps by weight for so many seconds, and more, for a quiet machine is quick."""
    kinds = applying(topology)
    weights = [kind.weight for kind in kinds]
    steps = []
    left = seconds * 6
    while left > 0:
        kind = chance.choices(kinds, weights)[0]
        steps.append(draw_step(kind, chance))
        left -= kind.cost
    return steps


def shown_by(steps: Iterable[tuple[str, str]]) -> list[str]:
    """The numbers F1-F41 that faults show, given each kind and where it struck, in their order."""
    found = {
        number
        for fault, where in steps
        for number in KINDS[fault].shows
        if _ONLY_AT.get(number, where) == where
    }
    return sorted(found, key=lambda number: int(number[1:]))
