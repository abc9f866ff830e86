"""
A consumer that finishes long after it was given its work, and says so when another node leads.

It acknowledges most of what it is given at once, keeps the newest for later, and acknowledges that
by message id on its next connection, several times, before it subscribes again: while new messages
wait that nobody has had. What it says of a message that a forced promotion gave up must settle
none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.history import place_of
from trials.simulation.workload import Consumer, make_frame

if TYPE_CHECKING:
    from trials.simulation.simulator import Simulation

LATE_QUEUE = "q7"
"""It has one of its own, which is there once somebody may be forced to go on."""
LATE = "acknowledgement of a message that was given up"
_KEPT_MAX = 40
_ROUNDS = 12
_ROUND_SECONDS = 0.1
_LOOK_SECONDS = 0.3


class LateConsumer(Consumer):
    """Consumes one queue alone, and settles what it had last when it is too late."""

    def __init__(self, world: Simulation, name: str, *, queue: str) -> None:
        super().__init__(world, name, queue=queue, mode="client-individual", prefetch=3 * _KEPT_MAX)
        self.kept: dict[bytes, bytes] = {}
        """Message id and ack id of what is done and not yet said."""
        self._rounds_left = 0
        self._generation = 0
        world.timeline.after(_LOOK_SECONDS, self._look)

    def connected(self) -> None:
        """Subscribe; in a new generation say first what was done in the one before."""
        ruling = self.world.checkers.generations.ruling
        if ruling == self._generation:
            super().connected()
            return
        self._generation = ruling
        self._rounds_left = _ROUNDS
        self._say()

    def disconnected(self) -> None:
        """The work is done all the same."""
        super().disconnected()
        self.late = []
        if self._rounds_left:
            self._rounds_left = 0
            self._generation = -1  # Not all was said: once more.

    def _say(self) -> None:
        """Acknowledge all that was kept, also what nobody here has heard of."""
        if not self._rounds_left or not self.is_connected:
            return
        self._rounds_left -= 1
        history = self.world.history
        lost = self.world.checkers.generations.lost
        parts = []
        for message_id in self.kept:
            history.settle(self.queue, message_id)
            if place_of(message_id) in lost:
                self.world.count(LATE)
            parts.append(make_frame(b"ACK", b"id:" + message_id))
        history.operation_count += len(parts)
        self.send(b"".join(parts))
        if self._rounds_left:
            self.world.timeline.after(_ROUND_SECONDS, self._say)
            return
        self.kept.clear()
        super().connected()

    def _look(self) -> None:
        """Once the chaos is over nothing is kept any more."""
        if self.kept and self.is_connected and not self._rounds_left:
            self._settle()
        self.world.timeline.after(_LOOK_SECONDS, self._look)

    def _settle(self) -> None:
        """Keep the newest, settle the rest; all of it once the chaos is over."""
        for message_id, acknowledgement in self.held:
            self.kept[message_id] = acknowledgement
        kept_max = _KEPT_MAX if self.world.nemesis.is_active else 0
        ready = list(self.kept.items())[: max(0, len(self.kept) - kept_max)]
        for message_id, _ in ready:
            del self.kept[message_id]
        self.held = ready
        super()._settle()
