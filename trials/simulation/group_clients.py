"""
Clients of a simulated world whose messages are in groups: one producer, and consumers that die.

What they are told and get is judged as of all others, but for the order, which is that of each
group.

Invariants (each violation is raised with its name):
    M4: nothing of a group that was never seen is delivered behind what was sent later in it, to
    whomever and under whichever leader (where they select: to whomever says the same); and no two
    consumers have messages of a group at once (as the leader has it, which alone knows what it was
    told).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.history import ViolationError, sequence_of
from trials.simulation.workload import Consumer, Producer

if TYPE_CHECKING:
    from trials.simulation.simulator import Simulation

GROUPS: Final = "messages are in groups"
CHANGED: Final = "a group has another owner"
_QUEUE: Final = "grouped"
_GROUPS: Final = 12
_SIZE_MAX: Final = 150


class GroupProducer(Producer):
    """Sends to one queue, in a dozen groups; some messages are in none."""

    def __init__(self, world: Simulation, name: str) -> None:
        count = max(80, world.plan.operations // 8)
        super().__init__(world, name, queues=[_QUEUE], count=count, is_numbered=True)
        world.history.grouped_queues.add(_QUEUE)

    def _make(self, number: int) -> tuple[str, bytes]:
        token = f"{self.name}.{number}"
        group = self.chance.randrange(_GROUPS)
        lines = [b"JMSXGroupID:g%d" % group] if group else []
        kind, *more = self._kind()
        body = b"%b %b%b" % (token.encode(), kind, b"x" * self.chance.randrange(_SIZE_MAX))
        self.world.history.send(token, _QUEUE, body)
        return token, self._numbered(number, f"/queue/{_QUEUE}", body, *lines, *more)

    def _kind(self) -> tuple[bytes, ...]:
        """Give of which kind the next message is, and the lines that say so."""
        return (b"",)


class GroupConsumer(Consumer):
    """One of several that share the groups of the queue."""

    def __init__(self, world: Simulation, name: str, queue: str = _QUEUE) -> None:
        super().__init__(world, name, queue=queue, mode="client-individual", prefetch=12)
        self.death_chance = 0.1
        self.selector = ""
        """What it wants; empty: all."""

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Look with each delivery at its group."""
        if command == b"MESSAGE" and b"JMSXGroupID" in headers:
            self._check_order(headers, at)
            self._check_hands()
        super().frame(command, headers, body, at)

    def _check_order(self, headers: dict[bytes, bytes], at: float) -> None:
        history = self.world.history
        group, message_id = headers[b"JMSXGroupID"], headers[b"message-id"]
        before = history.group_owners.get(group)
        history.group_owners[group] = self.name
        if before not in {None, self.name}:
            self.world.count(CHANGED)
        if headers.get(b"redelivered") == b"true" or not history.is_order_known:
            return
        key = (message_id.rpartition(b"-")[0], group, self.selector)
        sequence = sequence_of(message_id)
        if not self._is_in_group(sequence):
            return
        newest, seen_at = history.newest_of_groups.get(key, (0, at))
        if sequence <= newest and at >= seen_at:
            raise ViolationError("M4", f"{sequence} of {group!r} came to {self.name} too late")
        if sequence > newest:
            history.newest_of_groups[key] = (sequence, at)

    def _is_in_group(self, sequence: int) -> bool:
        """Whether the log says so: what came before all nodes knew groups is in none."""
        serving = [it for it in self.world.nodes if it.is_running and it.conductor.is_serving]
        queues = [it.conductor.broker.state.by_name.get(self.queue) for it in serving]
        return any(queue is not None and queue.index.group_hash(sequence) for queue in queues)

    def _check_hands(self) -> None:
        for node in self.world.nodes:
            if not (node.is_running and node.conductor.is_serving):
                continue
            broker = node.conductor.broker
            queue = broker.destinations.leadership.by_name.get(self.queue)
            if queue is None:
                continue
            holders: dict[int, object] = {}
            for each in queue.subscriptions:
                for key in each.unacknowledged:
                    group = queue.index.group_hash(key)
                    if group and holders.setdefault(group, each) is not each:
                        raise ViolationError("M4", f"on {node.name} two hold messages of a group")
