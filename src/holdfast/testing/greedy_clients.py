"""
Clients of a simulated world that take all there is of something: queues, or connections.

What they get is theirs, and what is over a limit is refused: nobody else loses anything by it.

Invariants (each violation is raised with its name):
    Q1: no node has more queues or client connections than it may have.
    Q2: what was refused for want of room is not stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import DestinationError
from holdfast.testing.history import ViolationError
from holdfast.testing.simulated_network import ClientPipe
from holdfast.testing.workload import CONNECT, Client, Consumer, make_frame

if TYPE_CHECKING:
    from holdfast.testing.simulated_node import SimulatedNode
    from holdfast.testing.simulator import Simulation

QUEUES = "more queues wanted than there may be"
CONNECTIONS = "more connections wanted than there may be"
_BURST = 4
_CROWD = 8
_CROWD_SECONDS = 0.1
_STAY_SECONDS = 0.6


class QueueTaker(Client):
    """Sends to queues that are not there yet, and has each consumed that came to be."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name)
        self.made = 0
        self.unanswered: dict[int, str] = {}
        self.refused: set[str] = set()

    def take(self) -> None:
        """Ask for some more queues."""
        self._check()
        if not self.is_connected:
            return
        history = self.world.history
        for _ in range(_BURST):
            self.made += 1
            token = f"{self.name}.{self.made}"
            queue, body = f"z{self.made}", token.encode() + b" x"
            history.send(token, queue, body)
            history.unnumbered.add(token)
            self.unanswered[self.made] = token
            to = b"destination:/queue/" + queue.encode()
            receipt = b"receipt:%d" % self.made
            self.send(make_frame(b"SEND", to, b"persistent:true", receipt, body=body))

    def disconnected(self) -> None:
        """What was not answered may be there."""
        for number in self.unanswered:
            self._consume(number)
        self.unanswered.clear()

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Take a confirmation, or the word that there are too many."""
        number = int(headers.get(b"receipt-id", b"0"))
        token = self.unanswered.pop(number, "")
        if not token:
            return
        code = headers.get(b"code", b"").decode()
        if command == b"RECEIPT":
            self.check_term()
            self.world.history.confirm([token])
            self._consume(number)
        elif code == DestinationError.code:
            self.world.count(QUEUES)
            self.refused.add(token)
        else:
            self.world.count_refusal(code)

    def _consume(self, number: int) -> None:
        name = f"{self.name}c{number}"
        self.world.clients.append(Consumer(self.world, name, queue=f"z{number}", mode="auto"))

    def _check(self) -> None:
        for token in self.refused:
            if self.world.checkers.log.is_committed(token):
                raise ViolationError("Q2", f"{token} was refused and is stored")
        count_max = self.world.broker_settings.queue_count_max
        for node in self.world.nodes:
            if node.is_built and len(node.broker.state.by_name) > count_max:
                raise ViolationError("Q1", f"{node.name} has more than {count_max} queues")


class Crowd:
    """Connections to whoever serves: silent ones that come again and again, and some that speak."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.name = "crowd"
        self._speakers: list[ClientPipe] = []
        self._come()

    def received(self, pipe: ClientPipe, data: bytes, sent_at: float) -> None:
        """Whatever is said to it, it does not answer."""

    def lost(self, pipe: ClientPipe) -> None:
        """It comes again."""

    def speak(self) -> None:
        """Fill the port with connections that have said who they are; for a while."""
        leader = self.world.leader()
        if leader is None or self._speakers:
            return
        count = self.world.server_settings.connection_count_max
        self._speakers = [ClientPipe(self.world, leader, self) for _ in range(count)]
        for pipe in self._speakers:
            pipe.send(CONNECT)
        self.world.timeline.after(_STAY_SECONDS, self._leave)

    def _leave(self) -> None:
        speakers, self._speakers = self._speakers, []
        for pipe in speakers:
            pipe.drop()

    def _come(self) -> None:
        for node in self.world.nodes:
            if node.is_listening:
                self._crowd(node)
        self.world.timeline.after(_CROWD_SECONDS, self._come)

    def _crowd(self, node: SimulatedNode) -> None:
        admission = node.conductor.admission
        before = admission.turned_away
        for _ in range(_CROWD):
            ClientPipe(self.world, node, self)
        if len(admission) > admission.count_max:
            raise ViolationError("Q1", f"{node.name} has {len(admission)} client connections")
        if admission.turned_away > before:
            self.world.faults[CONNECTIONS] += 1
