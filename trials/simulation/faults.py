"""
What goes wrong in a simulated world, and when: all of it follows from the seed.

A `Plan` says which topology, settings and kinds of trouble a seed has. The `Nemesis` carries it
out: it hurts, supervises dead processes as an init system would, and acts as operator.

The budget: only one machine, the victim, ever loses or spoils what its disk had made durable; every
other disk may lose power, fail, fill up and be slow, but keeps what it synced. So at any time at
least one intact copy of everything committed remains, as the promise demands (f of 2f+1).
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.replication.membership import Member, Membership
from holdfast.replication.quorum import majority
from trials.simulation import damage, outages
from trials.simulation.generations import has_shut_out, newest_ballot
from trials.simulation.older_copy import is_recognisable
from trials.simulation.simulated_network import Trouble
from trials.troubles import RARE
from trials.troubles.init_systems import is_started_as_it_is

if TYPE_CHECKING:
    from trials.simulation.simulated_disk import SimulatedDisk
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

KiB = 1024


def _members(names: str, **kinds: str) -> tuple[Member, ...]:
    return tuple(
        Member(name, f"{name}:1", kinds.get(name, "voter"))  # type: ignore[arg-type]
        for name in names
    )


TOPOLOGIES: dict[str, tuple[Member, ...]] = {
    "three": _members("abc"),
    "one": (),
    "witness": _members("abw", w="witness"),
    "two": _members("ab"),
    "learner": _members("abcl", l="learner"),
    "far": (*_members("abc"), *_members("lmn", l="learner", m="learner", n="learner")),
    "five": (
        Member("a", "a:1", site="east"),
        Member("b", "b:1", site="east"),
        Member("c", "c:1", site="west"),
        Member("d", "d:1", site="west"),
        Member("w", "w:1", "witness", site="north"),
    ),
}
_COUNTED = frozenset({"voter", "witness"})
_EMPTIED_AFTER = frozenset({"StoreError", "LogDivergedError", "SegmentsMissingError"})
"""Ends after which the operator does as the error says: the node joins again with an empty disk."""
_TOPOLOGY_WEIGHTS = {"three": 60, "one": 6, "witness": 12, "two": 5, "learner": 8, "five": 9}

SAFE = {
    "crash": 6,
    "power cut": 5,
    "power cut in a write": 5,
    "power cut everywhere": 1,
    "pause": 4,
    "leader cut off, then paused": 3,
    "two leaders die with what only they have": 2,
    "partition": 5,
    "one-way cut": 4,
    "partial partition": 2,
    "bad links": 4,
    "heal network": 8,
    "client cut off": 2,
    "fsync EIO": 2,
    "write EIO": 1,
    "disk full": 2,
    "slow disk": 2,
    "clock skew": 2,
    "clock jump": 2,
    "transfer": 3,
    "loop stall": 3,
    "flapping link": 2,
    "majority ring": 4,
    "site lost": 5,
    "helix damage": 1,
}
"""Kinds that cost nobody what is durable, and how often they come."""
DESTRUCTIVE = {
    "bit flip": 2,
    "crash and a bit flip at the log's end": 1,
    "bit flip in the ballot": 1,
    damage.CHECKPOINT: 1,
    "misdirected write": 1,
    "unreadable sector": 1,
    "cut tail": 1,
    "lying disk": 2,
    "wiped disk": 2,
    "disk rolled back": 3,
}
LAST = ("same entry damaged everywhere", "two of three wiped")
"""What no promise covers: it comes last, after all was healed; see endings.py."""
UNDETECTED: tuple[str, ...] = ()
"""Kinds that the code does not yet withstand: no seed draws them, `focused` plans may name them."""
OPERATORS = {"add member": 3, "remove member": 3, "promote learner": 3, "forced promotion": 2}


@dataclass(slots=True, kw_only=True)
class Plan:
    """Everything that a seed decides before the run."""

    topology: str = "three"
    kinds: dict[str, int] = field(default_factory=dict)
    victim: str = ""
    """The machine whose disk may be spoilt; empty for none."""
    chaos_seconds: float = 3.0
    pause_seconds: tuple[float, float] = (0.02, 0.3)
    """Between two misfortunes."""
    sync_seconds: tuple[float, float] = (0.001, 0.02)
    """How long a write and its sync take on a disk that is not slow."""
    segment_bytes: int = 16 * KiB
    tail_cache_bytes: int = 1 << 20
    memory_bytes: int = 1 << 20
    producer_count_max: int = 200_000
    queue_count_max: int = 100_000
    connection_count_max: int = 10_000
    mark_step: int = 64
    slice_seconds: float = 0.003
    """Simulated clocks stand still in a turn: 0 leaves off at every opportunity."""
    step_count_max: int = 64
    seal_records_max: int = 5000
    window_bytes: int = 1 << 20
    append_bytes_max: int = 1 << 18
    copies: int = 0
    """0: as many as the members allow."""
    sites: int = 1
    late_seconds: float = 1.5
    scrub_bytes_per_second: int = 1
    """1 is as good as never."""
    beat_seconds: float = 0.05
    """Clients act on this common beat, so that batches are large; 0 if everybody acts alone."""
    turn_seconds: float = 0.01
    """How long a broker's loop waits at most for more to come before it turns."""
    operations: int = 1000
    ending: str = ""
    """What is lost after all was healed that no promise covers; see endings.py."""
    is_binary: bool = False
    """Bodies may hold any byte: clients read frames by their content-length."""
    piece_bytes: int = 0
    """Larger messages between nodes travel in pieces of this size; 0: none do."""
    is_housekeeping_mixed: bool = False
    """The housekeeper works between any two steps of the writer."""
    is_disk_left_hanging: bool = False
    """After the chaos the leader's disk hangs until everything is delivered."""
    is_one_misled: bool = False
    """One node is told other members than the others at first, see wrong_lists.py."""
    is_old_at_first: bool = False
    """All nodes begin as the version before, see taken_back.py."""
    is_mixed_at_first: bool = False
    """The nodes begin as several versions, see mixed_levels.py."""
    is_one_left_dead: bool = False
    """After the chaos only a majority is healed."""

    @property
    def members(self) -> tuple[Member, ...]:
        """Who is named on the command lines."""
        return TOPOLOGIES[self.topology]

    def __str__(self) -> str:
        names = ", ".join(self.kinds)
        return (
            f"{self.topology}, copies {self.copies}, sites {self.sites}, victim"
            f" {self.victim or 'none'}, {self.chaos_seconds:.1f} s of: {names or 'nothing'};"
            f" segments {self.segment_bytes}, tail cache {self.tail_cache_bytes},"
            f" memory {self.memory_bytes}, mark step {self.mark_step},"
            f" slices {self.slice_seconds} of {self.step_count_max}, late {self.late_seconds}"
        )


