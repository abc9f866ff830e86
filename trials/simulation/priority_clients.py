"""
Clients of a simulated world whose messages have priorities: one producer, and consumers that die.

What they are told and get is judged as of all others, but for the order, which is that of each
priority.

Invariants (each violation is raised with its name):
    M4: nobody gets what was never seen behind what was sent later with the same priority, nor
    behind what was sent later with a lower one, nor while one with a higher one waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.errors import LevelNotReachedError, PolicyError
from holdfast.model.wildcards import parse_pattern
from trials.simulation.history import ViolationError, sequence_of
from trials.simulation.simulated_network import ClientPipe
from trials.simulation.workload import Consumer, Producer, make_frame

if TYPE_CHECKING:
    from trials.simulation.simulator import Simulation

PRIORITIES: Final = "messages have priorities"
OVERTAKEN: Final = "message overtakes others of a lower priority"
_QUEUE: Final = "ranked"
_CHOICES: Final = (0, 1, 4, 4, 4, 4, 9)
_SIZE_MAX: Final = 150
_AGAIN_SECONDS: Final = 0.25
_WELL_SECONDS: Final = 0.3
"""What is given may wait in its connection for so long before it is sent."""
_POLICY: Final = {"prioritizedMessages": "true"}


class _Unheard:
    """An operator who does not wait for an answer."""

    def reply(self, _receipt: bytes) -> None:
        """Whether it is stored shows by what comes of it."""


class PriorityProducer(Producer):
    """Sends to one queue, with a few priorities."""

    def __init__(self, world: Simulation, name: str) -> None:
        count = max(120, world.plan.operations // 8)
        super().__init__(world, name, queues=[_QUEUE], count=count, is_numbered=True)
        world.history.grouped_queues.add(_QUEUE)
        world.timeline.after(_AGAIN_SECONDS, self._say_policy)

    def _make(self, number: int) -> tuple[str, bytes]:
        token = f"{self.name}.{number}"
        body = b"%b %b" % (token.encode(), b"x" * self.chance.randrange(_SIZE_MAX))
        self.world.history.send(token, _QUEUE, body)
        lines = [
            b"destination:/queue/" + _QUEUE.encode(),
            b"persistent:true",
            self._numbers.next_lines(),
            b"receipt:%d" % number,
            b"priority:%d" % self.chance.choice(_CHOICES),
        ]
        return token, make_frame(b"SEND", *lines, body=body)

    def _say_policy(self) -> None:
        leader = self.world.leader()
        if leader is not None and not leader.conductor.is_within_entry and not is_ruled(self.world):
            changes = leader.broker.policy_changes
            try:
                changes.say(parse_pattern(f"queue://{_QUEUE}"), _POLICY, _Unheard(), b"")
            except (LevelNotReachedError, PolicyError):
                pass
            leader.conductor.schedule()
        self.world.timeline.after(_AGAIN_SECONDS, self._say_policy)


class PriorityConsumer(Consumer):
    """One of several that share the queue."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name, queue=_QUEUE, mode="client-individual", prefetch=3)
        self.death_chance = 0.1

    def connected(self) -> None:
        """Subscribe once the policy holds, and slowly enough that there is a backlog."""
        if is_ruled(self.world):
            super().connected()
        else:
            self.world.timeline.after(_AGAIN_SECONDS, self._connected_again, self.pipe)

    def _connected_again(self, pipe: ClientPipe | None) -> None:
        if self.is_connected and pipe is self.pipe:
            self.connected()

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Look with each delivery at its order."""
        if command == b"MESSAGE":
            self._check_order(headers, at)
        super().frame(command, headers, body, at)

    def _check_order(self, headers: dict[bytes, bytes], at: float) -> None:
        history = self.world.history
        if headers.get(b"redelivered") == b"true" or not history.is_order_known:
            return
        message_id = headers[b"message-id"]
        sequence = sequence_of(message_id)
        priority = self._known_priority(sequence)
        if priority is None:
            return
        # Its own are in order; what is on its way to others may come sooner or later.
        queue = self.name.encode() + b" " + message_id.rpartition(b"-")[0]
        key = (queue, b"%d" % priority, "")
        newest, seen_at = history.newest_of_groups.get(key, (0, at))
        if sequence <= newest and at >= seen_at:
            raise ViolationError("M4", f"{sequence} of priority {priority} came too late")
        if sequence > newest:
            history.newest_of_groups[key] = (sequence, at)
        self._check_rank(queue, sequence, priority, at)
        self._check_waiting(sequence, priority, at)

    def _check_rank(self, queue: bytes, sequence: int, priority: int, at: float) -> None:
        """What was stored later, with a lower priority, may not have gone before this."""
        for other, (newest, seen_at) in self.world.history.newest_of_groups.items():
            if other[0] != queue or newest < sequence:
                continue
            if int(other[1]) < priority and at >= seen_at:
                raise ViolationError("M4", f"{sequence} waited behind {newest}, which is lower")
            if int(other[1]) > priority:
                self.world.count(OVERTAKEN)

    def _check_waiting(self, sequence: int, priority: int, at: float) -> None:
        """What was confirmed well before with a higher priority does not wait any more."""
        log, confirmed = self.world.checkers.log, self.world.history.confirmed
        for node in self.world.nodes:
            if not (node.is_running and node.conductor.is_serving):
                continue
            queue = node.conductor.broker.destinations.leadership.by_name.get(self.queue)
            if queue is None or not any(
                sequence in it.unacknowledged for it in queue.subscriptions
            ):
                continue
            for each in queue.index.sequences(1, queue.lasting.next_sequence):
                token = log.tokens.get((queue.number, each), "")
                is_old = confirmed.get(token, at) < at - _WELL_SECONDS
                if not is_old or queue.index.priority(each) <= priority or queue.is_flagged(each):
                    continue
                if queue.choice.is_at_hand(each) and not queue.is_withheld(each):
                    raise ViolationError("M4", f"{token} waits, and {sequence} is lower")

    def _known_priority(self, sequence: int) -> int | None:
        """Give the priority that the log says, None if nobody leads who could tell."""
        for node in self.world.nodes:
            if node.is_running and node.conductor.is_serving:
                queue = node.conductor.broker.state.by_name.get(self.queue)
                if queue is not None and queue.index.is_live(sequence):
                    return queue.index.priority(sequence)
        return None


def is_ruled(world: Simulation) -> bool:
    """Whether the leader has the queue, and it goes by priority."""
    leader = world.leader()
    if leader is None or not leader.broker.destinations.has_queue(_QUEUE):
        return False
    queue = leader.broker.destinations.existing(_QUEUE)
    return leader.broker.policies.of(queue).is_prioritized
