"""
Simulated scenarios of the promise table: one named kind of bad day each, over many seeds.

Most are the simulator's own kinds of trouble on a topology, drawn at random as always. Where a
fault needs things in an order that chance hardly finds (a forgetful node in the first quorum, a
site lost for good), a script adds it to a world; all checkers look on as in every run.

Invariants:
    A scenario whose trouble never happened, in no seed, is told as missing, not as survived.
    A script hurts no more than the budget of faults.py allows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from holdfast.errors import HoldfastError
from trials.promises.evidence import SimulatedRuns, stamp
from trials.simulation.committed_log import DEAD_LETTERS
from trials.simulation.faults import Plan, focused
from trials.simulation.history import ViolationError
from trials.simulation.simulated_node import SimulatedNode
from trials.simulation.simulator import Result, Simulation, quiet, simulate
from trials.simulation.workload import Consumer
from trials.troubles.rolling_upgrade import RAISED, TAKEN_BACK, UPGRADED, roll

Script = Callable[[Simulation], None]
Bend = Callable[[Plan], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One kind of bad day."""

    name: str
    kinds: tuple[str, ...] = ()
    topology: str = "three"
    bend: Bend | None = None
    """What must be otherwise than the seed says."""
    script: Script | None = None
    """What happens besides the kinds; called before the world's first moment."""
    shows: tuple[str, ...] = field(default=())
    """What must have happened at least once; empty for every kind."""

    @property
    def needed(self) -> tuple[str, ...]:
        """Trouble that must have happened in some seed."""
        return self.shows or tuple(kind for kind in self.kinds if kind != "heal network")


# What scripts are made of -------------------------------------------------------------------------


def _chance(world: Simulation) -> random.Random:
    return random.Random(f"{world.seed}:script")  # noqa: S311 - to be repeated from a seed


def _followers(world: Simulation) -> list[SimulatedNode]:
    leader = world.leader()
    return [node for node in world.nodes if node is not leader and node.is_running]


def _repeat(world: Simulation, seconds: float, action: Callable[[], bool], what: str) -> None:
    """Do it again and again while the chaos lasts, and count how often it could be done."""

    def again() -> None:
        if world.nemesis.is_active:
            if action():
                world.count(what)
            world.timeline.after(seconds, again)

    world.timeline.after(0.9, again)


def _pause(world: Simulation, node: SimulatedNode, seconds: float) -> None:
    life = node.life
    node.pause()
    world.timeline.after(seconds, lambda: node.resume() if node.life == life else None)


def _cut_off(world: Simulation, nodes: Iterable[SimulatedNode]) -> None:
    inside = [node.name for node in nodes]
    outside = [node.name for node in world.nodes if node.name not in inside]
    world.network.cut_between(inside, outside)
    world.network.cut_between(outside, inside)


def _must_confirm(world: Simulation, start: float, end: float) -> None:
    """Between these moments something must be confirmed: the service goes on in the trouble."""
    before = [0]

    def begin() -> None:
        before[0] = world.history.confirm_count

    def finish() -> None:
        if world.history.confirm_count <= before[0]:
            raise ViolationError("L2", f"nothing was confirmed between {start} and {end} s")

    world.timeline.after(start, begin)
    world.timeline.after(end, finish)


# Scripts ------------------------------------------------------------------------------------------


def _kill_all(world: Simulation) -> None:
    """SIGKILL of all nodes in one moment; they are started again one after the other."""

    def kill() -> bool:
        for node in world.nodes:
            node.stop(power=False)
        return True

    _repeat(world, 1.6, kill, "all processes killed")


def _stall(world: Simulation) -> None:
    """Half of the shortest election's time nothing runs on the leader; no election may follow."""

    def stall() -> bool:
        leader = world.leader()
        if leader is None or leader.is_paused:
            return False
        _pause(world, leader, world.replication_settings.election_seconds_min / 2)
        return True

    def check() -> None:
        if world.checkers.elections > 1:
            raise ViolationError("F8", f"{world.checkers.elections} elections by short stalls")

    _repeat(world, 0.7, stall, "loop stalls")
    world.timeline.after(0.5 + world.chaos_seconds, check)