def plan(seed: int, *, topology: str = "") -> Plan:
    """Work out what a seed means."""
    chance = random.Random(f"{seed}:plan")  # noqa: S311 - to be repeated from a seed
    names = list(_TOPOLOGY_WEIGHTS)
    drawn = chance.choices(names, list(_TOPOLOGY_WEIGHTS.values()))[0]
    made = Plan(topology=topology or drawn)
    table = dict(SAFE)
    if made.topology in {"three", "five", "learner"}:
        table["helix damage"] = 1
    if made.topology != "five":
        del table["site lost"], table["majority ring"]
    if made.topology != "one":
        if chance.random() < 0.4:
            table |= DESTRUCTIVE
            if chance.random() < 0.5:
                table["wiped disk"] += 6
            data = [member.name for member in made.members if member.kind == "voter"]
            made.victim = chance.choice(data) if made.topology != "two" else ""
        if chance.random() < 0.4 or made.topology in {"learner", "two"}:
            table |= OPERATORS
    count = chance.randrange(2, 9)
    picked = set(chance.choices(list(table), list(table.values()), k=count))
    if made.topology == "two":
        picked |= {"crash", "forced promotion"}
    if picked & {"partition", "one-way cut", "partial partition", "bad links", "client cut off"}:
        picked.add("heal network")
    made.kinds = {kind: weight for kind, weight in table.items() if kind in picked}
    if not made.victim or not picked & set(DESTRUCTIVE):
        made.victim = ""
        made.kinds = {kind: it for kind, it in made.kinds.items() if kind not in DESTRUCTIVE}
    made.chaos_seconds = chance.uniform(1.2, 3.4)
    made.segment_bytes = chance.choice((8, 16, 32, 64, 64, 128)) * KiB
    made.tail_cache_bytes = chance.choice((0, 8 * KiB, 1 << 20, 1 << 20))
    made.memory_bytes = chance.choice((4 * KiB, 64 * KiB, 1 << 20))
    made.mark_step = chance.choice((4, 16, 64, 512))
    made.slice_seconds, made.step_count_max = chance.choice(((0.0, 1), (0.0, 64), (0.003, 64)))
    if chance.random() < 0.2:
        made.window_bytes = made.append_bytes_max = chance.choice((1, KiB))
    if chance.random() < 0.12 and "bad links" in picked:
        made.late_seconds = 30.0
    if made.topology == "five":
        made.sites = chance.choice((1, 2))
    if made.topology == "three" and not made.victim and chance.random() < 0.03:
        made.ending = chance.choice(LAST)
        made.kinds = {kind: it for kind, it in made.kinds.items() if kind not in OPERATORS}
    if made.victim or "helix damage" in picked:
        made.scrub_bytes_per_second = 64 * KiB
    made.beat_seconds = chance.choice((0.0, 0.04, 0.08, 0.08))
    made.turn_seconds = chance.choice((0.003, 0.01, 0.02))
    made.is_one_left_dead = chance.random() < 0.2 and made.topology in {"three", "five"}
    if damage.CHECKPOINT in made.kinds:
        made.segment_bytes = 8 * KiB  # One is written for each segment.
    for name, trouble in RARE.items():
        if trouble.is_drawn(seed, made):
            made.kinds[name] = trouble.weight
            trouble.prepare(made)
    return made


