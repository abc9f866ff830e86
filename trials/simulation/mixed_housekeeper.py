"""
The housekeeper of a simulated node, at work between any two steps of the writer.

On a real node both are threads. Here the writer's turn is one event, so nothing could come between
its steps: before each change that it makes on the disk the housekeeper may take turns, by chance.

Invariants:
    It takes no turn while the writer holds a lock that it would wait for.
    It takes no turn within a turn of its own.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode

WITHIN = "housekeeper at work within a write"
_CHANCE = 0.25
_TURNS_MAX = 3


class MixedHousekeeper:
    """Takes the turns of one process's housekeeper."""

    __slots__ = ("_chance", "_is_at_work", "_node", "is_writing")

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node
        self._chance = random.Random(f"{node.world.seed}:{node.name}:{node.life}:housekeeper")  # noqa: S311 - to be repeated from a seed
        self._is_at_work = False
        self.is_writing = False
        """The writer is in the middle of a turn."""
        node.journal.housekeeper.is_driven = True
        node.disk.before_step = self.step

    def step(self) -> None:
        """Take some turns or none: the writer is about to change something."""
        if not self.is_writing or self._is_at_work or self._chance.random() >= _CHANCE:
            return
        journal = self._node.journal
        housekeeper = journal.housekeeper
        locks = (housekeeper.directory_lock, housekeeper.log_lock)
        if any(lock.locked() for lock in locks) or journal.ballot_file.is_busy:
            return
        disk = self._node.disk
        before = disk.operations
        self._is_at_work = True
        try:
            for _ in range(self._chance.randrange(1, _TURNS_MAX + 1)):
                if not housekeeper.turn():
                    break
        finally:
            self._is_at_work = False
            self._node.world.faults[WITHIN] += disk.operations > before
