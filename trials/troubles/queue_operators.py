"""
Operators who purge and delete queues in the midst of everything.

They ask as an operator's request does: the leader, once no earlier one may still deliver. From the
answer on nothing of it may be delivered, by whoever leads; what came later stays; and a queue of
the same name that is made anew has nothing to do with the deleted one (F39).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import DestinationError
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis
    from trials.simulation.history import Removal
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

REMOVED = "operator purges or deletes queues"
PURGED = "queue purged"
DELETED = "queue deleted"
_QUEUES = ("q1", "q2", "q3", "q4")
"""Not those whose messages only the leader has: who counts these knows of no operators."""


class _Asked:
    """An operator who waits for the answer."""

    def __init__(self, world: Simulation, removal: Removal) -> None:
        self._world = world
        self._removal = removal
        self._asked_at = world.timeline.now

    def reply(self, receipt: bytes) -> None:
        """Note that it is done, unless a copy was forced to go on since it was asked."""
        del receipt
        if self._asked_at <= self._world.checkers.generations.began_at:
            return
        self._removal.confirmed_at = self._world.timeline.now
        self._world.count(REMOVED)
        self._world.count(DELETED if self._removal.through is None else PURGED)


def remove(nemesis: Nemesis) -> bool:
    """Purge a queue, or delete those that nobody consumes just now; counted when answered."""
    world = nemesis.world
    leader = world.leader()
    if leader is None or leader.conductor.context.is_lease_awaited:
        return False
    known = [name for name in _QUEUES if leader.broker.destinations.has_queue(name)]
    if not known:
        return False
    if nemesis.chance.random() < 0.4:
        _purge(world, leader, nemesis.chance.choice(known))
    else:
        for name in known:
            _delete(world, leader, name)
    leader.conductor.schedule()
    return False


def _purge(world: Simulation, leader: SimulatedNode, name: str) -> None:
    queue = leader.broker.queue(name)
    removal = world.history.remove(queue.number, queue.assigned_sequence - 1)
    leader.broker.purge(name, _Asked(world, removal), b"")


def _delete(world: Simulation, leader: SimulatedNode, name: str) -> None:
    queue = leader.broker.queue(name)
    if queue.subscriptions:
        return
    removal = world.history.remove(queue.number, None)
    try:
        leader.broker.delete(name, _Asked(world, removal), b"")
    except DestinationError as error:
        world.note("operator", f"is refused: {error}")


TROUBLES = (RareTrouble(name=REMOVED, act=remove, chance=0.02, weight=5),)
