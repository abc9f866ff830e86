"""
One copy is cut off or down, all the others die, and the operator forces it to go on alone.

It lacks what the others confirmed meanwhile: that is lost, and nothing else. Then everything that
the old generation had is hostile: its members come back on their old disks, one was only asleep,
its consumers acknowledge what is no longer there, its producers go on with numbers that do not fit.
Counted when the new generation has committed something and lacks what was committed before.

The operator keeps the rule of docs/how-to/recover-a-lost-site.md: of the others never so many come
back at once that they could go on without the copy, and clients reach none that could do so alone.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, MembershipError, StoreError
from holdfast.journal.kept_log import load_filling, take_back
from holdfast.replication.membership import Member, Membership
from trials.simulation.generations import LAGGED
from trials.simulation.history import ViolationError
from trials.simulation.late_consumer import LATE_QUEUE, LateConsumer
from trials.simulation.rare_trouble import RareTrouble
from trials.simulation.workload import Producer

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

RETURNED = "member of a former generation comes back"
AWAKE = "member of a former generation wakes"
CUT_SHORT = "forced promotion cut short"
DEPOSED = "leader left behind, to be forced to go on"
HALF_FILLED = "old log taken back from a half-filled one"
LOOK_SECONDS = 0.05
"""How often the operator of a story looks whether it may go on."""
_AGAIN_SECONDS = 0.6


def leave_one_behind(nemesis: Nemesis) -> bool:
    """Begin: choose the copy that is to go on, and let it lag."""
    world = nemesis.world
    leader = world.leader()
    fit = fit_copies(nemesis)
    if leader is None or not fit:
        return False
    views = leader.driver.status().members
    is_alone = sum(view.kind == "voter" for view in views) < 2
    if len(views) == 1 or (len(views) == 2 and not is_alone and world.seed % 2):
        _add_learner(nemesis, leader)
        return False
    kinds = {view.name: view.kind for view in views}
    learners = [it for it in fit if kinds.get(it.name) == "learner"]
    if learners and nemesis.chance.random() < 0.7:
        fit = learners
    others = [it for it in fit if it is not leader]
    if others and kinds[leader.name] == "voter" and nemesis.chance.random() < 0.25:
        # It goes on for a while, and what it gives out in vain comes to life in the end.
        world.count(DEPOSED)
        Story(nemesis, leader).begin()
    elif others:
        Story(nemesis, nemesis.chance.choice(others)).begin()
    return False


def fit_copies(nemesis: Nemesis) -> list[SimulatedNode]:
    """Whoever may go on alone, if everybody is there and nothing of the kind is under way."""
    world = nemesis.world
    leader = world.leader()
    if leader is None or nemesis.promoting or any(not it.is_running for it in world.nodes):
        return []
    _bring_clients(nemesis)
    kinds = {view.name: view.kind for view in leader.driver.status().members}
    if "fenced" in kinds.values():
        return []
    if len(kinds) == 1:
        return [leader]
    others = [it for it in world.nodes if it is not leader and kinds.get(it.name) in _FIT]
    return [it for it in others if it.driver.hello.cluster_id]  # Else it has nothing to go on with.


def fit_followers(nemesis: Nemesis) -> list[SimulatedNode]:
    """The same without the leader."""
    leader = nemesis.world.leader()
    return [node for node in fit_copies(nemesis) if node is not leader]


def fit_learners(nemesis: Nemesis) -> list[SimulatedNode]:
    """The same, learners only."""
    leader = nemesis.world.leader()
    if leader is None:
        return []
    kinds = {view.name: view.kind for view in leader.driver.status().members}
    return [node for node in fit_copies(nemesis) if kinds.get(node.name) == "learner"]


_FIT = frozenset({"voter", "learner"})


def _bring_clients(nemesis: Nemesis) -> None:
    """One producer and one consumer of a queue of their own, where words come late."""
    world = nemesis.world
    if any(isinstance(client, LateConsumer) for client in world.clients):
        return
    made = Producer(world, "p7", queues=[LATE_QUEUE], count=200, is_numbered=True)
    world.clients += [made, LateConsumer(world, "c7", queue=LATE_QUEUE)]


def _add_learner(nemesis: Nemesis, leader: SimulatedNode) -> None:
    world = nemesis.world
    name = "far"
    if name in world.network.nodes:
        return
    member = Member(name, f"{name}:1", "learner")
    views = leader.driver.status().members
    known = [Member(view.name, f"{view.name}:1", "voter") for view in views]
    try:
        leader.driver.add_member(member)
    except HoldfastError as error:
        world.note("operator", f"is refused: {error}")
        return
    leader.conductor.schedule()
    world.add_node(name, Membership((*known, member)), "").start()


class Story:
    """One forced promotion from the first cut to the last member that is back."""

    def __init__(self, nemesis: Nemesis, copy: SimulatedNode) -> None:
        self.nemesis = nemesis
        self.world = nemesis.world
        self.chance = nemesis.chance
        self.copy = copy
        self.others = [node for node in self.world.nodes if node is not copy]
        self.disks = {node.name: node.disk_number for node in self.others}
        self.generation = self.world.checkers.generations.ruling
        self.is_early = self.chance.random() < 0.3
        """One of the others is back while the promotion is under way."""
        self.asked_at = 0.0
        self.asleep: SimulatedNode | None = None

    def _after(self, seconds: float, step: object, *arguments: object) -> None:
        self.world.timeline.after(seconds, self._step, step, arguments)

    def _step(self, step: object, arguments: tuple[object, ...]) -> None:
        if self.nemesis.is_active:
            step(*arguments)  # type: ignore[operator]

    def begin(self) -> None:
        """Let the copy hear nothing more."""
        self.nemesis.promoting = self.copy
        names = [node.name for node in self.others]
        if self.chance.random() < 0.5:
            self.nemesis.kept_down.add(self.copy.name)
            self.copy.stop(power=self.chance.random() < 0.5)
        else:
            self.world.network.cut_between([self.copy.name], names)
            self.world.network.cut_between(names, [self.copy.name])
        self.world.note("chaos", f"leaves {self.copy.name} behind")
        for _ in range(self.chance.randrange(3)):
            self._after(self.chance.uniform(0.1, 1.0), self._hand_over)
        self._after(self.chance.uniform(0.1, 1.8), self.kill_the_others)

    def lose_disk(self, node: SimulatedNode) -> None:
        """One of the others begins anew on an empty disk."""
        node.stop(power=False)
        node.replace_disk()
        self.world.count("operator empties a disk")
        self.disks[node.name] = node.disk_number
        node.start()

    def is_further(self, node: SimulatedNode) -> bool:
        """Whether it knows something to be committed that the copy does not have."""
        return node.driver.commit_index > self.copy.journal.last_index

    def _hand_over(self) -> None:
        """The others hold elections that the copy hears nothing of."""
        leader = self.world.leader()
        if leader is None or leader is self.copy:
            return
        try:
            leader.driver.transfer(None)
        except HoldfastError as error:
            self.world.note("operator", f"is refused: {error}")
            return
        leader.conductor.schedule()

    def kill_the_others(self) -> None:
        """All others die, or one of them falls asleep."""
        nemesis, leader = self.nemesis, self.world.leader()
        nemesis.kept_down.update(node.name for node in self.others)
        if leader not in {None, self.copy} and self.world.plan.topology != "one":
            self.asleep = leader if self.chance.random() < 0.3 else None
        for node in self.others:
            if node is self.asleep:
                node.pause()
            else:
                node.stop(power=self.chance.random() < 0.5)
        self.world.network.heal()
        nemesis.kept_down.discard(self.copy.name)
        self._after(self.chance.uniform(0.6, 1.5), self.promote)

    def promote(self) -> None:
        """Ask for it, until it is there."""
        copy, world = self.copy, self.world
        if world.checkers.generations.ruling > self.generation:
            if self.chance.random() < 0.5:
                self._after(self.chance.uniform(0.3, 1.0), self._crash, copy.life)
            self._after(self.chance.uniform(0.2, 1.5), self.bring_back, self._shuffled())
            return
        leader = world.leader() or self._elected()
        if leader is not None and (leader is not copy or copy.driver.generation == self.generation):
            self._give_up()
            return
        self._after(LOOK_SECONDS, self.promote)
        if not copy.is_alive:
            self.nemesis.revive(copy)
        elif copy.is_running and world.timeline.now > self.asked_at + _AGAIN_SECONDS:
            self.asked_at = world.timeline.now
            if self.is_early:
                self._bring_one_early()
            else:
                self._ask()

    def _elected(self) -> SimulatedNode | None:
        """Whoever its status names as the leader, though it does not serve yet."""
        if self.copy.is_alive and self.copy.driver.generation > self.generation:
            return None  # It was asked: what is begun is brought to its end.
        awake = (it for it in self.others if it.is_running and not it.is_paused)
        return next((it for it in awake if it.driver.is_leader), None)

    def _give_up(self) -> None:
        """Somebody leads after all: nothing is to be forced, and what was begun is given up."""
        self.nemesis.kept_down.clear()
        self.nemesis.end_promotion()
        if self.asleep is not None:
            self.asleep.resume()

    def _bring_one_early(self) -> None:
        """Ask soon, while another one is just coming back."""
        self.is_early = False
        self.asked_at += self.chance.uniform(0.05, 0.2) - _AGAIN_SECONDS
        for node in self._shuffled()[:1] if len(self.others) > 1 else []:
            self._after(self.chance.uniform(0.0, 0.2), self._start, node)

    def _ask(self) -> None:
        copy = self.copy
        if copy.driver.status().incomplete:
            self._take_back()
            return
        try:
            copy.driver.promote_force()
        except HoldfastError as error:
            self.world.note("operator", f"is refused: {error}")
            return
        self.world.note("operator", f"forces {copy.name} to go on alone")
        self.world.checkers.terms_spent.forced_count += 1
        self.nemesis.forced = copy.name
        copy.conductor.schedule()
        if self.chance.random() < 0.3:
            self._after(self.chance.uniform(0.0, 0.02), self._cut_short, copy.life)

    def _take_back(self) -> None:
        """The log of the copy is a half: its old one is whole to where it ends, and takes over."""
        copy, world = self.copy, self.world
        with suppress(MembershipError):
            copy.driver.promote_force()
            raise ViolationError("A14", f"{copy.name} is promoted with the half of a log")
        filling = copy.journal.filling
        copy.stop(power=False)
        if filling is None or filling.kept is None:
            self._give_up()  # It was new: it has no older log, and the others have everything.
            return
        if load_filling(copy.journal.directory, copy.disk)[0] is None:
            copy.start()  # It died before the writer began: its log is the whole one still.
            return
        try:
            take_back(copy.journal.directory, copy.disk)
        except StoreError as error:
            raise ViolationError("A14", f"{copy.name}: {error}") from error
        except OSError as error:
            # Files that cannot be moved: they are freed, and the next start does what was begun.
            world.note("operator", f"is refused: {error}")
            copy.disk.refuse_rename.clear()
            copy.disk.refuse_unlink.clear()
        world.count(HALF_FILLED)
        world.checkers.rolled_back.add(copy.name)
        world.note("operator", f"takes the old log of {copy.name} back")
        copy.start()

    def _cut_short(self, life: int) -> None:
        if self.copy.life == life and self.world.checkers.generations.ruling == self.generation:
            self.world.count(CUT_SHORT)
            self.copy.stop(power=self.chance.random() < 0.5)

    def _crash(self, life: int) -> None:
        """Then what waits may have been delivered, as far as the next process knows."""
        if self.copy.life == life:
            self.copy.stop(power=self.chance.random() < 0.5)

    def _shuffled(self) -> list[SimulatedNode]:
        others = [node for node in self.others if not node.is_alive]
        self.chance.shuffle(others)
        return others

    def _start(self, node: SimulatedNode) -> None:
        self.nemesis.kept_down.discard(node.name)
        if not node.is_alive:
            self.nemesis.revive(node)

    def bring_back(self, left: list[SimulatedNode]) -> None:
        """Let the others come back, each when the one before was shut out and emptied."""
        if self.asleep is not None:
            left = [self.asleep, *left]
            self.asleep = None
        if not left:
            self.world.note("chaos", "has brought everybody back")
            self.nemesis.kept_down.clear()
            self.nemesis.promoting = None
            return
        node = left[0]
        if self.copy.is_listening:
            self._let_in(node)
            self._after(LOOK_SECONDS, self._await_fenced, left)
        else:
            self._after(LOOK_SECONDS, self.bring_back, left)

    def _let_in(self, node: SimulatedNode) -> None:
        if node.is_paused:
            self.world.count(AWAKE)
            node.resume()
        elif not node.is_alive:
            self.world.count(RETURNED)
            self.nemesis.revive(node)
        node.follow(self.copy)
        self.nemesis.kept_down.discard(node.name)

    def _await_fenced(self, left: list[SimulatedNode]) -> None:
        node = left[0]
        if node.disk_number == self.disks[node.name]:
            self._after(LOOK_SECONDS, self._await_fenced, left)
            return
        self._after(self.chance.uniform(0.0, 0.5), self.bring_back, left[1:])


def alone_and_long(plan: Plan, name: str) -> None:
    """Beside this only what costs nobody a disk, and time for two promotions."""
    kept = ("crash", "power cut in a write", "slow disk", "client cut off", "transfer", "disk full")
    plan.kinds = {name: 4} | {kind: 1 for kind in kept if kind in plan.kinds}
    plan.victim = plan.ending = ""
    plan.scrub_bytes_per_second = 1
    plan.is_one_left_dead = plan.is_disk_left_hanging = False
    plan.chaos_seconds = max(plan.chaos_seconds, 12.0)


def _prepare(plan: Plan) -> None:
    alone_and_long(plan, LAGGED)


TROUBLES = (RareTrouble(name=LAGGED, act=leave_one_behind, chance=0.05, prepare=_prepare),)
