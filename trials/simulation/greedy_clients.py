"""
Clients of a simulated world that take all there is of something: queues, or connections.

What they get is theirs, and what is over a limit is refused: nobody else loses anything by it.

Invariants (each violation is raised with its name):
    Q1: no node has more queues or client connections than it may have.
    Q2: what was refused for want of room is not stored.
    Q3: no more than is set waits of what a client has sent and is not served, but for one piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import DestinationError
from trials.simulation.history import ViolationError
from trials.simulation.simulated_network import ClientPipe
from trials.simulation.workload import CONNECT, Client, Consumer, make_frame

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

QUEUES = "more queues wanted than there may be"
CONNECTIONS = "more connections wanted than there may be"
AHEAD = "client sends faster than it is served"
_PREFIX = "z"
_BURST = 4
_WANT_SECONDS = 0.1
_CROWD = 8
_CROWD_SECONDS = 0.1
_STAY_SECONDS = 0.6
_PIECE_BYTES = 16 * 1024
_PIECES = 40
_LOOK_SECONDS = 0.001
_LOOKS = 30
"""Until the broker has certainly turned."""


class QueueTaker(Client):
    """
    Sends to queues that are not there yet, and has each consumed that came to be.

    Only such a one: a consumer declares the queue that it asks for, and with those of queues that
    were refused, or that a forced promotion gave up, it would take the room of others.
    """

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name)
        self.made = 0
        self.unanswered: dict[int, str] = {}
        self.refused: set[str] = set()
        self.consumers: dict[str, Consumer] = {}
        """By the queue that each was called for."""
        self._look()

    def take(self) -> None:
        """Ask for some more queues."""
        self._check()
        if not self.is_connected:
            return
        history = self.world.history
        for _ in range(_BURST):
            self.made += 1
            token = f"{self.name}.{self.made}"
            queue, body = f"{_PREFIX}{self.made}", token.encode() + b" x"
            history.send(token, queue, body)
            history.unnumbered.add(token)
            self.unanswered[self.made] = token
            to = b"destination:/queue/" + queue.encode()
            receipt = b"receipt:%d" % self.made
            self.send(make_frame(b"SEND", to, b"persistent:true", receipt, body=body))

    def disconnected(self) -> None:
        """What was not answered may be there: that shows in the log."""
        self.unanswered.clear()

    def turned_back(self) -> None:
        """Nobody consumes a queue that the copy lacks, unless it comes to be again."""
        for consumer in self.consumers.values():
            consumer.end()
        gone = set(self.consumers.values())
        self.world.clients = [it for it in self.world.clients if it not in gone]
        self.consumers.clear()

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
        elif code == DestinationError.code:
            self.world.count(QUEUES)
            self.refused.add(token)
        else:
            self.world.count_refusal(code)

    def _look(self) -> None:
        """Call a consumer for each queue of ours that is committed."""
        for queue in self.world.checkers.log.names.values():
            if queue.startswith(_PREFIX) and queue not in self.consumers:
                name = f"{self.name}c{queue.removeprefix(_PREFIX)}"
                made = Consumer(self.world, name, queue=queue, mode="auto")
                self.consumers[queue] = made
                self.world.clients.append(made)
        self.world.timeline.after(_WANT_SECONDS, self._look)

    def _check(self) -> None:
        for token in self.refused:
            if self.world.checkers.log.is_committed(token):
                raise ViolationError("Q2", f"{token} was refused and is stored")
        count_max = self.world.broker_settings.queue_count_max
        for node in self.world.nodes:
            if node.is_built and node.broker.destinations.queue_count > count_max:
                raise ViolationError("Q1", f"{node.name} has more than {count_max} queues")


class Hasty(Client):
    """Sends far more at once than may wait for the loop; nobody is there for it."""

    def hurry_on(self) -> None:
        """Send it, and look how much of it waits."""
        pipe = self.pipe
        if pipe is None or not self.is_connected:
            return
        frame = make_frame(b"SEND", b"destination:/topic/nobody", body=b"x" * _PIECE_BYTES)
        for _ in range(_PIECES):
            self.send(frame)
        self._look(pipe, _LOOKS, is_counted=False)

    def _look(self, pipe: ClientPipe, left: int, *, is_counted: bool) -> None:
        connection, settings = pipe.connection, self.world.server_settings
        if connection.incoming_bytes > settings.incoming_bytes_max + 2 * _PIECE_BYTES:
            raise ViolationError(
                "Q3", f"{connection.incoming_bytes} bytes of {self.name} wait on {pipe.node.name}"
            )
        if connection.is_paused and not is_counted:
            self.world.count(AHEAD)
            is_counted = True
        if left and pipe.is_open:
            self.world.timeline.after(
                _LOOK_SECONDS, lambda: self._look(pipe, left - 1, is_counted=is_counted)
            )


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
        admission = node.conductor.clients.admission
        before = admission.turned_away
        for _ in range(_CROWD):
            ClientPipe(self.world, node, self)
        if len(admission) > admission.count_max:
            raise ViolationError("Q1", f"{node.name} has {len(admission)} client connections")
        if admission.turned_away > before:
            self.world.faults[CONNECTIONS] += 1
