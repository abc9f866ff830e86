"""
Clients of a simulated world that subscribe by wildcards, to queues of which new ones come.

Nobody else consumes these queues, so what no wildcard subscription joins never arrives. One of the
consumers acknowledges cumulatively: one word of its counts over all of its queues, in the order in
which they gave. What each is told and gets is judged as of any other.

Invariants (each violation is raised with its name):
    Q58: nobody has more in delivery than its prefetch, from all queues together, nor of a queue
    that its wildcard does not mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.history import ViolationError
from trials.simulation.workload import Consumer, Producer, make_frame

if TYPE_CHECKING:
    from trials.simulation.simulator import Simulation

WILD: Final = "consumers subscribe by wildcards"
JOINED: Final = "a wildcard consumer has of several queues at once"
_SIZE_MAX: Final = 150
_PREFETCH: Final = 6
_PAUSE_SECONDS: Final = 0.1
_NEW_EVERY: Final = 25
"""After so many messages there is one queue more."""
WANTED: Final = (
    ("client", b"/queue/wild.>", "wild."),
    ("client-individual", b"/queue/wild.*,/queue/wild.0", "wild."),
    ("client", b"/queue/wild.*.deep,/queue/wild.1", "wild."),
)
"""Mode, destination, and with what the names of its queues begin."""


class WildProducer(Producer):
    """Sends to some queues, and to more and more of them."""

    def __init__(self, world: Simulation, name: str) -> None:
        count = max(120, world.plan.operations // 6)
        super().__init__(world, name, queues=["wild.0"], count=count, is_numbered=True)

    def _make(self, number: int) -> tuple[str, bytes]:
        token = f"{self.name}.{number}"
        newest = number // _NEW_EVERY
        part = self.chance.choice((newest, self.chance.randrange(newest + 1)))
        queue = f"wild.{part}" + ".deep" * (part % 3 == 2)
        body = b"%b %b" % (token.encode(), b"x" * self.chance.randrange(_SIZE_MAX))
        self.world.history.send(token, queue, body)
        return token, self._numbered(number, f"/queue/{queue}", body)


class WildConsumer(Consumer):
    """Takes from all queues that its wildcard means."""

    def __init__(self, world: Simulation, name: str, number: int) -> None:
        mode, self._destination, self._begins = WANTED[number % len(WANTED)]
        super().__init__(world, name, queue="", mode=mode, prefetch=_PREFETCH)
        self.pause_seconds = _PAUSE_SECONDS
        self._queues: dict[bytes, str] = {}
        """By message id: of which queue it came."""

    def queue_of(self, message_id: bytes) -> str:
        """Give the queue of a message."""
        return self._queues[message_id]

    def subscription_frame(self) -> bytes:
        """Subscribe to all of them at once."""
        to = b"destination:" + self._destination
        window = b"activemq.prefetchSize:%d" % self.prefetch
        return make_frame(b"SUBSCRIBE", b"id:s", to, b"ack:" + self.mode.encode(), window)

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Look with each delivery whether it may be there."""
        if command == b"MESSAGE":
            queue = headers[b"destination"].decode().removeprefix("/queue/")
            if not queue.startswith(self._begins):
                raise ViolationError("Q58", f"{self.name} got of {queue}: {self._destination!r}")
            self._queues[headers[b"message-id"]] = queue
            if len(self.held) >= self.prefetch:
                raise ViolationError("Q58", f"{self.name} has more than {self.prefetch}")
            if len({self._queues[it] for it, _ in self.held} | {queue}) > 1:
                self.world.count(JOINED)
        super().frame(command, headers, body, at)
