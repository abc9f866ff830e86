"""
Clients of a simulated world for what is kept in memory only: topics and non-persistent messages.

What a broker promises of them is less, and is held to all the same. A confirmed message on a topic
reaches every subscriber that was there and stays. A confirmed non-persistent message on a queue
arrives, unless the leadership that took it ends; one that comes twice says so.

Invariants (each violation is raised with its name):
    V1: a subscriber of a topic misses no confirmed message between two signs of a broker that knew
    that it led.
    V2: only the end of a leadership loses a confirmed non-persistent message.
    V3: a non-persistent message that comes again says so, and nobody invents one.
    V5: a message for a topic is confirmed when it has gone out to its subscribers, and not before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.broker.serving.topic import Spread
from trials.simulation.history import ViolationError
from trials.simulation.workload import Client, make_frame

if TYPE_CHECKING:
    from trials.simulation.simulated_network import ClientPipe
    from trials.simulation.simulator import Simulation

_SLACK_SECONDS = 1.0
"""
Between the confirmation and the delivery: a lease that is not certain delays the one. Counted
while the broker's process runs: one that slept may send a heart-beat before it learns that it was
deposed.
"""
_BURST_MAX = 12

Leadership = tuple[str, int, int]
"""Node, its process's number, term: while all three stay, its memory is there."""


@dataclass(slots=True)
class VolatileMessage:
    """One volatile message and what came of it."""

    sent_at: float
    leadership: Leadership
    confirmed_at: float = 0.0
    """0 as long as it is not."""
    slept: float = 0.0
    """For how long the broker's process had been stopped until then."""
    delivered: dict[bytes, bool] = field(default_factory=dict)


@dataclass(slots=True)
class _Presence:
    """
    One subscription of one subscriber, from its confirmation to the last sign of a broker that
    knew that it led.
    """

    leadership: Leadership
    since: float
    through: float
    slept: float = 0.0
    """For how long the broker's process had been stopped until its last sign."""
    received: set[str] = field(default_factory=set)


class VolatileLedger:
    """The books on volatile messages; the clients write, the checks read."""

    def __init__(self) -> None:
        self.topic: dict[str, VolatileMessage] = {}
        self.queue: dict[str, VolatileMessage] = {}
        self.presences: list[_Presence] = []
        self.delivery_count = 0

    def missing(self, leadership: Leadership) -> list[str]:
        """Which confirmed messages the present leader still owes (V2)."""
        return [
            token
            for token, note in self.queue.items()
            if note.confirmed_at and not note.delivered and note.leadership == leadership
        ]

    def check_topics(self) -> None:
        """V1: hold every presence against all that was confirmed while it lasted."""
        for presence in self.presences:
            for token, note in self.topic.items():
                if (
                    note.confirmed_at
                    and token not in presence.received
                    and note.leadership == presence.leadership
                    and presence.since < note.sent_at
                    and presence.through - presence.slept
                    > note.confirmed_at - note.slept + _SLACK_SECONDS
                ):
                    raise ViolationError("V1", f"{token} did not come to a subscriber of its topic")


