"""
Receipts for what only this node has in memory: messages for topics, and non-persistent ones.

Each is told once the deliveries that were in the line are out, and while no other leader may serve,
by the clock as it is then. A pause may lie between the reading of a message and this: what was
known when the turn began counts for nothing. Who waits here without that waits on, and is closed
with everybody else if the leadership ends.

Owned by the loop.
"""

from __future__ import annotations

from holdfast.broker.broker import Broker
from holdfast.environment.clock import Clock
from holdfast.server.containment import Containment
from holdfast.server.turn_budget import TurnBudget
from holdfast.store.contract import LogStore


class Confirming:
    """Tells publishers that their messages are out."""

    __slots__ = ("_broker", "_budget", "_clock", "_containment", "_store")

    def __init__(
        self,
        broker: Broker,
        store: LogStore,
        clock: Clock,
        containment: Containment,
        budget: TurnBudget,
    ) -> None:
        self._broker = broker
        self._store = store
        self._clock = clock
        self._containment = containment
        self._budget = budget

    def step(self) -> bool:
        """Tell those who can be told, as far as the time goes; false if it was over before."""
        now = self._clock.monotonic()
        if not self._store.holds_lease(now):
            return True
        publishing = self._broker.publishing
        count_max = self._broker.settings.step_count_max
        self._budget.begin(now)
        while some := publishing.take_receipts(count_max):
            self._broker.receipts.confirm(some, self._containment.broke)
            if self._budget.is_spent():
                return not publishing.receipts
        return True
