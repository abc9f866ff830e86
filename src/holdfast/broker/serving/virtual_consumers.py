"""
Which queues consume which virtual topic, as a leader has it.

Invariants:
    It follows from the names of the queues and the form of the topic's, so each leader finds out
    for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from holdfast.broker.serving.virtual_bindings import Bindings, topics_of
from holdfast.model.destination import has_wildcards
from holdfast.model.limits import VIRTUAL_CONSUMERS_MAX
from holdfast.model.virtual_topics import DEFAULT_FORM, Form

_FORMS_MAX: Final = 64
"""Of so many forms it is kept which queues have which topic; of one more it is looked up anew."""
_LOOKED_AT_PER_STEP: Final = 256
"""So many names are held against one form in a step: each takes up to 2 µs."""
_LOOKED_AT_ONCE_MAX: Final = 1_024
"""Of so many it is not worth the steps."""


class _OfForm:
    """Names of queues of one form, by the virtual topic that they consume."""

    __slots__ = ("_form", "bindings", "by_topic")

    def __init__(self, form: Form) -> None:
        self._form = form
        self.by_topic: dict[str, dict[str, None]] = {}
        self.bindings = Bindings(form)

    def add(self, queue: str) -> None:
        """Note that there is a queue of this name."""
        if (topics := topics_of(queue, self._form)) is not None:
            self.bindings.add(queue, topics)
        elif (topic := self._form.topic_of(queue)) is not None:
            self.by_topic.setdefault(topic, {})[queue] = None

    def remove(self, queue: str) -> None:
        """Note that there is none any more."""
        if (topics := topics_of(queue, self._form)) is not None:
            self.bindings.remove(queue, topics)
        elif (topic := self._form.topic_of(queue)) is not None:
            of_topic = self.by_topic.get(topic, {})
            of_topic.pop(queue, None)
            if not of_topic:
                self.by_topic.pop(topic, None)

    def of(self, topic: str) -> list[str]:
        """Give all that consume a topic."""
        found = self.by_topic.get(topic, {})
        if not self.bindings.names:
            return list(found)
        return [*found, *(name for name in self.bindings.of(topic) if name not in found)]

    def is_full(self, topic: str, queues: set[str]) -> bool:
        """Whether new queues of these names may not all consume a topic; what is bound may."""
        there = self.of(topic)
        new = queues.difference(there)
        return bool(new) and len(there) + len(new) > VIRTUAL_CONSUMERS_MAX


class VirtualConsumers:
    """Names of queues, by form and by the virtual topic that they consume."""

    __slots__ = ("_by_form", "_coming", "_names", "form_serial")

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        """Take where to get the names of all queues: they are looked through once for each form."""
        self._names = names
        self._by_form: dict[Form, _OfForm] = {}
        self._coming: dict[Form, tuple[_OfForm, list[str]]] = {}
        """Those by which all names are being looked through, with these; what is new is behind."""
        self.form_serial = 0
        """Of the last form by which they were looked through."""

    def add(self, queue: str) -> None:
        """Note that there is a queue of this name."""
        for of_form in self._by_form.values():
            of_form.add(queue)
        for _, names in self._coming.values():
            names.append(queue)

    def remove(self, queue: str) -> None:
        """Note that there is none any more."""
        for of_form in (*self._by_form.values(), *(it[0] for it in self._coming.values())):
            of_form.remove(queue)

    def of(self, topic: str, form: Form) -> list[str]:
        """
        Give the queues that consume a topic of this form, in the order in which they came.

        Behind them those that are not there yet, and come into being with a message for them.
        """
        return self._of_form(form).of(topic)

    def bindings_of(self, form: Form) -> Collection[str]:
        """Give the queues of this form that have wildcards in their names."""
        return self._of_form(form).bindings.names

    def _of_form(self, form: Form) -> _OfForm:
        found = self._by_form.get(form)
        return self._look_through(form) if found is None else found

    def has_to_look(self, form: Form, count: int) -> bool:
        """Whether so many names are to be looked through by a form, which is much at once."""
        return form not in self._by_form and count > _LOOKED_AT_ONCE_MAX

    def look_through(self, form: Form, is_there: Callable[[str], bool]) -> Iterator[None]:
        """Look through all names in steps, while queues come and go; once for all who ask."""
        if form in self._coming:
            return
        of_form, names = self._coming[form] = _OfForm(form), list(self._names())
        place = 0
        while place < len(names):
            for name in names[place : place + _LOOKED_AT_PER_STEP]:
                if name.startswith(form.head) and is_there(name):
                    of_form.add(name)
            place += _LOOKED_AT_PER_STEP
            yield
        del self._coming[form]
        self._keep(form, of_form)

    def _keep(self, form: Form, of_form: _OfForm) -> None:
        if len(self._by_form) >= _FORMS_MAX:
            del self._by_form[next(iter(self._by_form))]
        self._by_form[form] = of_form
        self.form_serial += 1

    def _look_through(self, form: Form) -> _OfForm:
        of_form = _OfForm(form)
        self._keep(form, of_form)
        head = form.head
        for name in self._names():
            if name.startswith(head):
                of_form.add(name)
        return of_form

    def look_ahead(self, forms: Sequence[Form], names: Sequence[str]) -> Iterator[None]:
        """
        Look through all names in steps, for some forms, before anybody asks.

        For who prepares to lead: no queue comes or goes meanwhile.
        """
        found = {form: _OfForm(form) for form in forms}
        heads = [(form.head, of_form) for form, of_form in found.items()]
        per_step = max(1, _LOOKED_AT_PER_STEP // max(1, len(forms)))
        for count, name in enumerate(names, 1):
            for head, of_form in heads:
                if name.startswith(head):
                    of_form.add(name)
            if not count % per_step:
                yield
        for form, of_form in found.items():
            self._by_form.setdefault(form, of_form)
        self.form_serial += 1

    def consumed_by(self, queue: str, form_of: Callable[[str], Form | None]) -> Iterator[str]:
        """Give the topics that such a queue consumes, by the usual form or one asked for."""
        for form in dict.fromkeys((DEFAULT_FORM, *self._by_form)):
            topic = form.topic_of(queue)
            if topic is not None and form_of(topic) == form:
                yield topic

    def full_topic(
        self, queues: Sequence[str], form_of: Callable[[str], Form | None]
    ) -> str | None:
        """Give a topic that new queues of these names may not all consume; None: they may."""
        for form, of_form in self._by_form.items():
            more: dict[str, set[str]] = {}
            for name in queues:
                topic = form.topic_of(name)
                if topic is not None and not has_wildcards(topic):
                    more.setdefault(topic, set()).add(name)
            for topic, names in more.items():
                # Each message goes to all of a topic.
                if of_form.is_full(topic, names) and form_of(topic) == form:
                    return topic
        return None
