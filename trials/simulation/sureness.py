"""
Whether a node that calls its state sure has all that was committed before its process began.

Who its users are, and whether there are none, is believed of a state from then on. What the
checkers know to be committed as a process begins is what it must have applied before it says so.
Where a generation was forced since, another past counts: then nothing is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.history import ViolationError

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode

SURE: Final = "state called sure after a start"


class Sureness:
    """What one process must know before it is sure."""

    __slots__ = ("_committed", "_is_told", "_ruling")

    def __init__(self, node: SimulatedNode) -> None:
        """Note what is committed now, as the process begins."""
        checkers = node.world.checkers
        self._ruling = checkers.generations.ruling
        self._committed = checkers.commit_index
        self._is_told = False

    def check(self, node: SimulatedNode) -> None:
        """
        Look at a node after a turn.

        Raises:
            ViolationError: It is sure of a state that lacks something.
        """
        store, generations = node.store, node.world.checkers.generations
        if not store.is_sure or self._ruling != generations.ruling or generations.is_past(node):
            return
        if store.applied_index < self._committed:
            raise ViolationError(
                "S4",
                f"{node.name} is sure of its state through {store.applied_index}, and"
                f" {self._committed} was committed before it began",
            )
        if not self._is_told and self._committed:
            self._is_told = True
            node.world.faults[SURE] += 1
