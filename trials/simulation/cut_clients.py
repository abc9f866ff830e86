"""
Clients of a simulated world with durable subscriptions of a topic that let the oldest go: they are
away for longer than they keep all, and slow while they are there.

Invariants (each violation is raised with its name):
    Q59: nothing goes of a subscription that its consumer has (as the leader has it); and no more
    than is too much, but for what it had settled late meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.durable_clients import DurableConsumer, TopicProducer
from trials.simulation.history import ViolationError
from trials.simulation.ruled_clients import keep_said

if TYPE_CHECKING:
    from holdfast.broker.serving.queue import Queue
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation
    from trials.simulation.stored_topics import Key, Subscribed

CUT: Final = "durable subscriptions keep the newest"
GONE: Final = "the oldest go that a durable subscription has while it is alone"
DROPPED: Final = "the oldest go that a durable subscription has and its consumer has not"
_TOPIC: Final = "headlines"
_LENGTH: Final = 24
_PREFETCH: Final = 6
_LOOK_MS: Final = 10
_PAUSE_SECONDS: Final = 0.4


class CutConsumer(DurableConsumer):
    """Has one of them, is slow, and is away now and then."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name, topic=_TOPIC)
        self.pause_seconds = _PAUSE_SECONDS


class CutTopicProducer(TopicProducer):
    """Sends to the topic, and says how much is kept of it."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name, _TOPIC)
        world.checkers.log.topics.cut_checks[_TOPIC] = self._check_cut
        world.history.drop_checks.append(self._check_dropped)
        keep_said(world, f"topic://{_TOPIC}", {"maxLength": _LENGTH}, _is_ruled)

    def _check_cut(self, known: Subscribed, through: int) -> None:
        self.world.count(GONE)
        live = [it for number, it in self.world.checkers.log.live if number == known.number]
        left = sum(sequence > through for sequence in live)
        if left < _LENGTH - _PREFETCH:
            raise ViolationError("Q59", f"{known.key} has {left} left, and may keep {_LENGTH}")
        self._check_free(known.key, [it for it in live if it <= through])

    def _check_dropped(self, queue: str, place: tuple[int, int], _token: str) -> None:
        known = self.world.checkers.log.topics.by_number.get(place[0])
        if known is None or known.topic not in self._numbers_of_topic():
            raise ViolationError("Q59", f"{queue} lost {place}: that has no limits")
        self.world.count(DROPPED)
        self._check_free(known.key, [place[1]])

    def _numbers_of_topic(self) -> set[int]:
        names = self.world.checkers.log.topics.names
        return {number for number, name in names.items() if name == _TOPIC}

    def _check_free(self, key: Key, sequences: list[int]) -> None:
        leader = self.world.leader()
        found = None if leader is None else _queue_of(leader, key)
        for each in () if found is None else found.subscriptions:
            if not each.unacknowledged.keys().isdisjoint(sequences):
                raise ViolationError("Q59", f"{key} lost what {each.client!r} has")


def _queue_of(node: SimulatedNode, key: Key) -> Queue | None:
    return node.broker.destinations.leadership.durables.get(key)


def _is_ruled(node: SimulatedNode) -> bool:
    """Whether a node has the policy; lets it look more often than any real one does."""
    node.broker.lapsing.look_ms = _LOOK_MS
    keys = node.broker.state.policies.by_key
    return any(key.pattern == f"topic://{_TOPIC}" for key in keys)
