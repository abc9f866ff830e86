"""
The durable subscriptions of a chaos run: of one topic, each taken in another way.

A subscription outlives its consumers: whoever takes the place of a killed worker goes on with it.
In the histories it stands where else the queue stands that a delivery came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

TOPIC: Final = "/topic/chaos.news"

PART_HEADER: Final = "part"
PART_COUNT: Final = 3
"""Messages of the topic are dealt to so many parts, by which a selector chooses."""

_Mode: TypeAlias = Literal["client", "client-individual"]


def part_of(sequence: int) -> int:
    """Tell of which part a producer's message is."""
    return sequence % PART_COUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableSubscription:
    """One of them; its name is its client-id, too."""

    name: str
    library: str
    mode: _Mode = "client-individual"
    part: int | None = None
    """It selects this part only."""
    is_visitor: bool = False
    """Its consumer is there for a while and away for a while."""
    is_relay: bool = False
    """Its consumer passes on what it gets, in transactions. With the holdfast library only."""
    in_rabbitmq_words: bool = False
    """Known by topic and id, as RabbitMQ's clients have it; of stomp.py only."""

    @property
    def place(self) -> str:
        """How it stands in the histories."""
        return f"{TOPIC} for {self.name}"

    @property
    def selector(self) -> str | None:
        """What it selects by."""
        return None if self.part is None else f"{PART_HEADER} = '{self.part}'"


SUBSCRIPTIONS: Final = {
    each.name: each
    for each in (
        DurableSubscription(name="reader", library="holdfast"),
        DurableSubscription(name="batches", library="holdfast", mode="client"),
        DurableSubscription(name="visitor", library="holdfast", is_visitor=True),
        DurableSubscription(name="chooser", library="holdfast", part=1, is_visitor=True),
        DurableSubscription(name="passer", library="holdfast", part=0, is_relay=True),
        DurableSubscription(name="stranger", library="stomp.py"),
        DurableSubscription(name="guest", library="stomp.py", mode="client", is_visitor=True),
        DurableSubscription(
            name="rabbit", library="stomp.py", mode="client", part=2, in_rabbitmq_words=True
        ),
    )
}


def is_of_topic(place: str) -> bool:
    """Whether a delivery came from a durable subscription."""
    return place.startswith(TOPIC)
