"""
Clients of a simulated world of whom some stop working for a while, and one works all the time.

The policy of their queue ends who has no room and says nothing for too long: what it had goes to
the others, and it subscribes again. Who goes on working is slow, too, with a full window and a long
line behind it, and is never ended. One that consumes from a durable subscription is ended likewise,
by the policy of its topic, and takes it up again.

Invariants (each violation is raised with its name):
    Q60: nobody has a full window and says nothing for much longer than the limit while something
    waits; nobody is ended who has said something a moment ago.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.broker.serving.queue import Queue
from trials.simulation.durable_clients import DurableConsumer
from trials.simulation.history import ViolationError
from trials.simulation.ruled_clients import RuledConsumer, keep_said
from trials.simulation.simulated_network import ClientPipe
from trials.simulation.workload import Producer

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

STALLED: Final = "a consumer stops working"
ENDED: Final = "a slow consumer is ended"
ENDED_DURABLE: Final = "a slow consumer of a durable subscription is ended"
WORKED: Final = "a slow consumer goes on working"
_QUEUE: Final = "stalled"
STALLED_TOPIC: Final = "stalled.prices"
_LIMIT_MS: Final = 600
_LOOK_MS: Final = 100
_LATE_MS: Final = 1_000
"""Until its window is full, and three looks have passed."""
_STALL_CHANCE: Final = 0.4
_STALLED_SECONDS: Final = (0.3, 2.0, 3.0)
_PAUSE_SECONDS: Final = 0.7
"""So long each takes for a window, so that there is always more."""
_STEP_SECONDS: Final = 0.15
"""So long one who goes on working takes for a message."""
_HEARD_SECONDS: Final = (0.15, 0.5)
"""What was said so long ago was heard, and not before the limit."""
_POLICY: Final[dict[str, str | int | float]] = {
    "slowConsumerStrategy": "abortSlowConsumerStrategy",
    "maxSlowDuration": _LIMIT_MS,
    "checkPeriod": 1000,
    "maximumRedeliveries": -1,
    "initialRedeliveryDelay": 0,
    "redeliveryDelay": 0,
}


class StalledProducer(Producer):
    """Sends more than its consumers take."""

    def __init__(self, world: Simulation, name: str) -> None:
        count = max(300, world.plan.operations // 3)
        super().__init__(world, name, queues=[_QUEUE], count=count, is_numbered=True)
        keep_said(world, _QUEUE, _POLICY, is_ruled)


class StallingConsumer(RuledConsumer):
    """Takes from the queue, and now and then stops."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name, queue=_QUEUE, mode="client-individual", prefetch=6)
        self._begin()

    def _begin(self) -> None:
        self.death_chance = 0.01
        self.reject_chance = 0.0
        self.pause_seconds = _PAUSE_SECONDS
        self.spoken_at: list[float] = []
        """When it said something lately."""
        self._is_stalled = False

    def is_ruled(self) -> bool:
        """Whether the leader has the queue, and a limit for it."""
        leader = self.world.leader()
        return leader is not None and is_ruled(leader)

    def disconnected(self) -> None:
        """What it had comes again."""
        super().disconnected()
        self._is_stalled = False
        self.spoken_at.clear()

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Subscribe again where it is ended."""
        super().frame(command, headers, body, at)
        if command == b"ERROR" and headers.get(b"code") == b"slow-consumer":
            self._check_silent(at)
            self.world.count(ENDED)
            self._note_ended()
            self.held = []
            self._is_stalled = False
            self.world.timeline.after(0.1, self._subscribe_again, self.pipe)

    def _note_ended(self) -> None:
        """Count it, if it is a special one."""

    def _subscribe_again(self, pipe: ClientPipe | None) -> None:
        if self.is_connected and pipe is self.pipe:
            self.send(self.subscription_frame())

    def _check_silent(self, at: float) -> None:
        """Q60: who has said something a moment ago is not ended."""
        if "clock jump" in self.world.plan.kinds:
            return  # One second of it counts, which is the limit.
        least, most = _HEARD_SECONDS
        if any(least <= at - each <= most for each in self.spoken_at):
            raise ViolationError("Q60", f"{self.name} is ended, and has said something")

    def _settle(self) -> None:
        if not self.is_connected or self._is_stalled:
            self._is_settling = False
            return
        if self.world.nemesis.is_active and self.chance.random() < _STALL_CHANCE:
            self._is_stalled, self._is_settling = True, False
            self.world.count(STALLED)
            seconds = self.chance.choice(_STALLED_SECONDS)
            self.world.timeline.after(seconds, self._go_on, self.pipe, self._seen_now())
            return
        if self.held:
            self.spoken_at = [*self.spoken_at[-8:], self.world.timeline.now]
        super()._settle()

    def _seen_now(self) -> tuple[object, int]:
        """Give who leads, and how long it has seen time pass."""
        leader = self.world.leader()
        leadership = None if leader is None else leader.broker.destinations.leadership
        return leadership, 0 if leadership is None else leadership.passed_ms

    def _go_on(self, pipe: ClientPipe | None, since: tuple[object, int]) -> None:
        if pipe is not self.pipe or not self._is_stalled:
            return
        self._check_ended(since)
        self._is_stalled = False
        self._settle()

    def _check_ended(self, since: tuple[object, int]) -> None:
        """Q60: after so long with a full window it is ended, as its leader knows."""
        queue = self._queue_of_leader()
        leadership, passed_ms = self._seen_now()
        is_late = leadership is since[0] and passed_ms - since[1] >= _LIMIT_MS + _LATE_MS
        if not is_late or queue is None or self.pipe is None:
            return
        session = self.pipe.connection.session
        windows = {each.receiver: each.unacknowledged for each in queue.subscriptions}
        window = windows.get(session, {})
        has_more = queue.index.live_count > sum(map(len, windows.values())) + 2 * self.prefetch
        had = {int(message_id.rpartition(b"-")[2]) for message_id, _ in self.held}
        if len(window) >= self.prefetch and has_more and had == {*window}:
            raise ViolationError("Q60", f"{self.name} holds others up")

    def _queue_of_leader(self) -> Queue | None:
        """Give its queue, None if nobody leads who has the policy."""
        leader = self.world.leader()
        if leader is None or not is_ruled(leader):
            return None
        return leader.broker.destinations.existing(_QUEUE)


class SteadyConsumer(StallingConsumer):
    """Works all the time, one message after the other; its window is always full."""

    def _settle(self) -> None:
        self._is_settling = False
        if not self.held or not self.is_connected:
            return
        self.world.count(WORKED)
        self.spoken_at = [*self.spoken_at[-8:], self.world.timeline.now]
        some, self.held = self.held[:1], self.held[1:]
        self.send(b"".join([self._single(*each) for each in some]))
        if self.held:
            self._is_settling = True
            pause = _STEP_SECONDS if self.world.nemesis.is_active else 0.01
            self.world.timeline.after(pause, self._settle)


class StallingDurable(StallingConsumer, DurableConsumer):
    """Consumes from a durable subscription, and now and then stops."""

    def __init__(self, world: Simulation, name: str) -> None:
        DurableConsumer.__init__(self, world, name, topic=STALLED_TOPIC)
        self._begin()
        keep_said(world, f"topic://{STALLED_TOPIC}", _POLICY, is_topic_ruled)

    def is_ruled(self) -> bool:
        """Whether the leader has a limit for those of the topic."""
        leader = self.world.leader()
        return leader is not None and is_topic_ruled(leader)

    def _note_ended(self) -> None:
        self.world.count(ENDED_DURABLE)

    def _queue_of_leader(self) -> Queue | None:
        leader = self.world.leader()
        if leader is None or not is_topic_ruled(leader):
            return None
        return leader.broker.durables.find(self.key)


def is_topic_ruled(node: SimulatedNode) -> bool:
    """Whether a node has the policy of the topic; lets it look as often."""
    node.broker.slowness.look_ms = _LOOK_MS
    topic = node.broker.destinations.topic(STALLED_TOPIC)
    return node.broker.policies.of(topic).slow_rule is not None


def is_ruled(node: SimulatedNode) -> bool:
    """Whether a node has the policy; lets it look more often than any real one does."""
    node.broker.slowness.look_ms = _LOOK_MS
    if not node.broker.destinations.has_queue(_QUEUE):
        return False
    queue = node.broker.destinations.existing(_QUEUE)
    return node.broker.policies.of(queue).slow_rule is not None
