"""
A cluster is upgraded to a newer level of the log's format node by node, and taken back, and forth.

Every node begins as one that knows the first level only. Now and then one is killed and started
again as the other version; one old one is always left, so that the level cannot be raised and any
node may be old again. After two thirds of the bad time the rest is upgraded, and the leader raises
the level under whatever else happens. All checkers look on: the same log must give the same state
on nodes of both kinds, and nothing of the new level may be in it while one of them is old.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from holdfast.model.format_level import FIRST_LEVEL, NEWEST_LEVEL
from trials.simulation.history import ViolationError

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

UPGRADED = "node upgraded"
TAKEN_BACK = "node taken back"
RAISED = "level of the log's format raised"

_STEP_SECONDS = 0.4
_AWAY_SECONDS = 0.05


def roll(world: Simulation) -> None:
    """Begin with old nodes, and let an operator upgrade them and change their mind."""
    for node in world.nodes:
        node.known_format_level = FIRST_LEVEL
    _Upgrade(world).begin()


class _Upgrade:
    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.chance = random.Random(f"{world.seed}:upgrade")  # noqa: S311 - to be repeated
        self.is_raised = False

    def begin(self) -> None:
        self.world.timeline.after(_STEP_SECONDS, self._step)

    def _step(self) -> None:
        self._look()
        world = self.world
        is_last_third = world.timeline.now > world.chaos_seconds * 2 / 3
        if not self.is_raised:
            if is_last_third or not world.nemesis.is_active:
                self._upgrade_one()
            else:
                self._change_one()
            world.timeline.after(_STEP_SECONDS, self._step)

    def _look(self) -> None:
        """Note that the level is raised; while one is old, it must not be."""
        nodes = self.world.nodes
        reached = any(it.is_alive and it.broker.state.format_level > FIRST_LEVEL for it in nodes)
        if reached and any(it.known_format_level == FIRST_LEVEL for it in nodes):
            raise ViolationError("F38", "the level was raised while a member did not know it")
        if reached and not self.is_raised:
            self.is_raised = True
            self.world.count(RAISED)

    def _upgrade_one(self) -> None:
        old = [it for it in self.world.nodes if it.known_format_level == FIRST_LEVEL]
        if old:
            self._restart(self.chance.choice(old), NEWEST_LEVEL)

    def _change_one(self) -> None:
        """Upgrade an old one, if another old one is left, or take a new one back."""
        nodes = self.world.nodes
        old = [it for it in nodes if it.known_format_level == FIRST_LEVEL]
        fit = [it for it in nodes if it.known_format_level > FIRST_LEVEL]
        if len(old) > 1:
            fit += old * 2
        if fit:
            node = self.chance.choice(fit)
            self._restart(node, FIRST_LEVEL if node not in old else NEWEST_LEVEL)

    def _restart(self, node: SimulatedNode, level: int) -> None:
        """Kill it and start it as the other version; one that is down is that when it rises."""
        if node.is_paused:
            return  # What it is it stays until it wakes.
        node.known_format_level = level
        self.world.count(UPGRADED if level == NEWEST_LEVEL else TAKEN_BACK)
        if node.is_running:
            node.stop(power=False)
            self.world.timeline.after(_AWAY_SECONDS, self._start, node)

    def _start(self, node: SimulatedNode) -> None:
        if not node.is_alive:
            node.start()
