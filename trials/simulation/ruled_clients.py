"""
Clients of a simulated world whose queue has a policy that one of them says, as an operator would.

It is said again wherever a leader does not have it: it may be lost with the leader who was told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.errors import LevelNotReachedError, PolicyError
from holdfast.model.wildcards import parse_pattern
from trials.simulation.workload import Consumer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.model.policy_option import Value
    from trials.simulation.simulated_network import ClientPipe
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

_AGAIN_SECONDS: Final = 0.25


class _Unheard:
    """An operator who does not wait for an answer."""

    def reply(self, _receipt: bytes) -> None:
        """Whether it is stored shows by what comes of it."""


def keep_said(
    world: Simulation,
    destination: str,
    values: Mapping[str, Value],
    holds: Callable[[SimulatedNode], bool],
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Say these policies of a destination whenever there is a leader for whom they do not hold."""

    def say() -> None:
        leader = world.leader()
        if leader is not None and not leader.conductor.is_within_entry and not holds(leader):
            changes = leader.broker.policy_changes
            try:
                changes.say(parse_pattern(destination), values, _Unheard(), b"")
            except (LevelNotReachedError, PolicyError):
                pass
            leader.conductor.schedule()
        if not is_over():
            world.timeline.after(_AGAIN_SECONDS, say)

    world.timeline.after(_AGAIN_SECONDS, say)


class RuledConsumer(Consumer):
    """One that subscribes once the policy holds: it counts from then on."""

    def is_ruled(self) -> bool:
        """Whether it holds for whoever leads now."""
        raise NotImplementedError

    def connected(self) -> None:
        """Subscribe, now or later."""
        if self.is_ruled():
            super().connected()
        else:
            self.world.timeline.after(_AGAIN_SECONDS, self._connected_again, self.pipe)

    def _connected_again(self, pipe: ClientPipe | None) -> None:
        if self.is_connected and pipe is self.pipe:
            self.connected()
