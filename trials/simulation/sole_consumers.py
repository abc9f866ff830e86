"""
Consumers of a simulated world of which only one gets messages at a time, for as long as it lives.

They come with one priority or another, hold some messages, die with them, and come again. Who was
there before them and claims nothing gets nothing meanwhile.

Invariants (each violation is raised with its name):
    M4: no two hold messages of the queue at once, but while nobody gets any (as the leader has it,
    which alone knows what it was told).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.broker.serving.router.router import Router
from trials.simulation.history import ViolationError
from trials.simulation.workload import Consumer, make_frame

if TYPE_CHECKING:
    from trials.simulation.simulator import Simulation

SOLE: Final = "consumers want to be the only one"
FOLLOWED: Final = "another one became the only consumer"
_QUEUE: Final = "q1"
_PRIORITIES: Final = (b"0", b"0", b"3", b"127")


class SoleConsumer(Consumer):
    """One of several that take from one queue, one at a time."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name, queue=_QUEUE, mode="client-individual", prefetch=12)
        self.death_chance = 0.15
        self._is_new = True

    def connected(self) -> None:
        """Subscribe, to be the only one."""
        super().connected()
        self._is_new = True
        self.send(
            make_frame(b"UNSUBSCRIBE", b"id:s")
            + make_frame(
                b"SUBSCRIBE",
                b"id:s",
                b"destination:/queue/" + self.queue.encode(),
                b"ack:" + self.mode.encode(),
                b"activemq.prefetchSize:%d" % self.prefetch,
                b"activemq.exclusive:true",
                b"activemq.priority:" + self.chance.choice(_PRIORITIES),
            )
        )

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Look with each delivery whether somebody else holds something, too."""
        if command == b"MESSAGE":
            if self._is_new:
                self._is_new = False
                self.world.count(FOLLOWED)
            self._check_hands()
        super().frame(command, headers, body, at)

    def _check_hands(self) -> None:
        for node in self.world.nodes:
            if not (node.is_running and node.conductor.is_serving):
                continue
            broker = node.conductor.broker
            queue = broker.destinations.leadership.by_name.get(self.queue)
            if queue is None or not isinstance(queue.choice, Router) or queue.choice.is_draining:
                continue
            asking = any(each.claim.is_exclusive for each in queue.subscriptions)
            holding = [
                each for each in queue.subscriptions if each.unacknowledged or each.reserved_count
            ]
            if asking and len(holding) > 1:
                names = ", ".join(f"{each.claim} {len(each.unacknowledged)}" for each in holding)
                raise ViolationError("M4", f"on {node.name} several hold messages: {names}")
