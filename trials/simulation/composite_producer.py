"""
A producer of a simulated world that sends to a composite destination, which forwards by what its
messages say.

The list leads to another one, and to a queue by two ways. What the producer is told and what
consumers get is judged as of any other; the committed log is held to what the policies promise: on
all queues that are meant for a message, on no other, or nowhere.

Invariants (each violation is raised with its name):
    S14: all places of a message stand in one entry, and are those that the policies mean.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from trials.simulation.ruled_clients import keep_said
from trials.simulation.workload import Producer

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

COMPOSITE: Final = "producer sends to a composite destination"
_OUTER: Final = "everywhere"
_INNER: Final = "half"
_LISTS: Final = {
    _OUTER: "half, q1, topic://nobody, q4 when colour = 'red'",
    _INNER: "q1, q2 when colour <> 'blue'",
}
_MEANT: Final = {"red": ("q1", "q2", "q4"), "green": ("q1", "q2"), "blue": ("q1",)}
"""By colour: on which queues such a message is to be."""
_SIZE_MAX: Final = 150
_AGAIN_SECONDS: Final = 0.25


class CompositeProducer(Producer):
    """Sends to one destination, of all colours, once the policies hold."""

    def __init__(self, world: Simulation, name: str) -> None:
        count = max(40, world.plan.operations // 8)
        super().__init__(world, name, queues=[_OUTER], count=count, is_numbered=True)
        for queue, to in _LISTS.items():
            keep_said(world, queue, {"forwardTo": to}, partial(_is_ruled, queue=queue))

    def _produce(self) -> None:
        """Wait for the policies first: what is committed holds for every leader from then on."""
        leader = self.world.leader()
        if self.made or (leader is not None and all(_is_ruled(leader, it) for it in _LISTS)):
            super()._produce()
        elif not self.is_ended:
            self.world.timeline.after(_AGAIN_SECONDS, self._produce)

    def _make(self, number: int) -> tuple[str, bytes]:
        self.world.count(COMPOSITE)
        token = f"{self.name}.{number}"
        colour = self.chance.choice(list(_MEANT))
        first, *others = _MEANT[colour]
        body = b"%b %b" % (token.encode(), b"x" * self.chance.randrange(_SIZE_MAX))
        self.world.history.send(token, first, body, others=tuple(others))
        line = b"colour:" + colour.encode()
        return token, self._numbered(number, f"/queue/{_OUTER}", body, line)


def _is_ruled(node: SimulatedNode, queue: str) -> bool:
    """Whether its policy is committed, as this node knows."""
    records = node.broker.state.policies.by_key
    return any(key.pattern == f"queue://{queue}" for key in records)