def _forgetful_quorum(world: Simulation) -> None:
    """A follower loses power, everybody else who knows is paused, and it must elect with one."""

    def strike() -> bool:
        leader, others = world.leader(), _followers(world)
        if leader is None or len(others) < 2:
            return False
        forgetful = _chance(world).choice(others)
        forgetful.stop(power=True)
        _pause(world, leader, 1.3)
        world.nemesis.revive(forgetful)
        return True

    _repeat(world, 1.8, strike, "a forgetful node in the first quorum")


def _leader_alone(world: Simulation) -> None:
    """The leader sees nobody for longer than any election takes."""

    def cut() -> bool:
        leader = world.leader()
        if leader is None:
            return False
        _cut_off(world, [leader])
        world.timeline.after(1.3, world.network.heal)
        return True

    _repeat(world, 2.0, cut, "leader cut off")


def _ring(world: Simulation) -> None:
    """Everybody sees its two neighbours of a ring that is another one every moment."""
    chance = _chance(world)

    def turn() -> bool:
        world.network.heal()
        if chance.random() < 0.25:
            return False  # A quiet period.
        names = [node.name for node in world.nodes]
        chance.shuffle(names)
        for place, name in enumerate(names):
            near = {names[place - 1], names[(place + 1) % len(names)], name}
            world.network.cut_between([name], [other for other in names if other not in near])
        return True

    _repeat(world, 0.35, turn, "majority ring")


def _far_behind(world: Simulation) -> None:
    """One follower misses nearly everything, and then has to catch up."""

    def cut() -> None:
        followers = [node for node in _followers(world) if not node.driver.is_witness]
        if followers:
            _cut_off(world, followers[:1])
            world.count("follower far behind")

    world.timeline.after(0.9, cut)
    _must_confirm(world, 1.5, 0.5 + world.chaos_seconds)


def _stop_for_good(world: Simulation, names: str, at: float) -> None:
    """Machines that neither run nor are reached until all is healed."""

    def stop() -> None:
        lost = [node for node in world.nodes if node.name in names]
        _cut_off(world, lost)
        for node in lost:
            node.pause()
        world.count("site lost")

    world.timeline.after(at, stop)
    _must_confirm(world, at + 4.0, 0.5 + world.chaos_seconds)


def _lose_a_site(world: Simulation) -> None:
    """Two of five machines, all of one site."""
    _stop_for_good(world, _chance(world).choice(("ab", "cd")), 0.9)


def _lose_the_third_site(world: Simulation) -> None:
    """The witness' site and one more machine."""
    _stop_for_good(world, "w" + _chance(world).choice("abcd"), 0.9)


def _lose_the_data(world: Simulation) -> None:
    """Of two and a witness: one sleeps, the other's disk dies; the witness has what they shared."""

    def lose() -> None:
        leader = world.leader()
        others = [node for node in _followers(world) if not node.driver.is_witness]
        if leader is None or leader.driver.is_witness or not others:
            return
        sleeper = others[0]
        before = world.history.confirm_count
        sleeper.pause()
        world.timeline.after(1.6, spoil, leader, sleeper, before)

    def spoil(leader: SimulatedNode, sleeper: SimulatedNode, before: int) -> None:
        if leader.is_running and world.history.confirm_count > before:
            leader.stop(power=True)
            leader.replace_disk()
            world.count("the only whole data disk lost")
        sleeper.resume()

    world.timeline.after(0.9, lose)


def _kill_consumer_and_leader(world: Simulation) -> None:
    """A consumer that holds messages and the leader die in one moment."""
    struck_at = [0.0]

    def strike() -> bool:
        leader, now = world.leader(), world.timeline.now
        holding = [it for it in world.clients if isinstance(it, Consumer) and len(it.held) > 1]
        if leader is None or not holding or now < struck_at[0] + 1.2:
            return False
        struck_at[0] = now
        holding[0].drop()
        leader.stop(power=False)
        return True

    _repeat(world, 0.02, strike, "consumer and leader killed")