def focused(seed: int, kinds: Sequence[str], *, topology: str = "three") -> Plan:
    """The plan of a seed, with this trouble only and on this topology."""
    made = plan(seed, topology=topology)
    made.kinds = {kind: 1 for kind in kinds if kind not in LAST}
    made.ending = next((kind for kind in kinds if kind in LAST), "")
    spoiling = {*DESTRUCTIVE, *UNDETECTED, *(it.name for it in RARE.values() if it.needs_victim)}
    made.victim = "a" if set(kinds) & spoiling else ""
    is_scrubbed = made.victim or "helix damage" in kinds
    made.scrub_bytes_per_second = 64 * KiB if is_scrubbed else 1
    made.is_one_left_dead = False
    for kind in kinds:
        if kind in RARE:
            RARE[kind].prepare(made)
    return made


class Nemesis:
    """Carries out a plan."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.plan = world.plan
        self.chance = random.Random(f"{world.seed}:nemesis")  # noqa: S311 - to be repeated
        self.is_active = False
        self._restarts: set[str] = set()
        self._kinds = list(self.plan.kinds)
        self._weights = list(self.plan.kinds.values())
        self._added = 0
        self.forced = ""
        """Whom an operator last forced to go on alone."""
        self.promoting: SimulatedNode | None = None
        """A copy that is forced to go on alone, while that and what comes of it is under way."""
        self.finish_promotion: Callable[[], None] | None = None
        """Lets an operator end a promotion of several before anybody else comes back."""
        self._copy: tuple[SimulatedDisk, dict[Path, bytes]] | None = None
        self.awaits_checkpoint = False
        """A bit is to be flipped in the next one that the victim writes."""
        self.stalled_at = 0.0
        self.spoilt: set[int] = set()
        """Entries that helix damage has spoilt on one disk."""
        self.kept_down: set[str] = set()
        """Nodes of a lost site: nobody starts them yet."""
        self._doomed: SimulatedNode | None = None
        """The first of two leaders that are to die one after the other."""

    def start(self) -> None:
        """Begin the chaos."""
        self.is_active = True
        self._supervise()
        if self._kinds:
            self._plan_next()

    def stop(self) -> None:
        """End it; what is hurt stays so until it is healed."""
        self.is_active = False

    def _plan_next(self) -> None:
        self.world.timeline.after(self.chance.uniform(*self.plan.pause_seconds), self._strike)

    def _strike(self) -> None:
        if not self.is_active:
            return
        kind = self.chance.choices(self._kinds, self._weights)[0]
        act = RARE[kind].act if kind in RARE else self._ACTIONS[kind]
        if act(self):
            self.world.count(kind)
        self._plan_next()

    # The init system ------------------------------------------------------------------------------

    def _supervise(self) -> None:
        """Start dead processes again after a while."""
        if not self.is_active:
            return
        for node in self.world.nodes:
            if node.name in self.kept_down or node is self._doomed:
                continue
            if not node.is_alive and node.name not in self._restarts:
                self._restarts.add(node.name)
                self.world.timeline.after(self.chance.uniform(0.05, 1.0), self._restart, node)
        self.world.timeline.after(0.1, self._supervise)

    def _restart(self, node: SimulatedNode) -> None:
        self._restarts.discard(node.name)
        if self.is_active and not node.is_alive and node.name not in self.kept_down:
            self.revive(node)

    def revive(self, node: SimulatedNode) -> None:
        """Start a node again; one that was shut out gets an empty disk first."""
        if node.is_removed and node.is_ending:
            return
        is_useless = node.ended_by == "JournalFailedError" and node.disk.is_unreadable
        is_emptied = node.is_ending and not is_started_as_it_is(node)
        if is_useless or is_emptied or node.ended_by in _EMPTIED_AFTER:
            node.replace_disk()
            self.world.count("operator empties a disk")
        node.disk.limit(None)
        node.disk.is_limit_hidden = False
        node.disk.fail_next.clear()
        self.world.faults["restart"] += 1
        node.start()

    def empty_unmendable(self) -> bool:
        """Act as the operator who was told that a spoilt disk cannot be mended in place."""
        for node in self.world.nodes:
            if node.name in self.world.checkers.distrusted and node.journal.damage:
                node.stop(power=False)
                node.replace_disk()
                self.world.count("operator empties a disk")
                node.start()
                return True
        return False

    def empty_cut_short(self, leader: SimulatedNode) -> None:
        """Act as the operator of a promotion that was cut short, while those of before go on."""
        for node in self.world.nodes:
            is_newer = node.is_running and node.driver.generation > leader.driver.generation
            if is_newer and node.driver.status().is_cut_short:
                node.stop(power=False)
                node.replace_disk()
                self.world.count("operator empties a disk")
                node.start()

    # Processes ------------------------------------------------------------------------------------

    def _any(self, *, alive: bool = True) -> SimulatedNode | None:
        found = [node for node in self.world.nodes if node.is_alive is alive]
        return self.chance.choice(found) if found else None

    def _crash(self, *, power: bool = False) -> bool:
        node = self.leader_or_any()
        if node is None:
            return False
        node.stop(power=power)
        return True

    def leader_or_any(self) -> SimulatedNode | None:
        """The leader in half of all cases, else anybody alive."""
        leader = self.world.leader()
        if leader is not None and self.chance.random() < 0.5:
            return leader
        return self._any()

    def _cut_power(self) -> bool:
        return self._crash(power=True)

    def _cut_power_in_a_write(self) -> bool:
        node = self.leader_or_any()
        if node is None:
            return False
        node.disk.cut_at = node.disk.operations + self.chance.randrange(1, 8)
        return True

    def _cut_power_everywhere(self) -> bool:
        for node in self.world.nodes:
            node.stop(power=True)
        return True

    def _pause(self) -> bool:
        node = self.leader_or_any()
        if node is None or node.is_paused:
            return False
        node.pause()
        self.world.note(node.name, "is paused")
        self.world.timeline.after(self.chance.uniform(0.05, 1.5), self._resume, node, node.life)
        return True

    def _resume(self, node: SimulatedNode, life: int) -> None:
        if node.life == life:
            self.world.note(node.name, "goes on")
            node.resume()

    def _cut_and_pause(self) -> bool:
        """What a leader could not send any more waits while another one takes over."""
        leader = self.world.leader()
        others = [node.name for node in self.world.nodes if node is not leader]
        if leader is None or not others:
            return False
        self.world.note(leader.name, "is cut off, and soon paused")
        self.world.network.cut_between([leader.name], others)
        self.world.network.cut_between(others, [leader.name])
        pause = self.chance.uniform(0.01, 0.2)
        self.world.timeline.after(pause, self._pause_and_heal, leader, leader.life)
        return True

    def _pause_and_heal(self, node: SimulatedNode, life: int) -> None:
        if node.life == life and node.is_running:
            node.pause()
            self._heal_network()
            self.world.timeline.after(self.chance.uniform(0.8, 1.6), self._resume, node, life)

    def _kill_two_leaders(self) -> bool:
        """Raft's figure 8: one dies with entries that nobody else has, its successor too."""
        leader = self.world.leader()
        if leader is None or len(self.world.nodes) < 3 or self._doomed is not None:
            return False
        self._doomed = leader
        self._isolate_and_kill(leader, 0.06)
        return True

    def _isolate_and_kill(self, node: SimulatedNode, seconds: float) -> None:
        others = [other.name for other in self.world.nodes if other is not node]
        self.world.note(node.name, "is cut off, and soon dead")
        self.world.network.cut_between([node.name], others)
        self.world.network.cut_between(others, [node.name])
        self.world.timeline.after(seconds, self._kill_and_heal, node)

    def _kill_and_heal(self, node: SimulatedNode) -> None:
        if not self.is_active:
            return  # The chaos ended meanwhile, and nobody would start it again.
        node.stop(power=False)
        self.world.network.cut = {pair for pair in self.world.network.cut if node.name not in pair}
        first = self._doomed
        if first is not None and first is not node:
            self._doomed = None
            if not first.is_alive:
                self.revive(first)

    def elected(self, node: SimulatedNode) -> None:
        """Note that somebody leads; perhaps it must not do so for long."""
        if self._doomed is not None and self._doomed is not node and self.is_active:
            self._isolate_and_kill(node, 0.03)

    # The network ----------------------------------------------------------------------------------

    def _partition(self) -> bool:
        names = [node.name for node in self.world.nodes]
        if len(names) < 2:
            return False
        self.chance.shuffle(names)
        size = self.chance.randrange(1, len(names))
        one, other = names[:size], names[size:]
        self.world.note("network", f"parts {one} from {other}")
        self.world.network.cut_between(one, other)
        self.world.network.cut_between(other, one)
        return True

    def _cut_one_way(self) -> bool:
        names = [node.name for node in self.world.nodes]
        if len(names) < 2:
            return False
        one, other = self.chance.sample(names, 2)
        self.world.note("network", f"carries nothing from {one} to {other}")
        self.world.network.cut_between([one], [other])
        return True

    def _cut_partly(self) -> bool:
        names = [node.name for node in self.world.nodes]
        if len(names) < 3:
            return False
        one, other = self.chance.sample(names, 2)
        self.world.note("network", f"parts {one} from {other} only")
        self.world.network.cut_between([one], [other])
        self.world.network.cut_between([other], [one])
        return True

    def _spoil_links(self) -> bool:
        chance = self.chance
        network = self.world.network
        for source in self.world.nodes:
            for target in self.world.nodes:
                if source is not target and chance.random() < 0.7:
                    network.trouble[source.name, target.name] = Trouble(
                        delay_min=0.0002,
                        delay_max=chance.choice((0.002, 0.02, 0.1)),
                        loss=chance.choice((0.0, 0.05, 0.2)),
                        doubled=chance.choice((0.0, 0.05, 0.2)),
                        reordered=chance.choice((0.0, 0.1)),
                        late=chance.choice((0.0, 0.03, 0.1)),
                        late_seconds=self.plan.late_seconds,
                    )
        return True

    def _heal_network(self) -> bool:
        self.world.note("network", "is whole again")
        self.world.network.heal()
        self.world.client_cut.clear()
        return True

    def _cut_client(self) -> bool:
        clients = [client.name for client in self.world.clients]
        node = self.leader_or_any()
        if node is None:
            return False
        self.world.client_cut.add((self.chance.choice(clients), node.name))
        return True

    # Disks that fail and keep what they have ------------------------------------------------------

    def _fail_sync(self) -> bool:
        node = self.leader_or_any()
        if node is None:
            return False
        node.disk.fail_next["sync"] = errno.EIO
        self.world.note(node.name, "fails its next sync")
        return False  # Counted when it happens; so are the next two.

    def _fail_write(self) -> bool:
        node = self.leader_or_any()
        if node is None:
            return False
        node.disk.fail_next["write"] = errno.EIO
        return False

    def _fill_disk(self) -> bool:
        node = self.leader_or_any()
        if node is None:
            return False
        node.disk.limit(self.chance.choice((0, 8, 40, 100)) * KiB)
        self.world.note(node.name, "has hardly any room on its disk")
        self.world.timeline.after(self.chance.uniform(0.2, 1.5), node.disk.limit, None)
        return False

    def _slow_disk(self) -> bool:
        node = self._any()
        if node is None:
            return False
        node.slowness = self.chance.choice((1.0, 5.0, 30.0, 100.0))
        return node.slowness > 1.0

    # The victim's disk ----------------------------------------------------------------------------

    def victim(self) -> SimulatedNode | None:
        """The machine whose disk may be spoilt, if there is one and it holds anything."""
        node = self.world.network.nodes.get(self.plan.victim)
        if node is None or not node.disk.durable_paths():
            return None
        return node

    def _wipe(self) -> bool:
        """An empty disk, unless another one lost its end: one copy is promised to be spared."""
        node = self.victim()
        if node is None or not all(it.knows_its_end for it in self.world.nodes if it is not node):
            return False
        node.stop(power=True)
        node.replace_disk()
        self.world.note(node.name, "has an empty disk")
        return True

    def _roll_back(self) -> bool:
        """The whole disk, ballot and all, is replaced by an older copy; see older_copy.py."""
        node = self.victim()
        if node is None:
            return False
        if self._copy is None or self._copy[0] is not node.disk:
            self._copy = node.disk, node.disk.snapshot()
            return False
        _, copy = self._copy
        others = [other.disk.snapshot() for other in self.world.nodes if other is not node]
        voters = [member for member in self.plan.members if member.is_voter]
        if not is_recognisable(copy, others, len(voters)):
            return False
        self._copy = None
        node.stop(power=False)
        damage.distrust(self, node)
        node.disk.restore(copy)
        self.world.checkers.rolled_back.add(node.name)
        self.world.note(node.name, "has an older copy of its disk")
        return True

    # Clocks ---------------------------------------------------------------------------------------

    def _skew(self) -> bool:
        node = self.chance.choice(self.world.nodes)
        node.clock.run_at(self.chance.choice((0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1)))
        return True

    def _jump(self) -> bool:
        node = self.chance.choice(self.world.nodes)
        node.clock.wall_offset_seconds = self.chance.choice((-3600.0, -1.0, 0.0, 1.0, 3600.0))
        return True

    # Operators ------------------------------------------------------------------------------------

    def _transfer(self) -> bool:
        leader = self.world.leader()
        return leader is not None and self._ask(leader, lambda: leader.driver.transfer(None))

    def _ask(self, leader: SimulatedNode, request: Callable[[], object]) -> bool:
        try:
            request()
        except HoldfastError as error:
            self.world.note("operator", f"is refused: {error}")
            return False
        leader.conductor.schedule()
        return True

    def _add(self) -> bool:
        leader = self.world.leader()
        if leader is None or len(self.world.nodes) > 6 or self.plan.topology == "one":
            return False
        self._added += 1
        name = f"n{self._added}"
        kind = self.chance.choice(("voter", "voter", "learner"))
        site = self.chance.choice([node.site for node in self.world.nodes])
        member = Member(name, f"{name}:1", kind, site)  # type: ignore[arg-type]
        if not self._ask(leader, lambda: leader.driver.add_member(member)):
            return False
        self.world.note("operator", f"adds {name}")
        known = [
            Member(view.name, view.address, view.kind, view.site)  # type: ignore[arg-type]
            for view in leader.driver.status().members
            if view.name != name
        ]
        self.world.add_node(name, Membership((*known, member)), site).start()
        return True

    def _remove(self) -> bool:
        leader = self.world.leader()
        if leader is None:
            return False
        views = leader.driver.status().members
        voters = [view.name for view in views if view.kind == "voter"]
        others = [view.name for view in views if view.name != leader.name]
        # The victim's copy may be gone: who leaves must leave two whole ones behind.
        others = [name for name in others if name not in voters or len(voters) > 3]
        if self.plan.victim:
            others = [name for name in others if name == self.plan.victim]
        if not others:
            return False
        name = self.chance.choice(others)
        if not self._ask(leader, lambda: leader.driver.remove_member(name)):
            return False
        self.world.note("operator", f"removes {name}")
        return True

    def _promote(self) -> bool:
        leader = self.world.leader()
        if leader is None:
            return False
        views = leader.driver.status().members
        learners = [view.name for view in views if view.kind == "learner"]
        if not learners:
            return False
        name = self.chance.choice(learners)
        return self._ask(leader, lambda: leader.driver.promote(name))

    def _force(self) -> bool:
        """The survivor of a pair goes on alone; the other one is shut out."""
        alive = [node for node in self.world.nodes if node.is_running]
        dead = [node for node in self.world.nodes if not node.is_alive]
        if self.plan.topology != "two" or len(alive) != 1 or len(dead) != 1:
            return False
        if self.forced not in {"", alive[0].name}:
            return (
                False  # An operator must never force both: the one shut out has to come back empty.
            )
        if not self._ask(alive[0], alive[0].driver.promote_force):
            return False
        self.world.note("operator", f"forces {alive[0].name} to go on alone")
        self.forced = alive[0].name
        for other in self.world.nodes:
            if other is not alive[0]:
                other.bootstrap = alive[0].whom_to_join()  # Its list may be older than a member.
        return True

    def force_again(self) -> None:
        """Repeat a forced promotion that the survivor's death cut short; else it is refused."""
        node = self.world.network.nodes.get(self.forced)
        if node is not None and node.is_running and not node.driver.is_leader:
            self._ask(node, node.driver.promote_force)

    def end_promotion(self) -> None:
        """
        End a promotion that is under way when all come back: as begun, or not at all.

        What stands in the copy's ballot and has not become a generation is given up, with its disk:
        the others have all that it has. In a pair they have not, and where they could elect nobody
        without it, it would be of no use; there it is asked for again.
        """
        if self.finish_promotion is not None:
            self.finish_promotion()
        node, self.promoting = self.promoting, None
        ruling = self.world.checkers.generations.ruling
        if node is None:
            return
        is_known = node.driver.generation <= ruling or has_shut_out(self.world.nodes, ruling)
        if is_known or self._is_one_of_a_pair(node):
            if node.driver.generation:
                # Who is shut out and emptied for its sake is told whom to join.
                for other in self.world.nodes:
                    other.follow(node)
            return
        node.stop(power=False)
        node.disk.power_cut()
        ballot = newest_ballot(node)
        if ballot is not None and ballot.generation > ruling:
            node.replace_disk()
            self.world.count("operator empties a disk")

    def _is_one_of_a_pair(self, node: SimulatedNode) -> bool:
        """
        Whether the others, as far as they keep their disks, may be no majority of the members.

        Of those that are committed, and of those that one of them goes by: a change of members
        counts for whoever has it in its log.
        """
        members = self.world.checkers.log.membership
        if self.plan.topology == "two" or members is None:
            return True
        kept = [it for it in self.world.nodes if it is not node and not it.is_shut_out]
        disks = {(other.name, other.disk_number) for other in kept}
        owners = self.world.checkers.owners
        voters = [[member.node_id for member in members.voters]]
        voters += [
            [view.node_id for view in other.driver.status().members if view.kind in _COUNTED]
            for other in kept
        ]
        return any(
            sum(owners.get(node_id) in disks for node_id in ids) < majority(len(ids))
            for ids in voters
            if ids
        )

    _ACTIONS: dict[str, Callable[[Nemesis], bool]] = {  # noqa: RUF012 - a table
        "crash": _crash,
        "power cut": _cut_power,
        "power cut in a write": _cut_power_in_a_write,
        "power cut everywhere": _cut_power_everywhere,
        "pause": _pause,
        "leader cut off, then paused": _cut_and_pause,
        "two leaders die with what only they have": _kill_two_leaders,
        "partition": _partition,
        "one-way cut": _cut_one_way,
        "partial partition": _cut_partly,
        "bad links": _spoil_links,
        "heal network": _heal_network,
        "client cut off": _cut_client,
        "fsync EIO": _fail_sync,
        "write EIO": _fail_write,
        "disk full": _fill_disk,
        "slow disk": _slow_disk,
        "bit flip": damage.flip_in_segment,
        "crash and a bit flip at the log's end": damage.flip_at_the_end,
        "bit flip in the ballot": damage.flip_in_ballot,
        damage.CHECKPOINT: damage.flip_in_checkpoint,
        "misdirected write": damage.misdirect,
        "unreadable sector": damage.spoil_sector,
        "lying disk": damage.lie,
        "cut tail": damage.cut_tail,
        "helix damage": damage.helix,
        "loop stall": outages.stall,
        "majority ring": outages.ring,
        "flapping link": outages.flap,
        "site lost": outages.lose_site,
        "wiped disk": _wipe,
        "disk rolled back": _roll_back,
        "clock skew": _skew,
        "clock jump": _jump,
        "transfer": _transfer,
        "add member": _add,
        "remove member": _remove,
        "promote learner": _promote,
        "forced promotion": _force,
    }
