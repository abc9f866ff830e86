"""
Clients of a simulated world whose queue keeps the newest so many: a producer that does not wait,
and consumers that are slow.

What is dropped is a dead letter by the log, and is received there: so nothing is lost for it.

Invariants (each violation is raised with its name):
    Q59: no entry of the log leaves more on the queue than may be, once its policy held and what
    the cleaner is about to write again aside; nothing is dropped that is not too much, that
    somebody has, or that is newer than what nobody has (as the leader has it).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.history import ViolationError
from trials.simulation.ruled_clients import keep_said
from trials.simulation.workload import Consumer, Producer

if TYPE_CHECKING:
    from holdfast.broker.serving.queue import Queue
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

RING: Final = "a queue keeps the newest"
DROPPED: Final = "a message is dropped for newer ones"
_QUEUE: Final = "ring"
_LENGTH: Final = 24
_PREFETCH: Final = 4
_POLICY: Final[dict[str, str | int | float]] = {
    "maxLength": _LENGTH,
    "overflow": "drop-head",
    "deadLetterOverflow": "true",
}
_PAUSE_SECONDS: Final = 0.4
"""So long each may keep what it has: the others wait, and are too many."""
_SIZE_MAX: Final = 150


class RingProducer(Producer):
    """Sends to one queue, of which a policy says how much may be there."""

    def __init__(self, world: Simulation, name: str) -> None:
        count = max(160, world.plan.operations // 4)
        super().__init__(world, name, queues=[_QUEUE], count=count, is_numbered=True)
        self._was_within = False
        """Whether the policy held, and no more was there than it says."""
        world.history.drop_checks.append(self._check_dropped)
        world.history.entry_checks.append(self._check_length)
        keep_said(world, _QUEUE, _POLICY, _is_ruled)

    def _make(self, number: int) -> tuple[str, bytes]:
        token = f"{self.name}.{number}"
        body = b"%b %b" % (token.encode(), b"x" * self.chance.randrange(_SIZE_MAX))
        self.world.history.send(token, _QUEUE, body)
        return token, self._numbered(number, f"/queue/{_QUEUE}", body)

    def _places(self) -> list[int]:
        """Give what the log leaves on the queue, in order."""
        log = self.world.checkers.log
        return sorted(it for number, it in log.live if log.names.get(number) == _QUEUE)

    def _check_dropped(self, queue: str, place: tuple[int, int], token: str) -> None:
        if queue != _QUEUE:
            raise ViolationError("Q59", f"{token} of {queue} was dropped: that has no limits")
        self.world.count(DROPPED)
        leader = self.world.leader()
        found = None if leader is None else _queue_of(leader)
        for each in () if found is None else found.subscriptions:
            if place[1] in each.unacknowledged:
                raise ViolationError("Q59", f"{token} was dropped, and {each.client!r} has it")

    def _check_length(self) -> None:
        leader = self.world.leader()
        if leader is None or not _is_ruled(leader):
            return
        places, queue = self._places(), _queue_of(leader)
        if len(places) <= _LENGTH:
            self._was_within = True
        elif self._was_within and queue is not None:
            closed = leader.broker.moving.closed_through
            is_closed = any(0 < queue.index.record_number(it) <= closed for it in places)
            if not is_closed:
                raise ViolationError("Q59", f"an entry leaves {len(places)} of {_LENGTH}")


class RingConsumer(Consumer):
    """One of two that take their time."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name, queue=_QUEUE, mode="client-individual", prefetch=_PREFETCH)
        self.death_chance = 0.1
        self.pause_seconds = _PAUSE_SECONDS


def _queue_of(node: SimulatedNode) -> Queue | None:
    return node.broker.destinations.leadership.by_name.get(_QUEUE)


def _is_ruled(node: SimulatedNode) -> bool:
    """Whether a node has the queue, and the policy for it."""
    queue = _queue_of(node)
    if queue is None:
        return False
    limits = node.broker.policies.of(queue).limits
    return limits is not None and limits.length == _LENGTH
