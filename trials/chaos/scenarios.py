"""
Scenarios with a name: each shows one promise, step by step, on the topologies it is made for.

A mix finds what nobody thought of; a scenario shows what somebody promised, the same way every
time. The promise table names them, so a scenario keeps its name. `says` is what must be seen in
words; that nothing is lost, doubled without a flag, resurrected or different on two nodes is
checked after each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.errors import ConfigError
from trials.chaos.schedule import TOPOLOGIES, Parameter, Schedule, Step, shown_by

_VOTERS: Final = ("three", "five", "sites", "learner")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A named list of steps. `elections_max` 0 or more: no more leaders may be seen."""

    name: str
    says: str
    steps: tuple[Step, ...]
    topologies: tuple[str, ...] = ("three",)
    """The first is taken unless another is asked for."""

    elections_max: int = -1

    @property
    def faults(self) -> list[str]:
        """The numbers F1-F41 that it shows."""
        return shown_by((step.fault, step.where) for step in self.steps)

    def schedule(self, topology: str, seed: int) -> Schedule:
        """What the runner takes."""
        return Schedule(
            name=self.name, topology=topology, seed=seed, steps=self.steps, is_calm=True
        )


def _step(
    fault: str,
    where: str,
    seconds: float = 1.0,
    *,
    together: bool = False,
    **parameters: Parameter,
) -> Step:
    return Step(fault=fault, where=where, seconds=seconds, together=together, parameters=parameters)