class VolatileProducer(Client):
    """Sends to a topic, or non-persistent messages to a queue; nothing is sent again."""

    def __init__(self, world: Simulation, name: str, *, destination: str, count: int) -> None:
        super().__init__(world, name)
        self.to = b"destination:" + destination.encode()
        self.notes = world.volatile.topic if "/topic/" in destination else world.volatile.queue
        self.count = count
        self.made = 0
        self.leadership: Leadership = ("", 0, 0)
        self._interval = world.chaos_seconds / max(1, count / (_BURST_MAX / 2))
        world.timeline.after(self.chance.random() * 0.5, self._produce)

    def hurry(self) -> None:
        """Make what is left quickly."""
        self._interval = 0.05

    @property
    def is_waiting(self) -> bool:
        """Silence is only suspicious while not connected."""
        return not self.is_connected

    def connected(self) -> None:
        """Note to whom the messages go from now on."""
        assert self.pipe is not None
        self.leadership = (self.pipe.node.name, self.pipe.life, self.term)

    def _produce(self) -> None:
        if self.is_ended:
            return
        parts = []
        now = self.world.timeline.now
        burst = self.chance.randrange(1, _BURST_MAX)
        while self.is_connected and burst and self.made < self.count:
            burst -= 1
            self.made += 1
            token = f"{self.name}.{self.made}"
            self.notes[token] = VolatileMessage(now, self.leadership)
            receipt = b"receipt:%d" % self.made
            parts.append(make_frame(b"SEND", self.to, receipt, body=token.encode()))
        if parts:
            self.world.history.operation_count += len(parts)
            self.send(b"".join(parts))
        if self.made < self.count:
            pause = self._interval * (0.5 + self.chance.random())
            self.world.timeline.after(self.soon(pause), self._produce)

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Take a confirmation."""
        if command == b"RECEIPT":
            note = self.notes[f"{self.name}.{int(headers[b'receipt-id'])}"]
            assert self.pipe is not None
            note.confirmed_at = self.world.timeline.now
            note.slept = self.pipe.node.slept_seconds
            _check_is_out(self.pipe, f"{self.name}.{int(headers[b'receipt-id'])}")
        elif command == b"ERROR":
            self.world.count_refusal(headers.get(b"code", b"?").decode())


def _check_is_out(pipe: ClientPipe, token: str) -> None:
    """V5: it stands in no line of the process that confirmed it, if that lives."""
    if pipe.life != pipe.node.life:
        return
    publishing = pipe.node.broker.publishing
    spreads = [each for each in publishing.spreads if isinstance(each, Spread)]
    bodies: set[bytes | None] = {each.message.body for each in spreads}
    bodies |= {each.body for _, _, each, _, _ in publishing.deliveries if each is not None}
    if token.encode() in bodies:
        raise ViolationError("V5", f"{token} is confirmed and has not gone out")


class TopicSubscriber(Client):
    """Subscribes to a topic and notes how long it surely was there."""

    def __init__(self, world: Simulation, name: str, *, topic: str) -> None:
        super().__init__(world, name)
        self.topic = topic
        self.presence: _Presence | None = None

    def connected(self) -> None:
        """Subscribe; from the confirmation on it counts."""
        to = b"destination:" + self.topic.encode()
        self.world.history.operation_count += 1
        self.send(make_frame(b"SUBSCRIBE", b"id:s", to, b"ack:auto", b"receipt:here"))

    def disconnected(self) -> None:
        """What comes from now on is not for this one."""
        self.presence = None

    def received(self, pipe: ClientPipe, data: bytes, sent_at: float) -> None:
        """Take bytes: whatever was sent before them has arrived."""
        super().received(pipe, data, sent_at)
        node = pipe.node
        # Who cannot know that it leads delivers nothing, and may lose what it has when it learns.
        if self.presence is not None and node.driver.may_dispatch(node.clock.monotonic()):
            self.presence.through, self.presence.slept = sent_at, node.slept_seconds

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Take a message, or the confirmation of the subscription."""
        world = self.world
        if command == b"RECEIPT":
            assert self.pipe is not None
            leadership = (self.pipe.node.name, self.pipe.life, self.term)
            slept = self.pipe.node.slept_seconds
            self.presence = _Presence(leadership, world.timeline.now, at, slept)
            world.volatile.presences.append(self.presence)
        elif command == b"MESSAGE":
            token = body.decode()
            if token not in world.volatile.topic:
                raise ViolationError("V3", f"{self.name} got {token}, which nobody published")
            world.volatile.delivery_count += 1
            self.counts("topic delivery")
            if self.presence is not None:
                if token in self.presence.received:
                    raise ViolationError("V3", f"{token} came to {self.name} twice")
                self.presence.received.add(token)


class VolatileConsumer(Client):
    """Consumes non-persistent messages and acknowledges them one by one."""

    def __init__(self, world: Simulation, name: str, *, queue: str) -> None:
        super().__init__(world, name)
        self.queue = queue
        self.held: list[bytes] = []
        self._is_settling = False

    def connected(self) -> None:
        """Subscribe."""
        to = b"destination:" + self.queue.encode()
        self.world.history.operation_count += 1
        self.send(make_frame(b"SUBSCRIBE", b"id:s", to, b"ack:client-individual"))

    def disconnected(self) -> None:
        """What was held comes again, and says so."""
        self.held = []

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Take a delivery."""
        if command != b"MESSAGE":
            return
        token = body.decode()
        note = self.world.volatile.queue.get(token)
        if note is None:
            raise ViolationError("V3", f"{self.name} got {token}, which nobody sent")
        flagged = headers.get(b"redelivered") == b"true"
        if note.delivered and not flagged:
            raise ViolationError("V3", f"{token} came to {self.name} again and did not say so")
        note.delivered[headers[b"message-id"]] = flagged
        self.world.volatile.delivery_count += 1
        self.counts("non-persistent delivery")
        self.held.append(headers[b"ack"])
        if not self._is_settling:
            self._is_settling = True
            pause = 0.005 + self.chance.random() * 0.05
            self.world.timeline.after(self.soon(pause), self._settle)

    def _settle(self) -> None:
        self._is_settling = False
        held, self.held = self.held, []
        if not held or not self.is_connected:
            return
        if self.chance.random() < 0.03:
            self.drop()
            return
        self.world.history.operation_count += len(held)
        self.send(b"".join([b"ACK\nid:%b\n\n\0" % each for each in held]))
