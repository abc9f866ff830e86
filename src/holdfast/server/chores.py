"""
Long work that clients left, done a slice in each turn: errands, and freeing what is gone.

Owned by the loop.
"""

from __future__ import annotations

from holdfast.broker.broker import Broker
from holdfast.server.containment import Containment
from holdfast.server.turn_budget import TurnBudget


class Chores:
    """Goes on with what nobody waits for in this turn."""

    __slots__ = ("_broker", "_budget", "_containment")

    def __init__(self, broker: Broker, containment: Containment, budget: TurnBudget) -> None:
        self._broker = broker
        self._containment = containment
        self._budget = budget

    def run_errands(self) -> None:
        """Go on with long work that clients left; one that breaks costs its own client."""
        self._budget.begin()
        errands = self._broker.errands
        errands.run(self._budget.is_spent)
        while errands.broken:
            self._containment.errand_broke(*errands.broken.pop())

    def let_go(self) -> None:
        """Free what is gone."""
        self._budget.begin()
        self._broker.let_go(self._budget.is_spent)