_ALL: Final = (
    Scenario(
        name="leader killed",
        says="another node leads within seconds; what was confirmed is there, once",
        topologies=TOPOLOGIES,
        steps=(_step("crash", "leader"), _step("crash", "leader", 0.2), _step("crash", "leader")),
    ),
    Scenario(
        name="leader hands over",
        says="a leader that is asked to go leaves hardly a gap",
        topologies=TOPOLOGIES,
        steps=(_step("transfer", "leader"), _step("stop", "leader"), _step("stop", "follower")),
    ),
    Scenario(
        name="follower killed",
        says="producers hardly notice",
        topologies=TOPOLOGIES,
        elections_max=1,
        steps=(_step("crash", "follower"), _step("crash", "follower", 3.0)),
    ),
    Scenario(
        name="all killed",
        says="the cluster recovers as soon as a majority is up",
        topologies=TOPOLOGIES,
        steps=(_step("crash everywhere", "all", 0.2), _step("crash everywhere", "all", 0.0)),
    ),
    Scenario(
        name="killed again and again",
        says="a node that dies while it rolls, cleans or writes a checkpoint finds one state",
        topologies=TOPOLOGIES,
        steps=(
            _step("crash again and again", "follower", 5.0),
            _step("crash again and again", "any", 5.0),
            _step("crash again and again", "leader", 5.0),
        ),
    ),
    Scenario(
        name="leader loses power",
        says="what was not synced is gone, and nobody had been told of it",
        topologies=TOPOLOGIES,
        steps=(_step("power cut", "leader"), _step("power cut", "leader", 0.2)),
    ),
    Scenario(
        name="all lose power",
        says="torn tails are cut off, everything confirmed is there",
        topologies=TOPOLOGIES,
        steps=(_step("power cut everywhere", "all", 0.2), _step("power cut everywhere", "all")),
    ),
    Scenario(
        name="forgetful node in the first quorum",
        says="a node that lost its unsynced pages cannot help to forget what was confirmed",
        steps=(
            _step("power cut while the others are paused", "follower", 2.5),
            _step("power cut while the others are paused", "follower", 2.5),
        ),
    ),
    Scenario(
        name="leader paused",
        says="a leader that slept is deposed and its clients are fenced",
        topologies=TOPOLOGIES,
        steps=(_step("pause", "leader", 10.0), _step("pause", "leader", 3.0)),
    ),
    Scenario(
        name="leader stalls",
        says="half a second of silence makes nobody vote",
        elections_max=1,
        topologies=TOPOLOGIES,
        steps=(_step("pause", "leader", 0.5), _step("pause", "leader", 0.5)),
    ),
    Scenario(
        name="leader cut off",
        says="the minority's leader steps down, the majority elects",
        topologies=("three", "five", "witness", "sites", "learner"),
        steps=(_step("partition", "leader", 5.0), _step("partition", "leader", 2.0)),
    ),
    Scenario(
        name="one-way cut",
        says="a leader that is heard but hears nothing, or the other way round, does not hold up",
        topologies=("three", "five", "sites"),
        steps=(_step("one-way cut", "leader out", 5.0), _step("one-way cut", "leader in", 5.0)),
    ),
    Scenario(
        name="bridge",
        says="with a link cut in the middle, the cluster settles on a leader that reaches enough",
        topologies=("five", "three", "sites"),
        steps=(
            _step("partial partition", "leader", 6.0),
            _step("partial partition", "leader", 6.0),
        ),
    ),
    Scenario(
        name="flapping ring",
        says="every node sees another majority, and another one each second: safe, if slow",
        topologies=("five", "sites"),
        steps=(_step("ring partition", "all", 12.0),),
    ),
    Scenario(
        name="bad links",
        says="loss, doubles, disorder and packets that are half a minute late cost only time",
        topologies=TOPOLOGIES,
        steps=(
            _step("bad links", "all", 10.0, delay=0.05, loss=0.05, duplicate=0.05, late=0.003),
            _step("bad links", "all", 10.0, delay=0.2, loss=0.0, duplicate=0.0, late=0.0),
        ),
    ),
    Scenario(
        name="clocks",
        says="clocks that jump an hour and run a tenth wrong cost nothing",
        topologies=TOPOLOGIES,
        steps=(
            _step("clock jump", "leader", 2.0, by=3600.0),
            _step("clock skew", "leader", 3.0, rate=1.1),
            _step("clock jump", "follower", 2.0, by=-3600.0),
            _step("clock jump", "leader", 2.0, by=-3600.0),
            _step("clock skew", "follower", 3.0, rate=0.9),
        ),
    ),
    Scenario(
        name="sync fails",
        says="a node whose sync failed once claims nothing more and ends; the others go on",
        topologies=TOPOLOGIES,
        steps=(
            _step("fsync EIO", "leader"),
            _step("fsync EIO", "follower"),
            _step("write EIO", "leader"),
        ),
    ),
    Scenario(
        name="lying disk",
        says="a disk that said synced and was not: the node is mended by the others",
        topologies=("three", "five", "sites"),
        steps=(_step("lying disk", "follower", 2.0), _step("lying disk", "leader", 2.0)),
    ),
    Scenario(
        name="disk full",
        says="publishing stops before the disk is full, and goes on when there is room again",
        topologies=TOPOLOGIES,
        steps=(
            _step("disk full", "leader", 3.0, how="told in time"),
            _step("disk full", "follower", 3.0, how="told in time"),
            _step("disk full", "follower", how="at a write"),
            _step("disk full", "leader", how="at a write"),
        ),
    ),
    Scenario(
        name="rot in a segment",
        says="a flipped bit is found, fetched from a peer, never served",
        topologies=TOPOLOGIES,
        steps=(
            _step("bit flip", "follower", 0.0, part="body"),
            _step("bit flip", "leader", 0.0, part="body"),
            _step("bit flip", "follower", 0.0, part="header"),
        ),
    ),
    Scenario(
        name="rot at the edges",
        says="the last entry, the ballot and a checkpoint may rot, each on one node",
        topologies=("three", "five", "sites"),
        steps=(
            _step("crash and a bit flip at the log's end", "follower"),
            _step("bit flip in the ballot", "follower"),
            _step("bit flip in a checkpoint", "follower"),
            _step("crash and a bit flip at the log's end", "leader"),
        ),
    ),
    Scenario(
        name="rot on every node",
        says="no node is whole, together they are; all become whole",
        topologies=("three", "five", "sites"),
        steps=(_step("different damage on every node", "all", 0.0),),
    ),
    Scenario(
        name="log cut short",
        says="a node that lost the end of its log does not forget it in an election",
        topologies=("three", "five", "sites"),
        steps=(
            _step("log cut short", "follower", bytes=4096.0),
            _step("log cut short", "leader", bytes=1048576.0),
        ),
    ),
    Scenario(
        name="disk rolled back",
        says="a node with last week's disk is noticed",
        topologies=("three", "five", "sites"),
        steps=(_step("disk rolled back", "follower", 3.0), _step("disk rolled back", "leader")),
    ),
    Scenario(
        name="disk wiped",
        says="an empty node is taken in under a new identity and filled",
        topologies=("three", "five", "witness", "sites", "learner"),
        steps=(_step("wiped disk", "follower"), _step("wiped disk", "leader")),
    ),
    Scenario(
        name="members change",
        says="nodes are added and removed while others are cut off or die",
        topologies=("three", "five"),
        steps=(
            _step("add member", "newcomer"),
            _step("bad links", "all", 1.0, together=True, delay=0.05, loss=0.02),
            _step("add member", "newcomer"),
            _step("remove member", "follower"),
            _step("crash", "leader", 0.5, together=True),
            _step("add member", "newcomer"),
        ),
    ),
    Scenario(
        name="learner promoted",
        says="a learner becomes a voter, is removed, and comes back as a learner",
        topologies=("learner",),
        steps=(_step("promote learner", "learner"), _step("crash", "leader")),
    ),
    Scenario(
        name="slow disk",
        says="a disk a hundred times slower than it was delays, and does not stop, the cluster",
        topologies=TOPOLOGIES,
        steps=(
            _step("slow disk", "follower", 6.0, sync=0.5),
            _step("slow disk", "leader", 8.0, sync=0.5),
        ),
    ),
    Scenario(
        name="disk hangs",
        says="a disk that never answers stops its own node; a leader hands over",
        topologies=("three", "five", "sites", "learner"),
        steps=(_step("disk hangs", "follower", 5.0), _step("disk hangs", "leader", 7.0)),
    ),
    Scenario(
        name="one-sided reset",
        says="two never deliver at once where only followers see the leader's links closed",
        topologies=TOPOLOGIES,
        steps=(
            _step("one-sided reset", "leader", 1.0),
            _step("one-sided reset", "leader", 2.0),
            _step("one-sided reset", "leader", 3.0),
        ),
    ),
    Scenario(
        name="follower lags",
        says="a follower that was away for half a minute catches up under load",
        topologies=("three", "five"),
        steps=(_step("pause", "follower", 30.0), _step("crash", "follower", 10.0)),
    ),
    Scenario(
        name="consumer and leader die",
        says="what a dead consumer held comes to the others, flagged and in order",
        topologies=TOPOLOGIES,
        steps=(
            _step("consumer killed", "client", 0.5),
            _step("consumer and leader killed", "leader"),
            _step("consumer and leader killed", "leader"),
        ),
    ),
    Scenario(
        name="clients on the wrong side",
        says="a leader cut off from its peers confirms nothing to the clients that still reach it",
        topologies=("three", "five", "witness", "sites"),
        steps=(_step("partition", "leader", 4.0), _step("client cut off", "leader", 3.0)),
    ),
    Scenario(
        name="witness holds",
        says="one data node dies, then the other's disk: the witness's log feeds the survivor",
        topologies=("witness",),
        steps=(
            _step("crash", "follower", 2.0),
            _step("crash", "witness", 2.0),
            _step("data node lost after the other's crash", "follower", 2.0),
        ),
    ),
    Scenario(
        name="site lost",
        says="two of five nodes go with their site, the rest goes on",
        topologies=("sites",),
        steps=(_step("site lost", "site", 5.0), _step("site lost", "leader's site", 5.0)),
    ),
)

SCENARIOS: Final[dict[str, Scenario]] = {scenario.name: scenario for scenario in _ALL}


def named(name: str) -> Scenario:
    """
    The scenario of that name; `-` may stand for a space.

    Raises:
        ConfigError: There is none; the sentence lists all.
    """
    found = SCENARIOS.get(name.replace("-", " ")) or SCENARIOS.get(name)
    if found is None:
        raise ConfigError([f"scenario: {name!r} is none of: {', '.join(SCENARIOS)}"])
    return found
