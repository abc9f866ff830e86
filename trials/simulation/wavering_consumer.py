"""
A consumer of a simulated world that settles in transactions, and often changes its mind.

What it acknowledges in a transaction it commits, rolls back, or leaves behind as it dies; with its
subscription open, closed before the transaction ends, or closed and opened again. Late
acknowledgements go into transactions, too. Whatever it does not commit is its own again or comes
again, and what it was told is committed never does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.workload import Consumer, make_frame

if TYPE_CHECKING:
    from trials.simulation.simulator import Simulation

WAVERED: Final = "consumer withdraws acknowledgements"


class WaveringConsumer(Consumer):
    """Takes from the first queue, beside others."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name, queue="q1", mode="client-individual", prefetch=12)
        self._units = 0

    def connected(self) -> None:
        """Say in a transaction what was done on an earlier connection; then subscribe."""
        late, self.late = self.late, []
        super().connected()
        if late:
            unit, parts = self._begin()
            parts += [make_frame(b"ACK", b"id:" + message_id, unit) for message_id in late]
            self.send(b"".join([*parts, self._commit(unit, late)]))
            self.world.acts["acknowledged late"] += len(late)

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Take what comes; where a transaction is refused its own is not known: begin anew."""
        super().frame(command, headers, body, at)
        if command == b"ERROR":
            self.world.timeline.after(0.1, self.drop)

    def _begin(self) -> tuple[bytes, list[bytes]]:
        self._units += 1
        unit = b"transaction:%b.%d" % (self.name.encode(), self._units)
        return unit, [make_frame(b"BEGIN", unit)]

    def _commit(self, unit: bytes, message_ids: list[bytes]) -> bytes:
        for message_id in message_ids:
            self.world.history.settle(self.queue, message_id)
        self._receipts += 1
        receipt = b"%d" % self._receipts
        self.unsure[receipt] = message_ids
        return make_frame(b"COMMIT", unit, b"receipt:" + receipt)

    def _settle(self) -> None:
        if self.chance.random() < 0.3:
            super()._settle()
            return
        self._is_settling = False
        if not self.held or not self.is_connected:
            return
        self.world.history.operation_count += 1
        some = self.held[: self.chance.randrange(1, len(self.held) + 1)]
        unit, parts = self._begin()
        parts += [make_frame(b"ACK", b"id:" + each, unit) for _, each in some]
        how = self.chance.choice(("commit", "commit", "roll back", "leave", "leave first", "die"))
        if how in {"commit", "leave first"}:
            self.held = self.held[len(some) :]
        if how == "leave first":
            parts.append(make_frame(b"UNSUBSCRIBE", b"id:s"))
        if how in {"commit", "leave first"}:
            parts.append(self._commit(unit, [message_id for message_id, _ in some]))
        if how == "leave":
            parts.append(make_frame(b"UNSUBSCRIBE", b"id:s"))
        if how in {"roll back", "leave"}:
            parts.append(make_frame(b"ABORT", unit))
        self.send(b"".join(parts))
        if how != "commit":
            self.world.count(WAVERED)
        if how == "die":
            self.drop()
        elif how in {"leave", "leave first"}:
            self.held = []  # On a subscription that is over; it comes again.
            super().connected()
        elif self.held:
            self._is_settling = True
            self.world.timeline.after(self.soon(0.01), self._settle)
