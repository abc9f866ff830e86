"""
A consumer of a simulated world that keeps some of what it gets for longer than it may.

The policy of its queue has a limit: what it has for too long is taken from it, counts as rejected
and comes to whoever has room. Once it has kept it long enough it says after all that it is done:
that counts where nobody else has it, and is refused else.

Invariants (each violation is raised with its name):
    M13: nothing is in delivery for much longer than the limit, and nothing that is kept comes to
    anybody else before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.broker.serving.consumer import Consumer as ServedConsumer
from trials.simulation.history import ViolationError
from trials.simulation.places import Places
from trials.simulation.ruled_clients import RuledConsumer, keep_said
from trials.simulation.simulated_network import ClientPipe

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

HOARDED: Final = "consumer keeps messages for too long"
TAKEN: Final = "message is taken from who has it for too long"
_QUEUE: Final = "q1"
_LIMIT_SECONDS: Final = 1
_EARLY_SECONDS: Final = 0.4
"""A leader looks at the time once in 0.1 s, and the message lies a while before it is kept."""
_LATE_SECONDS: Final = 3.5
"""A clock that was put back goes half as fast for a while, a node may stand still and none
notices."""
_KEPT_SECONDS: Final = (0.3, 1.5, 2.5, 5.0)
_POLICY: Final = {
    "deliverySecondsMax": _LIMIT_SECONDS,
    "maximumRedeliveries": -1,
    "initialRedeliveryDelay": 0,
    "redeliveryDelay": 0,
}


class HoardingConsumer(RuledConsumer):
    """Takes from one queue, beside others."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name, queue=_QUEUE, mode="client-individual", prefetch=10)
        self.death_chance = 0.02
        self.reject_chance = 0.0
        world.places = world.places or Places(world)
        self._kept: dict[bytes, tuple[float, ClientPipe]] = {}
        """By message id: since when, and on which connection."""
        self._has_said = False
        world.history.delivery_checks.append(self._check_early)
        keep_said(world, _QUEUE, _POLICY, _is_limited, lambda: self.is_ended)

    def is_ruled(self) -> bool:
        """Whether the leader has the queue, and a limit for it."""
        leader = self.world.leader()
        return leader is not None and _is_limited(leader)

    def disconnected(self) -> None:
        """What it kept comes again."""
        super().disconnected()
        self._kept.clear()

    def _settle(self) -> None:
        """Keep some, for a while."""
        if self.pipe is not None and self.is_connected and self.world.nemesis.is_active:
            kept = [each for each in self.held if self.chance.random() < 0.5]
            self.held = [each for each in self.held if each not in kept]
            for message_id, acknowledgement in kept:
                self.world.count(HOARDED)
                self._kept[message_id] = (self.world.timeline.now, self.pipe)
                pause = self.chance.choice(_KEPT_SECONDS)
                self.world.timeline.after(
                    pause, self._done, message_id, acknowledgement, self._kept[message_id]
                )
        super()._settle()

    def _done(
        self, message_id: bytes, acknowledgement: bytes, since: tuple[float, ClientPipe]
    ) -> None:
        if self._kept.get(message_id) != since or self.pipe is not since[1]:
            return  # It came again meanwhile, or its connection is gone.
        self._check_late(message_id, since[0])
        del self._kept[message_id]
        self.send(self._single(message_id, acknowledgement))

    def _check_late(self, message_id: bytes, since: float) -> None:
        """M13: after so long nobody has it any more, as its leader knows."""
        is_late = self.world.timeline.now - since >= _LIMIT_SECONDS + _LATE_SECONDS
        subscription = self._subscription_of_leader()
        if subscription is not None and subscription.delivery_ms_max:
            sequence = int(message_id.rpartition(b"-")[2])
            if sequence not in subscription.unacknowledged:
                self.world.count(TAKEN)
            elif is_late:
                raise ViolationError("M13", f"{self.name} still has {sequence}")

    def _subscription_of_leader(self) -> ServedConsumer | None:
        """Give what the leader has of it, None if it has nothing."""
        leader, pipe = self.world.leader(), self.pipe
        if leader is None or pipe is None or not leader.broker.destinations.has_queue(_QUEUE):
            return None
        queue = leader.broker.destinations.existing(_QUEUE)
        session = pipe.connection.session
        return next((it for it in queue.subscriptions if it.receiver is session), None)

    def _check_early(self, message_id: bytes, token: str, sent_at: float) -> None:
        """M13: what is kept for a short time comes to nobody else."""
        kept = self._kept.get(message_id)
        if kept is None or kept[1] is not self.pipe or "clock jump" in self.world.plan.kinds:
            return
        seconds = sent_at - kept[0]
        if self._subscription_of_leader() is None:
            return  # Its connection is gone, as its leader sees it.
        if 0 < seconds < _LIMIT_SECONDS - _EARLY_SECONDS:
            raise ViolationError("M13", f"{token} was taken from {self.name} after {seconds:.2f} s")


def _is_limited(leader: SimulatedNode) -> bool:
    if not leader.broker.destinations.has_queue(_QUEUE):
        return False
    queue = leader.broker.destinations.existing(_QUEUE)
    return leader.broker.policies.of(queue).delivery_ms_max > 0
