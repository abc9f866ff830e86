"""
All that a promotion shut out come back together, while the copy that went on is down.

Each of them was told, and ended. Then an init system starts them again, on the disks that they
have, and nobody is there who would tell them anew. They are a majority of the members that they
know, and must elect nobody: what they would confirm nobody would ever have. Later the copy is back,
and the operator empties them one by one. Counted when all that were told have been up together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

OUT_TOGETHER = "members that were shut out come back together"
_TOGETHER_SECONDS = 2.5
"""Several elections."""


def leave_one_behind(nemesis: Nemesis) -> bool:
    """Begin: one copy goes on, and at least two others must not."""
    fit = fit_followers(nemesis)
    if fit and len(nemesis.world.nodes) > 2:
        _OutTogether(nemesis, nemesis.chance.choice(fit)).begin()
    return False


class _OutTogether(Story):
    """A forced promotion after which the others come back twice: at once, and then as always."""

    def __init__(self, nemesis: Nemesis, copy: SimulatedNode) -> None:
        super().__init__(nemesis, copy)
        self.is_early = False
        self.is_over = False

    def bring_back(self, left: list[SimulatedNode]) -> None:
        """Let all of them hear of the promotion first."""
        if self.is_over:
            super().bring_back(left)
        elif not self.copy.is_listening:
            self._after(LOOK_SECONDS, self.bring_back, left)
        else:
            self.is_over = True
            if self.asleep is not None:
                left = [self.asleep, *(node for node in left if node is not self.asleep)]
                self.asleep.stop(power=False)
                self.asleep = None
            self._tell_next(left, list(left))

    def _tell_next(self, left: list[SimulatedNode], untold: list[SimulatedNode]) -> None:
        """Start one when the one before has ended: two could elect who knows of no promotion."""
        if any(node.is_alive for node in left) or (untold and not self.copy.is_listening):
            self._after(LOOK_SECONDS, self._tell_next, left, untold)
        elif untold:
            self.nemesis.revive(untold[0])
            self._after(LOOK_SECONDS, self._tell_next, left, untold[1:])
        else:
            self._start_together(left)

    def _start_together(self, left: list[SimulatedNode]) -> None:
        told = [node for node in left if node.is_ending]
        self.nemesis.kept_down.add(self.copy.name)
        self.copy.stop(power=self.chance.random() < 0.5)
        self.world.note("chaos", f"starts {len(told)} together that were shut out")
        for node in told:
            node.start()
        self._after(_TOGETHER_SECONDS, self._look_at, told, len(told) == len(left))

    def _look_at(self, told: list[SimulatedNode], is_all: bool) -> None:
        leading = [it.name for it in told if it.is_alive and it.driver.is_leader]
        if leading:
            raise ViolationError("A14", f"{leading[0]} leads, though it was shut out and told so")
        if is_all and len(told) > 1:
            self.world.count(OUT_TOGETHER)
        for node in told:
            node.is_ending = True  # Else only those are emptied that ended by themselves.
            node.stop(power=False)
        self.nemesis.kept_down.discard(self.copy.name)
        if not self.copy.is_alive:
            self.nemesis.revive(self.copy)
        self._after(LOOK_SECONDS, self.bring_back, told)


def _prepare(plan: Plan) -> None:
    alone_and_long(plan, OUT_TOGETHER)


TROUBLES = (
    RareTrouble(
        name=OUT_TOGETHER,
        act=leave_one_behind,
        chance=0.02,
        topologies=("three", "learner", "five"),
        prepare=_prepare,
    ),
)
