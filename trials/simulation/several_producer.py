"""
A producer of a simulated world that sends each message to several queues with one SEND.

What it is told and what its consumers get is judged as of any other producer; the committed log is
held to what one SEND promises: on all of its queues, or nowhere.

Invariants (each violation is raised with its name):
    S14: all that one SEND sent to several queues stands in one entry (see `committed_log`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.workload import Producer

if TYPE_CHECKING:
    from trials.simulation.simulator import Simulation

SEVERAL: Final = "producer sends to several queues at once"
_QUEUES: Final = ("q1", "q2", "q4")
_SIZE_MAX: Final = 150


class SeveralProducer(Producer):
    """Sends to two or three queues, in any order, as any of their names may be written."""

    def __init__(self, world: Simulation, name: str) -> None:
        count = max(40, world.plan.operations // 8)
        super().__init__(world, name, queues=[*_QUEUES], count=count, is_numbered=True)

    def _make(self, number: int) -> tuple[str, bytes]:
        self.world.count(SEVERAL)
        token = f"{self.name}.{number}"
        first, *others = self.chance.sample(_QUEUES, self.chance.choice((2, 2, 3)))
        body = b"%b %b" % (token.encode(), b"x" * self.chance.randrange(_SIZE_MAX))
        self.world.history.send(token, first, body, others=tuple(others))
        written = f"/queue/{first}," + ", ".join(f"queue://{each}" for each in others)
        return token, self._numbered(number, written, body)
