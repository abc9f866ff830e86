"""
The main site is lost, and the learners of the far one become one cluster by one operator's act.

Each of them was cut off at a moment of its own, so they lag differently, and the furthest decides
(docs/decisions/0015). Processes die in the middle; the operator asks again. Later the main site
comes back, node by node, on its old disks: all of it is hostile then, and must be shut out.
Counted when at least two of the far site are voters of the new generation, and again when the whole
main site is back.

Until the promotion is done nobody of the main site comes back: the operator keeps to
docs/how-to/recover-a-lost-site.md here, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from trials.simulation.rare_trouble import RareTrouble
from trials.troubles.forced_promotions import (
    LOOK_SECONDS,
    Story,
    alone_and_long,
    fit_learners,
)

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

TOGETHER = "learners promoted together"
SITE_BACK = "old site back after learners were promoted together"
_AGAIN_SECONDS = 1.5
_FINISH_SECONDS_MAX = 15.0


def lose_the_main_site(nemesis: Nemesis) -> bool:
    """Begin, once: all learners are to go on."""
    if nemesis.finish_promotion is not None:
        return False
    far = fit_learners(nemesis)
    if len(far) > 1:
        Together(nemesis, far).begin()
    return False


class Together(Story):
    """One promotion of several, from the first cut to the last of the main site that is back."""

    def __init__(self, nemesis: Nemesis, far: list[SimulatedNode]) -> None:
        super().__init__(nemesis, far[0])
        self.far = far
        self.others = [node for node in self.world.nodes if node not in far]
        self.is_asked = self.is_finishing = False
        nemesis.finish_promotion = self._finish

    def begin(self) -> None:
        """Cut them off one after the other."""
        self.nemesis.promoting = self.copy
        share = self.chance.choice((0.6, 1.0))
        for node in self.far:
            if self.chance.random() < share:
                self._after(self.chance.uniform(0.0, 1.2), self._cut_off, node)
        for _ in range(self.chance.randrange(3)):
            self._after(self.chance.uniform(0.1, 1.0), self._hand_over)
        self._after(self.chance.uniform(0.3, 2.0), self.kill_the_others)

    def _cut_off(self, node: SimulatedNode) -> None:
        names = [other.name for other in self.others]
        self.world.network.cut_between([node.name], names)
        self.world.network.cut_between(names, [node.name])

    def _step(self, step: object, arguments: tuple[object, ...]) -> None:
        if self.nemesis.is_active or self.is_finishing:
            step(*arguments)  # type: ignore[operator]

    def promote(self) -> None:
        """Ask for it, until it is there."""
        if self.world.checkers.generations.ruling > self.generation:
            self._await_voters()
            return
        self._after(LOOK_SECONDS, self.promote)
        now = self.world.timeline.now
        if now > self.asked_at + _AGAIN_SECONDS and self.world.leader() is None:
            self._ask_furthest()

    def _ask_furthest(self) -> None:
        """Do what `holdfast cluster promote l m n --force` does, with those that answer."""
        running = [node for node in self.far if node.is_running]
        is_whole = len(running) == len(self.far) or self.chance.random() < 0.2
        ends = {node.name: node.driver.status().log_end for node in running}
        if len(running) < 2 or not is_whole or any(end.is_incomplete for end in ends.values()):
            return
        chief = max(running, key=lambda node: ends[node.name].position)
        self.asked_at = self.world.timeline.now
        try:
            chief.driver.promote_force(ends[node.name] for node in running if node is not chief)
        except HoldfastError as error:
            self.world.note("operator", f"is refused: {error}")
            return
        self.note_asked(running, chief)
        if self.chance.random() < 0.4:
            node = self.chance.choice([*running, chief, chief])
            self._after(self.chance.uniform(0.0, 0.05), self._crash, node, node.life)

    def note_asked(self, running: list[SimulatedNode], chief: SimulatedNode) -> None:
        """It was asked for: from now on these go on."""
        names = ", ".join(node.name for node in running)
        self.world.note("operator", f"forces {names} to go on together, {chief.name} first")
        self.world.checkers.terms_spent.forced_count += 1
        self.is_asked = True
        self.far = running  # Who was left out counts among the dead, and is emptied.
        self.copy = self.nemesis.promoting = chief
        chief.conductor.schedule()

    def _crash(self, node: SimulatedNode, life: int) -> None:  # type: ignore[override]
        if node.life == life:
            node.stop(power=self.chance.random() < 0.5)

    def _await_voters(self) -> None:
        """What comes back comes when the far site is a cluster; often one of it dies just then."""
        leader = self.world.leader()
        kinds = {}
        if leader in self.far:
            kinds = {view.name: view.kind for view in leader.driver.status().members}
        voters = [node for node in self.far if kinds.get(node.name) == "voter"]
        if leader is None or len(voters) < 2:
            self._after(LOOK_SECONDS, self._await_voters)
            return
        self.world.count(TOGETHER)
        if len(voters) > 2 and self.chance.random() < 0.5:
            self._after(self.chance.uniform(0.0, 0.3), self._crash, leader, leader.life)
        self._after(self.chance.uniform(0.2, 1.5), self.bring_back, self._shuffled())

    def bring_back(self, left: list[SimulatedNode]) -> None:
        """Let the main site come back, by whoever of the far one leads now."""
        leader = self.world.leader()
        if leader is not None and leader in self.far:
            self.copy = leader
        if not left and self.asleep is None:
            self.world.count(SITE_BACK)
        super().bring_back(left)

    def _finish(self) -> None:
        """The chaos is over: before all others come back, end what was asked for."""
        generations, world = self.world.checkers.generations, self.world
        # It may have been asked for twice, before the first time was seen to be done.
        asked = max((node.driver.generation for node in self.far if node.is_alive), default=0)
        is_done = generations.ruling > self.generation and generations.ruling >= asked
        if not self.is_asked or is_done:
            return
        self.is_finishing, self.generation = True, generations.ruling
        world.network.heal()
        for node in self.far:
            node.disk.limit(None)
            node.slowness = 1.0
            node.thaw_disk()
            node.resume()
        self.promote()
        end = world.timeline.now + _FINISH_SECONDS_MAX
        while generations.ruling == self.generation and world.timeline.now < end:
            for node in self.far:
                if not node.is_alive:
                    self.nemesis.revive(node)
            world.timeline.run(LOOK_SECONDS)
        self.is_finishing = False


def _with_a_far_site(plan: Plan) -> None:
    plan.topology = "far"
    alone_and_long(plan, TOGETHER)


TROUBLES = (
    RareTrouble(
        name=TOGETHER,
        act=lose_the_main_site,
        chance=0.25,
        topologies=("learner", "far"),
        prepare=_with_a_far_site,
    ),
)
