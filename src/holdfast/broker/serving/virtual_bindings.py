"""
Queues with wildcards in their names that consume virtual topics: each stands for others, which come
into being with the first message for them.

`Consumer.A.VirtualTopic.>` is declared by who subscribes to that. Nothing is ever on it: what is
sent to `VirtualTopic.orders` goes to `Consumer.A.VirtualTopic.orders`, be it there yet or not.

Invariants:
    It follows from the names of the queues, so each leader finds out for itself.
    One message is never for two queues of one application because of two names that mean its topic.
    The mirror of a queue is meant only by a name that says `VirtualTopic.Mirror.` itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.model.destination import has_wildcards
from holdfast.model.forwarding import is_mirror
from holdfast.model.limits import QUEUE_NAME_BYTES_MAX
from holdfast.model.virtual_topics import Form
from holdfast.model.wildcards import Shape, parse_pattern

_REMEMBERED_MAX: Final = 4096
_MIRRORS_OWN: Final = (0, 1)
"""Which parts of its own a pattern has that says itself that it means mirrors of queues."""


class _Around(NamedTuple):
    """What stands around a topic's name in that of a queue that consumes it."""

    head: str
    tail: str


class Bindings:
    """Those of one form."""

    __slots__ = ("_by_shape", "_found", "_form", "names")

    def __init__(self, form: Form) -> None:
        self._form = form
        self.names: dict[str, None] = {}
        self._by_shape: dict[Shape, dict[tuple[str, ...], dict[_Around, None]]] = {}
        """By the topics that are meant: what stands around their names."""
        self._found: dict[str, tuple[str, ...]] = {}
        """By topic, what was found; of some thousand at most."""

    def add(self, queue: str, topics: str) -> None:
        """Note a queue that consumes all topics that a pattern means."""
        self.names[queue] = None
        pattern = parse_pattern(f"topic://{topics}")
        by_key = self._by_shape.setdefault(pattern.shape, {})
        by_key.setdefault(pattern.key, {})[self._around(queue, topics)] = None
        self._found.clear()

    def remove(self, queue: str, topics: str) -> None:
        """Forget one, if it is there."""
        if self.names.pop(queue, self) is self:
            return
        pattern = parse_pattern(f"topic://{topics}")
        by_key = self._by_shape[pattern.shape]
        around = by_key[pattern.key]
        del around[self._around(queue, topics)]
        if not around:
            del by_key[pattern.key]
        if not by_key:
            del self._by_shape[pattern.shape]
        self._found.clear()

    def of(self, topic: str) -> tuple[str, ...]:
        """
        Give the queues that a message to a topic is for, as these have it; each once.

        What a queue could not be called, as it is too long, is left out.
        """
        found = self._found.get(topic)
        if found is None:
            if len(self._found) >= _REMEMBERED_MAX:
                self._found.clear()
            found = self._found[topic] = self._look_up(topic)
        return found

    def _look_up(self, topic: str) -> tuple[str, ...]:
        if has_wildcards(topic):
            return ()
        parts = topic.split(".")
        around: dict[_Around, None] = {}
        is_of_mirror = is_mirror(topic)
        for shape, by_key in self._by_shape.items():
            key = shape.key_of(parts)
            if key is not None and not (is_of_mirror and shape.own[:2] != _MIRRORS_OWN):
                around |= by_key.get(key, {})
        names = (f"{each.head}{topic}{each.tail}" for each in around)
        return tuple(name for name in names if len(name.encode()) <= QUEUE_NAME_BYTES_MAX)

    def _around(self, queue: str, topics: str) -> _Around:
        tail = self._form.postfix
        return _Around(queue.removesuffix(tail).removesuffix(topics), tail)


def topics_of(queue: str, form: Form) -> str | None:
    """
    Give the pattern of the topics that a queue with wildcards in its name consumes; None: of none.

    Which application it is must be said: a wildcard there means the queues of all of them.
    """
    if not has_wildcards(queue):
        return None
    topics = form.topic_of(queue)
    if topics is None or not has_wildcards(topics):
        return None
    before = queue.removesuffix(form.postfix).removesuffix(topics)
    return None if "*" in before.split(".") else topics
