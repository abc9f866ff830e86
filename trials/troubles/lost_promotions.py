"""
A copy is promoted by force, and loses power before that is on its disk: it never happened.

While its disk hangs the others come and go, one at a time, so that each of them meets the copy
that is to rule in memory only. If one of them were shut out for its sake, for good, then the copy
would come back without a word of it, and those who keep what it lacks would wait for a generation
that nobody knows. So they all come back, on the disks that they have, and go on as if nothing had
been asked for: nothing is given up. Counted when they do.

Where the power fails in the middle of that write it may be on the disk after all; then the copy
goes on as it was told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from trials.simulation.generations import newest_ballot
from trials.simulation.history import ViolationError
from trials.simulation.rare_trouble import RareTrouble
from trials.troubles.forced_promotions import (
    LOOK_SECONDS,
    Story,
    alone_and_long,
    fit_followers,
)

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

LOST_PROMOTION = "forced promotion lost with the power"
_VISIT_SECONDS = (0.1, 0.4)
"""How long each of the others runs beside the copy: links are made, and nobody else is there."""
_LEADER_SECONDS_MAX = 8.0
"""How long it may take all of them to elect somebody, while none of them is hurt anew."""


def leave_one_behind(nemesis: Nemesis) -> bool:
    """Begin: one copy is to go on, and comes to nothing."""
    fit = fit_followers(nemesis)
    if fit:
        _LostPromotion(nemesis, nemesis.chance.choice(fit)).begin()
    return False


class _LostPromotion(Story):
    """A forced promotion that only a memory has held."""

    def __init__(self, nemesis: Nemesis, copy: SimulatedNode) -> None:
        super().__init__(nemesis, copy)
        self.is_early = False
        self.is_tried = False

    def promote(self) -> None:
        """Ask for it once while the disk hangs; if it was kept all the same, until it is there."""
        copy = self.copy
        if self.is_tried:
            super().promote()
        elif self._elected() is not None:
            self._give_up()
        elif not copy.is_running or copy.driver.status().incomplete:
            self._give_up()  # What hurts it beside this has its own tests.
        else:
            self.is_tried = True
            copy.hang_disk()
            self._ask_in_vain()

    def _ask_in_vain(self) -> None:
        copy, world = self.copy, self.world
        try:
            copy.driver.promote_force()
        except HoldfastError as error:
            world.note("operator", f"is refused: {error}")
            copy.thaw_disk()
            self._give_up()
            return
        world.note("operator", f"forces {copy.name} to go on alone, and its disk hangs")
        world.checkers.terms_spent.forced_count += 1
        self.nemesis.forced = copy.name
        copy.conductor.schedule()
        self._after(self.chance.uniform(0.0, 0.1), self._visit, list(self.others), copy.life)

    def _visit(self, left: list[SimulatedNode], life: int) -> None:
        """Let one of the others run for a moment, then the next one; then the power fails."""
        if self.copy.life != life or not self.copy.is_alive:
            self._give_up()
        elif not left:
            self._lose_power()
        else:
            node = left[0]
            if node.is_paused:
                node.resume()
                self.asleep = None
            elif not node.is_alive:
                self.nemesis.revive(node)
            seconds = self.chance.uniform(*_VISIT_SECONDS)
            self._after(seconds, self._leave, left, life)

    def _leave(self, left: list[SimulatedNode], life: int) -> None:
        left[0].stop(power=self.chance.random() < 0.5)
        self._visit(left[1:], life)

    def _lose_power(self) -> None:
        copy, nemesis = self.copy, self.nemesis
        copy.stop(power=True)
        ballot = newest_ballot(copy)
        if ballot is not None and ballot.generation > self.generation:
            self._after(LOOK_SECONDS, self.promote)
            return
        nemesis.forced = ""
        nemesis.promoting = None
        nemesis.kept_down.clear()
        self.world.note("chaos", f"lets all come back: {copy.name} was promoted in memory only")
        for node in (copy, *self.others):
            if node.is_ending and not node.is_alive:
                node.start()  # On the disk that it has: a promotion that never was bars nobody.
            elif not node.is_alive:
                nemesis.revive(node)
        self._await_leader(self.world.timeline.now + _LEADER_SECONDS_MAX)

    def _await_leader(self, until: float) -> None:
        now = self.world.timeline.now
        if self.world.leader() is not None:
            self.world.count(LOST_PROMOTION)
            return
        nodes = (self.copy, *self.others)
        if any(not node.is_running or node.slowness > 1.0 or node.is_write_late for node in nodes):
            until = now + _LEADER_SECONDS_MAX
        if now >= until:
            raise ViolationError(
                "L1", f"nobody leads for the sake of a promotion of {self.copy.name} that was lost"
            )
        self._after(LOOK_SECONDS, self._await_leader, until)


def _prepare(plan: Plan) -> None:
    alone_and_long(plan, LOST_PROMOTION)


TROUBLES = (
    RareTrouble(
        name=LOST_PROMOTION,
        act=leave_one_behind,
        chance=0.02,
        topologies=("three", "two", "witness", "learner", "five"),
        prepare=_prepare,
    ),
)
