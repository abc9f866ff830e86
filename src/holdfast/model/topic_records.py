"""
What must survive of topics that are stored, and of the durable subscriptions on them.

A topic and its subscriptions have numbers of the same order as queues: a subscription takes
messages of its topic as if from a queue of its own. What is said of a subscription's messages
(acknowledged, came back, moved, purged) names its topic, too: a replica that begins with a later
part of the log learns further on what subscription that is.

A durable subscription of a wildcard is one of the topic of that name, to which nobody can send.
What it gets comes by its *parts*: subscriptions of the topics that the wildcard means, one for
each. A part says whose it is by its name, which no client can give one: in the head of a STOMP
frame there is no NUL.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.owners import NOBODY, Owner

PART_MARK: Final = "\0"
"""With which the name of a part begins."""


def part_name(whole_number: int, topic_number: int) -> str:
    """Give what the part of a subscription on a topic is called."""
    return f"{PART_MARK}{whole_number}.{topic_number}"


def whole_of(name: str) -> int:
    """Give by its name of which subscription one is a part, by number; 0: it is none."""
    if not name.startswith(PART_MARK):
        return 0
    number = name[len(PART_MARK) :].partition(".")[0]
    return int(number) if number.isdecimal() else 0


class TopicRecord:
    """A stored topic's whole state but its messages: declares it, and restores it when cleaned."""

    __slots__ = ("name", "next_sequence", "subscription_count", "topic_number")

    def __init__(
        self, topic_number: int, name: str, next_sequence: int = 1, subscription_count: int = 0
    ) -> None:
        self.topic_number = topic_number
        self.name = name
        self.next_sequence = next_sequence
        self.subscription_count = subscription_count
        """How many there are where this stands: who knows fewer does not know who needs what."""


class SubscriptionRecord:
    """
    A durable subscription's whole state but what it has settled: declares and restores it.

    What of its topic has a lower number than `first_sequence` is not its own, or it is done with.
    """

    __slots__ = (
        "client_id",
        "detached_at",
        "dispatch_mark",
        "first_sequence",
        "has_no_local",
        "name",
        "number",
        "owner",
        "selector",
        "slot",
        "topic_number",
    )

    def __init__(
        self,
        number: int,
        topic_number: int,
        slot: int,
        client_id: str,
        name: str,
        *,
        selector: str = "",
        has_no_local: bool = False,
        first_sequence: int = 1,
        dispatch_mark: int = 0,
        detached_at: int = 0,
        owner: Owner = NOBODY,
    ) -> None:
        self.number = number
        self.topic_number = topic_number
        self.slot = slot
        """Its bit in what messages say of who does not get them; of one that ended it is free."""
        self.client_id = client_id
        """Whose it is, with `name`; empty where names are everybody's."""
        self.name = name
        self.selector = selector
        """Which messages it wants, as it was written; empty: all."""
        self.has_no_local = has_no_local
        """It does not want what its own client sends."""
        self.first_sequence = first_sequence
        self.dispatch_mark = dispatch_mark
        """Messages up to it may have been seen by its consumer."""
        self.detached_at = detached_at
        """Since when nobody takes its messages, in milliseconds since the epoch; 0: somebody does,
        or it was never said."""
        self.owner = owner
        """Whose it is; of a part its whole says that."""


class DetachedRecord:
    """Since `at_ms`, since the epoch, nobody takes a subscription's messages; 0: somebody does."""

    __slots__ = ("at_ms", "number")

    def __init__(self, number: int, at_ms: int) -> None:
        self.number = number
        self.at_ms = at_ms


class CountedRecord:
    """
    What came of some of a subscription's messages so far, said again as the cleaner wrote them.

    A queue's message carries it itself; a topic's may have come back to each of its subscriptions
    another time.
    """

    __slots__ = ("attempts", "due_ms", "failures", "queue_number", "sequences", "topic_number")

    def __init__(
        self,
        queue_number: int,
        topic_number: int,
        sequences: list[int],
        *,
        attempts: int,
        failures: int = 0,
        due_ms: int = 0,
    ) -> None:
        self.queue_number = queue_number
        """The subscription's."""
        self.topic_number = topic_number
        self.sequences = sequences
        self.attempts = attempts
        self.failures = failures
        self.due_ms = due_ms
