"""
Who listens to what the broker says of itself, found by name without asking each of them.

Those who write the same pattern, and want the same form, have one topic together, which exists
while somebody subscribes to it. What a subscriber has no room for waits, up to a number; of more
the oldest is dropped, as nobody can be let wait.

Invariants:
    A topic is here as long as somebody subscribes to it.
    Patterns with wildcards at the same places are looked up together, and there are never more such
    kinds than the limit: so what one advisory costs has a bound.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.broker.serving.backlogs import Backlogs
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.delivery import Delivery
from holdfast.broker.serving.topic import Topic
from holdfast.errors import DestinationError
from holdfast.model.destination import Kind
from holdfast.model.limits import WILDCARD_SHAPES_MAX
from holdfast.model.wildcards import Pattern, Shape

ADVISORIES_WAITING_MAX: Final = 1_000
"""So many wait for one subscriber that has no room."""


class AdvisoryTopic(Topic):
    """What all have together who listen to the same advisories in the same form."""

    __slots__ = ("_listeners", "is_xml", "pattern", "replays")

    def __init__(self, listeners: Listeners, pattern: Pattern, *, is_xml: bool) -> None:
        super().__init__(pattern.text)
        self.is_temporary = True  # No policy means it, and nobody forgets it while it is idle.
        self._listeners = listeners
        self.pattern = pattern
        self.is_xml = is_xml
        self.replays: dict[Consumer, Callable[[], None]] = {}
        """How what there is goes on to be told to whom had no room for more of it."""

    def add_subscription(self, subscription: Consumer) -> None:
        most = subscription.pending_max
        if most is None or not 0 <= most <= ADVISORIES_WAITING_MAX:
            subscription.pending_max = ADVISORIES_WAITING_MAX
        super().add_subscription(subscription)
        self._listeners.add(self)

    def means(self, name: str) -> bool:
        """Whether its listeners want an advisory of this name."""
        return self.pattern.matches(Kind.TOPIC, name)

    def drain(self, subscription: Consumer, out: deque[Delivery], backlogs: Backlogs) -> bool:
        unblocks = super().drain(subscription, out, backlogs)
        if not subscription.pending and subscription in self.replays and subscription.has_room():
            self.replays.pop(subscription)()
        return unblocks

    def close_subscription(self, subscription: Consumer, backlogs: Backlogs) -> bool:
        self.replays.pop(subscription, None)
        unblocks = super().close_subscription(subscription, backlogs)
        if not self.subscriptions:
            self._listeners.remove(self)
        return unblocks


class Listeners:
    """The topics of advisories that somebody listens to."""

    __slots__ = ("_by_name", "_by_shape", "_tell_heard")

    def __init__(self, tell_heard: Callable[[bool], None] = lambda _is_heard: None) -> None:
        self._tell_heard = tell_heard
        """Is told whether anybody listens, as that changes."""
        self._by_name: dict[str, dict[bool, AdvisoryTopic]] = {}
        self._by_shape: dict[Shape, dict[tuple[str, ...], dict[bool, AdvisoryTopic]]] = {}

    def __len__(self) -> int:
        """How many patterns there are, or kinds of those with wildcards: none where nobody is."""
        return len(self._by_name) + len(self._by_shape)

    @property
    def effort(self) -> int:
        """What it takes at most to find and serve all of one name, counted in deliveries."""
        return len(self._by_shape) >> 1

    def topic(self, pattern: Pattern, *, is_xml: bool) -> AdvisoryTopic:
        """
        Give the topic of a pattern.

        Raises:
            DestinationError: There are too many kinds of patterns.
        """
        found = self._those_of(pattern).get(is_xml)
        if found is not None:
            return found
        is_new_shape = not pattern.is_exact and pattern.shape not in self._by_shape
        if is_new_shape and len(self._by_shape) >= WILDCARD_SHAPES_MAX:
            raise DestinationError(
                f"who listens to advisories has wildcards at {len(self._by_shape):,} different"
                f" places in names already; at most {WILDCARD_SHAPES_MAX:,}"
            )
        return AdvisoryTopic(self, pattern, is_xml=is_xml)

    def of(self, name: str) -> list[AdvisoryTopic]:
        """Give the topics whose listeners want an advisory of this name."""
        found = [*self._by_name.get(name, {}).values()]
        if self._by_shape:
            parts = name.split(".")
            for shape, by_key in self._by_shape.items():
                key = shape.key_of(parts)
                if key is not None:
                    found += by_key.get(key, {}).values()
        return found

    def _those_of(self, pattern: Pattern) -> dict[bool, AdvisoryTopic]:
        if pattern.is_exact:
            return self._by_name.get(pattern.text, {})
        return self._by_shape.get(pattern.shape, {}).get(pattern.key, {})

    def add(self, topic: AdvisoryTopic) -> None:
        """Note that somebody subscribes to a topic."""
        pattern = topic.pattern
        self._tell_heard(True)
        if pattern.is_exact:
            self._by_name.setdefault(pattern.text, {})[topic.is_xml] = topic
        else:
            by_key = self._by_shape.setdefault(pattern.shape, {})
            by_key.setdefault(pattern.key, {})[topic.is_xml] = topic

    def remove(self, topic: AdvisoryTopic) -> None:
        """Forget a topic that nobody subscribes to any more."""
        topic.delete()
        pattern = topic.pattern
        if self._those_of(pattern).pop(topic.is_xml, None) is None or self._those_of(pattern):
            return
        if pattern.is_exact:
            del self._by_name[pattern.text]
        else:
            by_key = self._by_shape[pattern.shape]
            del by_key[pattern.key]
            if not by_key:
                del self._by_shape[pattern.shape]
        self._tell_heard(len(self) > 0)

    def clear(self) -> None:
        """Forget all: the leadership is over."""
        self._by_name.clear()
        self._by_shape.clear()
        self._tell_heard(False)
