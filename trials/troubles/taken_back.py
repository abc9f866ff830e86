"""
A node is taken back to the version before while the level of the log's format is being raised.

All nodes begin as that version and are upgraded one after the other. When the last one is there the
leader asks for the new level; but the disks of all others hang, and before anything is committed
the last one is the old version again, without which nothing may be committed. It must not keep the
record that it cannot read, and so help to commit it: it hears what is asked for, and ends. Or the
leader dies, alone with what it asked for, and the way back is open: the old one goes on. Then it is
upgraded for good. Counted when it is taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.model.format_level import FIRST_LEVEL, NEWEST_LEVEL
from trials.simulation.history import ViolationError
from trials.simulation.levels import become, keeps_beyond
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from collections.abc import Callable

    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

TAKEN_BACK_LATE = "node taken back as a level is asked for"
_LOOK_SECONDS = 0.005
_UPGRADE_SECONDS = (0.1, 0.4)
"""Between two upgrades."""
_ASKED_LOOKS_MAX = 240
"""So often the operator looks whether the level is asked for."""
_HANGING_SECONDS = (0.3, 0.8)
_OLD_SECONDS = (0.8, 1.6)
"""For so long the node is the old version again."""


def upgrade(nemesis: Nemesis) -> bool:
    """Begin with the first node that does not lead."""
    world = nemesis.world
    leader = world.leader()
    is_fit = leader is not None and all(node.is_running for node in world.nodes)
    if world.levels.is_story_told or not is_fit or not world.plan.is_old_at_first:
        return False
    world.levels.is_story_told = True
    assert leader is not None
    others = [node for node in world.nodes if node is not leader]
    voters = {member.name for member in world.plan.members if member.is_voter}
    last = nemesis.chance.choice([node for node in others if node.name in voters])
    _Upgrade(nemesis, last).begin([leader, *(node for node in others if node is not last)])
    return False


class _Upgrade:
    """The upgrade of one cluster, whose last node is taken back at the worst time."""

    def __init__(self, nemesis: Nemesis, last: SimulatedNode) -> None:
        self.nemesis, self.world, self.chance = nemesis, nemesis.world, nemesis.chance
        self.last = last
        self.asking: SimulatedNode | None = None
        """The leader that asks for the new level."""
        self.asked_index = self.asked_term = 0

    def begin(self, left: list[SimulatedNode]) -> None:
        """Upgrade one of these, and so on; then the last one."""
        if left:
            become(left[0], NEWEST_LEVEL)
            self._after(self.chance.uniform(*_UPGRADE_SECONDS), self.begin, left[1:])
            return
        leader = self.world.leader()
        is_one_dead = any(not it.is_running for it in self.world.nodes)
        if leader is None or leader is self.last or is_one_dead:
            if leader is self.last:
                self._hand_over(leader)
            self._after(self.chance.uniform(*_UPGRADE_SECONDS), self.begin, [])
            return
        self.asking, self.asked_index = leader, leader.journal.last_index
        become(self.last, NEWEST_LEVEL)
        for node in self.world.nodes:
            if node is not leader:
                node.hang_disk()
        self._await_asked(_ASKED_LOOKS_MAX)

    def _after(self, seconds: float, step: Callable[..., None], *arguments: object) -> None:
        self.world.timeline.after(seconds, self._step, step, arguments)

    def _step(self, step: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if self.nemesis.is_active:
            step(*arguments)

    def _hand_over(self, leader: SimulatedNode) -> None:
        try:
            leader.driver.transfer(None)
        except HoldfastError as error:
            self.world.note("operator", f"is refused: {error}")
        else:
            leader.conductor.schedule()

    def _await_asked(self, left: int) -> None:
        leader = self.asking
        assert leader is not None
        if not left or not leader.is_listening or not self.last.is_running:
            self._thaw()
        elif not leader.conductor.format_gate.asked:
            self._after(_LOOK_SECONDS, self._await_asked, left - 1)
        else:
            self._take_back(leader)

    def _take_back(self, leader: SimulatedNode) -> None:
        self.asked_term = leader.driver.term
        self.last.stop(power=True)
        become(self.last, FIRST_LEVEL)
        self.world.count(TAKEN_BACK_LATE)
        if keeps_beyond(self.last, self.asked_index):
            self.asking = None  # It was being written as the power failed.
        if self.chance.random() < 0.3:
            self.asking = None
            leader.stop(power=True)
            self._thaw()
        else:
            self._after(self.chance.uniform(*_HANGING_SECONDS), self._thaw)
        self._watch(self.world.timeline.now + self.chance.uniform(*_OLD_SECONDS))

    def _thaw(self) -> None:
        for node in self.world.nodes:
            node.thaw_disk()

    def _watch(self, end: float) -> None:
        """Of who leads it hears what is asked for, before it stores that."""
        last, leader = self.last, self.world.leader()
        asking = self.asking
        is_over = asking is not None and asking.driver.term != self.asked_term
        if is_over or leader not in {None, asking}:
            # Whoever leads next cannot know of what its log has and was not committed.
            self.asking = None
        index = keeps_beyond(last, self.asked_index) if self.asking is not None else 0
        if index:
            raise ViolationError("F38", f"{last.name} keeps entry {index}, which it cannot read")
        if self.world.timeline.now < end:
            self._after(_LOOK_SECONDS, self._watch, end)
        else:
            become(last, NEWEST_LEVEL)


def _prepare(plan: Plan) -> None:
    plan.kinds = {TAKEN_BACK_LATE: 1}
    plan.victim = plan.ending = ""
    plan.is_old_at_first = True
    plan.is_one_misled = plan.is_one_left_dead = plan.is_disk_left_hanging = False
    plan.chaos_seconds = max(plan.chaos_seconds, 5.0)


TROUBLES = (
    RareTrouble(
        name=TAKEN_BACK_LATE,
        act=upgrade,
        chance=0.02,
        topologies=("three", "witness", "learner"),
        prepare=_prepare,
    ),
)
