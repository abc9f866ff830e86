"""
Which queues consume which virtual topic, as a leader has it.

Invariants:
    It follows from the names of the queues and the form of the topic's, so each leader finds out
    for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from holdfast.model.limits import VIRTUAL_CONSUMERS_MAX
from holdfast.model.virtual_topics import Form

_FORMS_MAX: Final = 64
"""Of so many forms it is kept which queues have which topic; of one more it is looked up anew."""
_LOOKED_AT_PER_STEP: Final = 256
"""So many names are held against one form in a step: each takes up to 2 µs."""


class VirtualConsumers:
    """Names of queues, by form and by the virtual topic that they consume."""

    __slots__ = ("_by_form", "_names")

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        """Take where to get the names of all queues: they are looked through once for each form."""
        self._names = names
        self._by_form: dict[Form, dict[str, dict[str, None]]] = {}

    def add(self, queue: str) -> None:
        """Note that there is a queue of this name."""
        for form, by_topic in self._by_form.items():
            topic = form.topic_of(queue)
            if topic is not None:
                by_topic.setdefault(topic, {})[queue] = None

    def remove(self, queue: str) -> None:
        """Note that there is none any more."""
        for form, by_topic in self._by_form.items():
            topic = form.topic_of(queue)
            if topic is not None:
                of_topic = by_topic.get(topic, {})
                of_topic.pop(queue, None)
                if not of_topic:
                    by_topic.pop(topic, None)

    def of(self, topic: str, form: Form) -> list[str]:
        """Give the queues that consume a topic of this form, in the order in which they came."""
        by_topic = self._by_form.get(form)
        if by_topic is None:
            by_topic = self._look_through(form)
        return list(by_topic.get(topic, ()))

    def _look_through(self, form: Form) -> dict[str, dict[str, None]]:
        if len(self._by_form) >= _FORMS_MAX:
            del self._by_form[next(iter(self._by_form))]
        by_topic = self._by_form[form] = {}
        head = form.head
        for name in self._names():
            topic = form.topic_of(name) if name.startswith(head) else None
            if topic is not None:
                by_topic.setdefault(topic, {})[name] = None
        return by_topic

    def look_ahead(self, forms: Sequence[Form], names: Sequence[str]) -> Iterator[None]:
        """
        Look through all names in steps, for some forms, before anybody asks.

        For who prepares to lead: no queue comes or goes meanwhile.
        """
        found: dict[Form, dict[str, dict[str, None]]] = {form: {} for form in forms}
        heads = [(form, form.head) for form in forms]
        per_step = max(1, _LOOKED_AT_PER_STEP // max(1, len(forms)))
        for count, name in enumerate(names, 1):
            for form, head in heads:
                topic = form.topic_of(name) if name.startswith(head) else None
                if topic is not None:
                    found[form].setdefault(topic, {})[name] = None
            if not count % per_step:
                yield
        for form, by_topic in found.items():
            self._by_form.setdefault(form, by_topic)

    def full_topic(
        self, queues: Sequence[str], form_of: Callable[[str], Form | None]
    ) -> str | None:
        """Give a topic that new queues of these names may not all consume; None: they may."""
        for form, by_topic in self._by_form.items():
            more = Counter(topic for name in queues if (topic := form.topic_of(name)) is not None)
            for topic, count in more.items():
                if len(by_topic.get(topic, ())) + count <= VIRTUAL_CONSUMERS_MAX:
                    continue
                if form_of(topic) == form:  # Each message goes to all of a topic.
                    return topic
        return None
