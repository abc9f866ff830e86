"""
Clients of a simulated world with durable subscriptions of a wildcard, to topics of which new come.

Two stay: one wants all, the other what is gold, and both are away for a while now and then. The
third is fickle: it begins anew with another selector, or ends its subscription and makes another. A
fourth wants one of the topics only. One producer sends one by one to more and more topics, another
in transactions to some; nobody has named a topic before its first message. A policy lets what they
have of a topic go as soon as that is nothing, so the next message to it is as good as the first.

What must come to whom is worked out from the log alone (`stored_topics`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.durable_clients import KINDS, TopicProducer
from trials.simulation.ruled_clients import keep_said
from trials.simulation.workload import make_frame

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

WILD_DURABLE: Final = "durable subscriptions are of wildcards"
NEW_TOPIC: Final = "a topic is named for the first time"
EMPTIED: Final = "what a wildcard has of a topic goes, as it is nothing"
ALL: Final = "rates.>"
DIRECT: Final = "rates.*"
ONE: Final = "rates.1"
TOGETHER: Final = ("rates.1", "rates.7", "rates.together", "rates.deep.together")
_RULED: Final = "topic://rates.>"
_POLICY: Final[dict[str, str | int | float]] = {
    "gcInactiveDestinations": "true",
    "inactiveTimeoutBeforeGC": 1,
}
_LOOK_MS: Final = 20
_NEW_EVERY: Final = 12
"""After so many messages there is one topic more."""
_SIZE_MAX: Final = 150


class RatesProducer(TopicProducer):
    """Sends to some topics, and to more and more of them."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name, ALL)
        keep_said(world, _RULED, _POLICY, _is_ruled)
        self._emptied_count = 0
        world.history.entry_checks.append(self._count_emptied)

    def _count_emptied(self) -> None:
        emptied = self.world.checkers.log.topics.emptied_count
        self.world.faults[EMPTIED] += emptied - self._emptied_count
        self._emptied_count = emptied

    def _make(self, number: int) -> tuple[str, bytes]:
        newest = number // _NEW_EVERY
        part = self.chance.choice((newest, self.chance.randrange(newest + 1)))
        topic = f"rates{'.deep' * (part % 3 == 2)}.{part}"
        known = self.world.history.topics
        self.world.faults[NEW_TOPIC] += topic not in known
        known.add(topic)
        token, kind = f"{self.name}.{number}", self.chance.choice(KINDS)
        body = b"%b %b %b" % (
            *(token.encode(), kind.encode()),
            b"x" * self.chance.randrange(_SIZE_MAX),
        )
        self.world.history.send(token, topic, body)
        self.world.history.unnumbered.add(token)
        lines = [b"destination:/topic/" + topic.encode(), b"persistent:true"]
        lines += [b"kind:" + kind.encode(), b"receipt:%d" % number]
        return token, make_frame(b"SEND", *lines, body=body)


def _is_ruled(node: SimulatedNode) -> bool:
    """Whether a node has the policy; lets it look more often than any real one does."""
    node.broker.removing.look_ms = _LOOK_MS
    return any(key.pattern == _RULED for key in node.broker.state.policies.by_key)
