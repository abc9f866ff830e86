"""
Clients of a simulated world who schedule messages: once, and a few times over.

What they send is judged as that of all others, and by `calendars`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.workload import Producer

if TYPE_CHECKING:
    from trials.simulation.simulator import Simulation

SCHEDULED: Final = "messages are scheduled"
QUEUE: Final = "timed"
_DELAY_MS_MAX: Final = 1_500
_PERIOD_MS: Final = (30, 400)
_REPEATS_MAX: Final = 4


class ScheduleProducer(Producer):
    """Sends to one queue what is due a little later."""

    def __init__(self, world: Simulation, name: str) -> None:
        count = max(60, world.plan.operations // 10)
        super().__init__(world, name, queues=[QUEUE], count=count, is_numbered=True)

    def _make(self, number: int) -> tuple[str, bytes]:
        chance, history = self.chance, self.world.history
        token = f"{self.name}.{number}"
        body = b"%b %b" % (token.encode(), b"x" * chance.randrange(150))
        history.send(token, QUEUE, body)
        lines = [b"AMQ_SCHEDULED_DELAY:%d" % chance.randrange(1, _DELAY_MS_MAX)]
        repeats = chance.randrange(_REPEATS_MAX + 1)
        if repeats:
            history.periods[token] = chance.randrange(*_PERIOD_MS)
            lines.append(b"AMQ_SCHEDULED_PERIOD:%d" % history.periods[token])
            lines.append(b"AMQ_SCHEDULED_REPEAT:%d" % repeats)
        return token, self._numbered(number, f"/queue/{QUEUE}", body, *lines)