def _poison(world: Simulation) -> None:
    """Leaders die one after the other; no consumer rejects anything."""

    def keep_consumers_patient() -> None:
        for client in world.clients:
            if isinstance(client, Consumer):
                client.reject_chance = 0.0

    def strike() -> bool:
        leader = world.leader()
        if leader is None:
            return False
        leader.stop(power=False)
        return True

    def check() -> None:
        log = world.checkers.log
        dead = [place for place in log.tokens if log.names.get(place[0]) == DEAD_LETTERS]
        if dead or world.faults["client rejects a message"]:
            raise ViolationError("F40", f"{len(dead)} messages in {DEAD_LETTERS}, none rejected")

    world.timeline.after(0.01, keep_consumers_patient)
    _repeat(world, 1.2, strike, "leader killed")
    world.timeline.after(0.5 + world.chaos_seconds, check)


# Running ------------------------------------------------------------------------------------------


def run_seed(scenario: Scenario, seed: int) -> Result:
    """Live through one seed of a scenario; a broken promise is in the result, never raised."""
    made = focused(seed, scenario.kinds, topology=scenario.topology)
    if scenario.bend is not None:
        scenario.bend(made)
    if scenario.script is None:
        return simulate(seed, made)
    with quiet():
        world = Simulation(seed, made)
        violation = ""
        scenario.script(world)
        try:
            world.run()
        except ViolationError as error:
            violation = str(error)
        except (HoldfastError, AssertionError) as error:
            violation = f"broke: {type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - any mistake is a finding
            violation = f"broke: {type(error).__name__}: {error}"
        result = world.result()
        result.violation = violation
    return result


def run(scenario: Scenario, seeds: int, seeds_max: int = 0) -> SimulatedRuns:
    """Run a scenario over seeds from 1, and further ones while something never happened."""
    results: list[Result] = []
    faults = Counter[str]()
    while len(results) < seeds or (
        len(results) < seeds_max and not all(faults[kind] for kind in scenario.needed)
    ):
        results.append(run_seed(scenario, len(results) + 1))
        faults += results[-1].faults
    return SimulatedRuns(
        name=scenario.name,
        seeds=len(results),
        broken=tuple(f"{it.seed}: {it.violation}" for it in results if it.violation),
        missing=tuple(kind for kind in scenario.needed if not faults[kind]),
        confirms=sum(result.confirms for result in results),
        deliveries=sum(result.deliveries for result in results),
        duplicates=sum(result.duplicates for result in results),
        elections=sum(result.elections for result in results),
        seconds=round(sum(result.seconds for result in results), 1),
        faults={kind: count for kind, count in sorted(faults.items()) if count},
        stamp=stamp(),
    )


# The scenarios ------------------------------------------------------------------------------------


def _longer(seconds: float) -> Bend:
    def bend(made: Plan) -> None:
        made.chaos_seconds = seconds

    return bend


def _late(made: Plan) -> None:
    made.late_seconds = 30.0
    made.chaos_seconds = 36.0


def _small_segments(made: Plan) -> None:
    made.segment_bytes = 8 * 1024


def _over_sites(made: Plan) -> None:
    made.chaos_seconds = 8.0
    made.sites = 1


def _many_failovers(made: Plan) -> None:
    made.chaos_seconds = 32.0


