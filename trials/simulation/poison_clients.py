"""
Clients of a simulated world some of whose messages are poison: each consumer that gets one dies.

They take many at once, so nobody knows which of them it was. A policy of their queue says how often
a message may fail; what was lost with others too often is sent alone, and then it shows.

Where they are in groups all stands as it does of groups (`group_clients`), too.

Invariants (each violation is raised with its name):
    Q25: of this queue nothing is dead-lettered but poison, whoever leads and however often that
    changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.group_clients import GroupConsumer
from trials.simulation.history import ViolationError
from trials.simulation.ruled_clients import RuledConsumer, keep_said
from trials.simulation.workload import Producer

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

POISONED: Final = "some messages kill their consumers"
POISONED_GROUPS: Final = "some messages of groups kill their consumers"
POISONED_CHOICE: Final = "some messages kill those who select them"
DIED: Final = "consumer dies of poison"
FOUND: Final = "poison is dead-lettered"
_QUEUE: Final = "poisoned"
_GROUPS: Final = 8
_EVERY: Final = 60
"""So many messages have one poison among them."""
_POLICY: Final = {
    # An innocent one may be lost alone by bad luck, where a link breaks; not so often.
    "maximumRedeliveries": 4,
    "initialRedeliveryDelay": 0,
    "redeliveryDelay": 0,
    "suspectAfter": 2,
}
_POISON: Final = b" poison"
_SELECTORS: Final = (b"kind = '0'", b"kind > 0", b"kind < 2")
"""Of which each kind is wanted by one or two."""


class PoisonProducer(Producer):
    """Sends to one queue; every now and then something that nobody survives."""

    def __init__(
        self, world: Simulation, name: str, *, has_groups: bool = False, has_kinds: bool = False
    ) -> None:
        count = max(120, world.plan.operations // 8)
        super().__init__(world, name, queues=[_QUEUE], count=count, is_numbered=True)
        self._poison: set[str] = set()
        self._has_groups = has_groups
        self._has_kinds = has_kinds
        if has_groups:
            world.history.grouped_queues.add(_QUEUE)
        world.history.dead_letter_checks.append(self._check_poison)
        keep_said(world, _QUEUE, _POLICY, _is_ruled)

    def _make(self, number: int) -> tuple[str, bytes]:
        token = f"{self.name}.{number}"
        is_poison = number % _EVERY == _EVERY // 2
        if is_poison:
            self._poison.add(token)
        body = token.encode() + (_POISON if is_poison else b" food")
        self.world.history.send(token, _QUEUE, body)
        group = self.chance.randrange(_GROUPS) if self._has_groups else 0
        lines = [b"JMSXGroupID:poisoned %d" % group] if group else []
        if self._has_kinds:
            lines.append(b"kind:%d" % self.chance.randrange(len(_SELECTORS)))
        return token, self._numbered(number, f"/queue/{_QUEUE}", body, *lines)

    def _check_poison(self, queue: str, token: str) -> None:
        if queue != _QUEUE:
            return
        if token not in self._poison:
            raise ViolationError("Q25", f"{token} is dead-lettered, and killed nobody")
        self.world.count(FOUND)


class Mortal(RuledConsumer):
    """One of several that take from the queue, and die of its poison."""

    def __init__(self, world: Simulation, name: str, **more: object) -> None:
        super().__init__(world, name, queue=_QUEUE, **more)  # type: ignore[arg-type]
        self.death_chance = 0.0
        self.reject_chance = 0.0

    def is_ruled(self) -> bool:
        """Whether the leader has the queue, and messages that are to be sent alone are."""
        leader = self.world.leader()
        return leader is not None and _is_ruled(leader)

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Take a delivery; of poison it dies, with all that it has, before it says a word."""
        super().frame(command, headers, body, at)
        if command == b"MESSAGE" and body.endswith(_POISON):
            # It would have settled it: so the log may end it.
            self.world.history.settle(self.queue, headers[b"message-id"])
            self.world.count(DIED)
            self.drop()


class PoisonConsumer(Mortal):
    """The same, of messages that are in no groups."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name, mode="client-individual", prefetch=12)


class PoisonChooser(PoisonConsumer):
    """The same, who takes what he selects."""

    def __init__(self, world: Simulation, name: str, number: int) -> None:
        super().__init__(world, name)
        self._selector = _SELECTORS[number % len(_SELECTORS)]

    def subscription_lines(self) -> list[bytes]:
        """Say what it wants."""
        return [*super().subscription_lines(), b"selector:" + self._selector]


class PoisonGroupConsumer(Mortal, GroupConsumer):
    """The same, of messages in groups."""


def _is_ruled(leader: SimulatedNode) -> bool:
    """Whether it has the queue, and messages that are to be sent alone are."""
    if not leader.broker.destinations.has_queue(_QUEUE):
        return False
    queue = leader.broker.destinations.existing(_QUEUE)
    return leader.broker.policies.of(queue).suspect_after == _POLICY["suspectAfter"]
