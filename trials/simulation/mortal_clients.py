"""
Clients of a simulated world whose messages expire: one producer, and consumers that are slow.

What expires is a dead letter by the log, and is received there: so nothing is lost for it.

Invariants (each violation is raised with its name):
    M6: nothing is delivered after its time, by the clock of whoever delivers it and by the time
    that the committed log has; no message is taken off its queue before it, or that has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.history import ViolationError, place_of
from trials.simulation.workload import Consumer, Producer

if TYPE_CHECKING:
    from trials.simulation.simulator import Simulation

MORTAL: Final = "messages expire"
EXPIRED: Final = "a message expired"
_QUEUE: Final = "mortal"
_LIVES_MS: Final = (0, 150, 600, 2_500)
_SIZE_MAX: Final = 150
_PAUSE_SECONDS: Final = 0.4
"""So long each may keep what it has: its window is small, and the others wait."""
_LATE_MS: Final = 20
"""A turn begins with a look at the clock, and takes no time in a simulated world."""


class MortalProducer(Producer):
    """Sends to one queue; most of its messages live for a while only."""

    def __init__(self, world: Simulation, name: str) -> None:
        count = max(120, world.plan.operations // 6)
        super().__init__(world, name, queues=[_QUEUE], count=count, is_numbered=True)
        world.history.expiry_checks.append(self._note_expired)

    def _make(self, number: int) -> tuple[str, bytes]:
        token = f"{self.name}.{number}"
        lives_ms = _LIVES_MS[self.chance.randrange(len(_LIVES_MS))]
        body = b"%b %b" % (token.encode(), b"x" * self.chance.randrange(_SIZE_MAX))
        self.world.history.send(token, _QUEUE, body)
        lines = [b"expiration:%d" % lives_ms] if lives_ms else []
        return token, self._numbered(number, f"/queue/{_QUEUE}", body, *lines)

    def _note_expired(self, queue: str, token: str) -> None:
        if queue == _QUEUE and token in self.world.history.sent:
            self.world.count(EXPIRED)


class MortalConsumer(Consumer):
    """One of two that take their time."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name, queue=_QUEUE, mode="client-individual", prefetch=4)
        self.death_chance = 0.1
        self.pause_seconds = _PAUSE_SECONDS

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Look with each delivery whether it was too late."""
        if command == b"MESSAGE":
            self._check_time(headers, at)
        super().frame(command, headers, body, at)

    def _check_time(self, headers: dict[bytes, bytes], at: float) -> None:
        place = place_of(headers[b"message-id"])
        expires_ms = self.world.checkers.log.expires.get(place, 0)
        if not expires_ms or self.pipe is None or "clock jump" in self.world.plan.kinds:
            return
        clock = self.pipe.node.clock
        ago_seconds = self.world.timeline.now - at
        sent_ms = clock.wall_microseconds() / 1000 - 1000 * ago_seconds
        if sent_ms > expires_ms + _LATE_MS:
            late_ms = sent_ms - expires_ms
            raise ViolationError("M6", f"{place} came to {self.name} {late_ms:.0f} ms too late")