_HEAL = "heal network"
_SCENARIOS = [
    Scenario(name="processes killed", kinds=("crash",)),
    Scenario(name="all processes killed", script=_kill_all, shows=("all processes killed",)),
    Scenario(
        name="a rolling upgrade, and back",
        kinds=("crash", "partition", _HEAL),
        script=roll,
        shows=(UPGRADED, TAKEN_BACK, RAISED),
        bend=_longer(8.0),
    ),
    Scenario(name="power cuts", kinds=("power cut", "power cut in a write")),
    Scenario(name="power cuts everywhere", kinds=("power cut everywhere", "power cut in a write")),
    Scenario(
        name="a forgetful node in the first quorum",
        script=_forgetful_quorum,
        shows=("a forgetful node in the first quorum",),
        bend=_longer(6.0),
    ),
    Scenario(name="processes paused", kinds=("pause", "leader cut off, then paused")),
    Scenario(name="short stalls of the leader", script=_stall, shows=("loop stalls",)),
    Scenario(
        name="leader cut off", script=_leader_alone, shows=("leader cut off",), bend=_longer(6.0)
    ),
    Scenario(name="partitions", kinds=("partition", _HEAL)),
    Scenario(name="one-way cuts", kinds=("one-way cut", _HEAL)),
    Scenario(
        name="partial partitions of five", kinds=("partial partition", _HEAL), topology="five"
    ),
    Scenario(
        name="a ring of five that flaps",
        script=_ring,
        topology="five",
        shows=("majority ring",),
        bend=_longer(6.0),
    ),
    Scenario(
        name="bad links",
        kinds=("bad links", _HEAL),
        shows=(
            "bad links",
            "message lost",
            "message doubled",
            "message reordered",
            "message 20 to 30 s late",
        ),
        bend=_late,
    ),
    Scenario(name="clocks", kinds=("clock skew", "clock jump", "crash")),
    Scenario(name="failing disks", kinds=("fsync EIO", "write EIO")),
    Scenario(name="full disks", kinds=("disk full",)),
    Scenario(name="rot in segments", kinds=("bit flip", "unreadable sector", "crash")),
    Scenario(
        name="rot in the ballot, the last entry and checkpoints",
        kinds=(
            "crash and a bit flip at the log's end",
            "bit flip in the ballot",
            "bit flip in a checkpoint",
        ),
    ),
    Scenario(name="different rot on every node", kinds=("helix damage",)),
    Scenario(name="the same rot on every node", kinds=("same entry damaged everywhere",)),
    Scenario(name="a log cut short", kinds=("cut tail", "crash")),
    Scenario(name="a disk rolled back", kinds=("disk rolled back", "crash", "partition", _HEAL)),
    Scenario(name="a lying disk", kinds=("lying disk", "power cut")),
    Scenario(name="two disks of three wiped", kinds=("two of three wiped",)),
    Scenario(name="misdirected writes", kinds=("misdirected write", "crash")),
    Scenario(name="a wiped disk", kinds=("wiped disk", "crash", "partition", _HEAL)),
    Scenario(
        name="members change in trouble",
        kinds=(
            "add member",
            "remove member",
            "promote learner",
            "crash",
            "power cut",
            "partition",
            "pause",
            _HEAL,
        ),
        topology="five",
        bend=_longer(8.0),
        shows=("add member", "remove member", "crash", "power cut", "partition", "pause"),
    ),
    Scenario(
        name="a learner becomes a voter in trouble",
        kinds=("promote learner", "crash", "partition", _HEAL),
        topology="learner",
    ),
    Scenario(name="slow disks", kinds=("slow disk", "transfer")),
    Scenario(
        name="a follower far behind",
        script=_far_behind,
        bend=_small_segments,
        shows=("follower far behind",),
    ),
    Scenario(
        name="killed in the middle of rolling, checkpointing and cleaning",
        kinds=("power cut in a write", "crash"),
        bend=_small_segments,
    ),
    Scenario(name="clients cut off", kinds=("client cut off", "crash", "pause", _HEAL)),
    Scenario(
        name="consumers and leaders die",
        kinds=("client cut off", _HEAL),
        script=_kill_consumer_and_leader,
        shows=("client cut off", "consumer and leader killed"),
        bend=_longer(6.0),
    ),
    Scenario(
        name="two and a witness",
        kinds=("crash", "power cut", "partition", _HEAL),
        topology="witness",
    ),
    Scenario(
        name="two and a witness, then a disk",
        topology="witness",
        script=_lose_the_data,
        shows=("the only whole data disk lost",),
    ),
    Scenario(
        name="a site lost",
        topology="five",
        script=_lose_a_site,
        shows=("site lost",),
        bend=_over_sites,
    ),
    Scenario(
        name="the witness' site and a machine lost",
        topology="five",
        script=_lose_the_third_site,
        shows=("site lost",),
        bend=_over_sites,
    ),
    Scenario(
        name="thirty seconds of dying leaders, nobody rejects",
        script=_poison,
        shows=("leader killed",),
        bend=_many_failovers,
    ),
]
SCENARIOS = {scenario.name: scenario for scenario in _SCENARIOS}


def run_named(order: tuple[str, int]) -> SimulatedRuns:
    """Run a scenario, named so that another process can be told, over its first seeds."""
    name, seeds = order
    return run(SCENARIOS[name], seeds, seeds + 20)
