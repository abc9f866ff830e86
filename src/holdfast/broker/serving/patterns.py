"""
The durable subscriptions of wildcards, and which of them a topic's name concerns.

Each gets what is sent to a topic by a part of its own there. A topic that has not been looked at
since the last of them was made may lack parts: `change_count` tells. By that number every session
also knows whether what its sends came to is to be worked out anew.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from holdfast.broker.lasting.topics import LastingSubscription, SubscriptionKey
from holdfast.broker.serving.consumer import MessageSelector
from holdfast.broker.serving.wildcards import Wildcards
from holdfast.model.destination import Kind
from holdfast.model.reserved_names import OWN_MARK
from holdfast.model.topic_records import part_name
from holdfast.model.wildcards import Pattern


class WildDurable:
    """One durable subscription of a wildcard."""

    __slots__ = ("lasting", "patterns", "selector")

    def __init__(
        self, lasting: LastingSubscription, pattern: Pattern, selector: MessageSelector | None
    ) -> None:
        self.lasting = lasting
        self.patterns = (pattern,)
        self.selector = selector
        """What its parts want, read."""

    @property
    def number(self) -> int:
        """Its own, by which its parts name it."""
        return self.lasting.number

    def key_on(self, topic_number: int) -> SubscriptionKey:
        """Give by what its part on a topic is known."""
        return self.lasting.client_id, part_name(self.number, topic_number)


class Patterns:
    """All of them, as one leader has them."""

    __slots__ = ("_wildcards", "by_number", "change_count", "effort")

    def __init__(self) -> None:
        self._wildcards: Wildcards[WildDurable] = Wildcards()
        self.by_number: dict[int, WildDurable] = {}
        self.change_count = 0
        """How often one was made, or `unsettle` was called."""
        self.effort = 0
        """What asking all of them whether they want one message takes, in deliveries."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.by_number)

    def require_room(self, pattern: Pattern) -> None:
        """
        Refuse one more kind of patterns than there may be.

        Raises:
            DestinationError: It would be.
        """
        self._wildcards.require_room([pattern])

    def add(self, durable: WildDurable) -> None:
        """
        Take one that is made, or that the log has.

        Raises:
            DestinationError: There are too many kinds of patterns.
        """
        self._wildcards.add(durable)
        self.by_number[durable.number] = durable
        self.change_count += 1
        self.effort += 0 if durable.selector is None else durable.selector.effort

    def unsettle(self) -> None:
        """Let all that sends come to be worked out anew: who may send where has changed."""
        self.change_count += 1

    def remove(self, number: int) -> WildDurable | None:
        """Take out the one of a number, which has ended, and give it; None: it is none."""
        durable = self.by_number.pop(number, None)
        if durable is not None:
            self._wildcards.remove(durable)
            self.effort -= 0 if durable.selector is None else durable.selector.effort
        return durable

    def concern(self, topic: str) -> bool:
        """Whether any of them means a topic of this name."""
        return not topic.startswith(OWN_MARK) and self._wildcards.concern(Kind.TOPIC, topic)

    def of(self, topic: str) -> list[WildDurable]:
        """Give those that mean a topic of this name."""
        return [] if topic.startswith(OWN_MARK) else self._wildcards.of(Kind.TOPIC, topic)
