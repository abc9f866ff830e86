"""
Clients of a simulated world that use their queues now and then: a producer that sends a few
messages and waits, and consumers that take all there is and go for a while.

By a policy such a queue goes as soon as nobody uses it. So some go just as a message comes, and the
next message makes a queue of the same name anew.

Invariants (each violation is raised with its name):
    Q61: no queue goes with a message on it, by what was committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.ruled_clients import keep_said
from trials.simulation.workload import Consumer, Producer, make_frame

if TYPE_CHECKING:
    from trials.simulation.simulated_network import ClientPipe
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

IDLE: Final = "queues go that nobody uses"
GONE: Final = "a queue goes that nobody uses"
QUEUES: Final = ("idle.a", "idle.b")
_PATTERN: Final = "idle.*"
_POLICY: Final[dict[str, str | int | float]] = {
    "gcInactiveDestinations": "true",
    "inactiveTimeoutBeforeGC": 1,
}
_LOOK_MS: Final = 10
_AWAY_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 0.03


class IdleProducer(Producer):
    """Sends a few messages, and waits."""

    def __init__(self, world: Simulation, name: str) -> None:
        count = max(100, world.plan.operations // 10)
        super().__init__(world, name, queues=[*QUEUES], count=count, is_numbered=True)
        self.burst_max = 3
        self._removed: dict[object, int] = {}
        world.history.idle_names |= {*QUEUES}
        world.history.entry_checks.append(self._count_gone)
        keep_said(world, _PATTERN, _POLICY, _is_ruled)

    def _count_gone(self) -> None:
        for node in self.world.nodes:
            removing = node.broker.removing if node.is_running else None
            if removing is None:
                continue
            before = self._removed.get(removing, 0)
            self._removed[removing] = removing.removed_total
            if removing.removed_total > before:
                self.world.count(GONE)


class IdleConsumer(Consumer):
    """Takes what there is of one queue, goes, and comes again."""

    def __init__(self, world: Simulation, name: str, queue: str) -> None:
        super().__init__(world, name, queue=queue, mode="client-individual")
        self.reject_chance = 0.0
        self._is_subscribed = False
        self._heard_count = 0

    def connected(self) -> None:
        """Subscribe, and go once nothing comes."""
        super().connected()
        self._is_subscribed = True
        self._go_soon(self.pipe)

    def disconnected(self) -> None:
        """Whatever it had goes back."""
        super().disconnected()
        self._is_subscribed = False

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Note that something came."""
        self._heard_count += command == b"MESSAGE"
        super().frame(command, headers, body, at)

    def _go_soon(self, pipe: ClientPipe | None) -> None:
        self.world.timeline.after(_QUIET_SECONDS, self._go, pipe, self._heard_count)

    def _go(self, pipe: ClientPipe | None, heard_count: int) -> None:
        """Go, as long as there is trouble, if nothing came and nothing is held."""
        if pipe is not self.pipe or not self.is_connected or not self._is_subscribed:
            return
        is_quiet = heard_count == self._heard_count and not (self.held or self.unsure)
        if not (is_quiet and self.world.nemesis.is_active):
            self._go_soon(pipe)
            return
        self._is_subscribed = False
        self.send(make_frame(b"UNSUBSCRIBE", b"id:s"))
        self.world.timeline.after(_AWAY_SECONDS * self.chance.random(), self._come, pipe)

    def _come(self, pipe: ClientPipe | None) -> None:
        if pipe is self.pipe and self.is_connected and not self._is_subscribed:
            self._is_subscribed = True
            self.send(self.subscription_frame())
            self._go_soon(pipe)


def _is_ruled(node: SimulatedNode) -> bool:
    """Whether a node has the policy; lets it look more often than any real one does."""
    node.broker.removing.look_ms = _LOOK_MS
    keys = node.broker.state.policies.by_key
    return any(key.pattern == f"queue://{_PATTERN}" for key in keys)
