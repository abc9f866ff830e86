"""
A consumer of a simulated world that sends much of what it gets back to its queue, for a while.

It says so by NACK, at once or after a delay, and is told when the log has it. Whoever gets such a
message next, under whatever leader, is told how often it came back before.

Invariants (each violation is raised with its name):
    M5: a delivery that follows a confirmed return counts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.history import ViolationError
from trials.simulation.places import Places
from trials.simulation.workload import Consumer, make_frame

if TYPE_CHECKING:
    from trials.simulation.simulator import Simulation

RETURNED: Final = "consumer sends messages back"
RESTED: Final = "message sent back rests"
_DELAYS: Final = (0, 0, 20, 150, 600, 1_500)
"""In milliseconds: some are over before a failover is, some are not."""


class ReturningConsumer(Consumer):
    """Takes from one queue, beside others."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name, queue="q1", mode="client-individual", prefetch=10)
        self.death_chance = 0.1
        self._books = world.places or Places(world)
        world.places = self._books
        self._asked: dict[bytes, bytes] = {}
        """By receipt: message ids that were sent back."""
        self._counts: dict[bytes, int] = {}
        """Which delivery the next one of a message is at least."""
        self._told_at: dict[bytes, float] = {}

    def disconnected(self) -> None:
        """Whether what was not answered came back is not known."""
        super().disconnected()
        self._asked.clear()

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Hold the count of a delivery against what was confirmed; begin anew after an ERROR."""
        if command == b"MESSAGE":
            self._check_count(headers, at)
        super().frame(command, headers, body, at)
        if command == b"RECEIPT":
            message_id = self._asked.pop(headers[b"receipt-id"], None)
            if message_id is not None:
                self.world.count(RETURNED)
                self._counts[message_id] = self._books.attempts(message_id) + 1
                self._told_at[message_id] = self.world.timeline.now
        elif command == b"ERROR":
            self.world.timeline.after(0.1, self.drop)

    def turned_back(self) -> None:
        """What a copy that lags does not know of counts no more."""
        self._counts.clear()

    def _check_count(self, headers: dict[bytes, bytes], at: float) -> None:
        message_id = headers[b"message-id"]
        expected = self._counts.get(message_id, 0)
        if at <= self._told_at.get(message_id, at) or expected < 2:
            return
        count = int(headers.get(b"JMSXDeliveryCount", b"1"))
        if count < expected:
            token = self.world.history.delivered[message_id][2]
            raise ViolationError("M5", f"{token} comes as delivery {count}, and is {expected}")

    def _single(self, message_id: bytes, acknowledgement: bytes) -> bytes:
        if not self.world.nemesis.is_active or self.chance.random() < 0.4:
            return super()._single(message_id, acknowledgement)
        self.world.history.operation_count += 1
        self._receipts += 1
        receipt = b"%d" % self._receipts
        self._asked[receipt] = message_id
        delay = self.chance.choice(_DELAYS)
        lines = [b"id:" + acknowledgement, b"receipt:" + receipt, b"requeue:true"]
        if delay:
            self.world.count(RESTED)
            lines.append(b"delay:%d" % delay)
        return make_frame(b"NACK", *lines)
