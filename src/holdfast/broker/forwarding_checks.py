"""
What policies must keep to that forward messages: no circle, and selectors that can be read.

Looked at as an operator says something or takes it back, as a file is read, and as the leader
brings one into the log, together with what operators said. In steps, as a thousand lists take a
third of a second. What comes to be a circle all the same loses nothing (`addressing`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from holdfast.broker.lasting.policies import Policies, PolicyKey
from holdfast.broker.serving.policies import PolicyBook
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import PolicyError, SelectorError
from holdfast.model.destination import Destination, Kind
from holdfast.model.forwarding import mirror_of, read_forwards
from holdfast.model.policies import as_text
from holdfast.model.policy_option import DIRECTING, FORWARD_TO, Value
from holdfast.model.records import PolicyRecord
from holdfast.model.virtual_topics import Form
from holdfast.model.wildcards import ONE, Pattern, parse_pattern

_LOOKED_AT_MAX: Final = 4_096
"""So many destinations are looked at, one after the other: no message goes to as many."""


class _Holder:
    """Has policies as a state of the broker has them."""

    def __init__(self, policies: Policies) -> None:
        self.policies = policies


class Ways:
    """From where to where messages would go, if these policies held."""

    def __init__(self, records: Mapping[PolicyKey, PolicyRecord]) -> None:
        policies = Policies()
        policies.by_key = {key: it for key, it in records.items() if it.values and key.pattern}
        self._book = PolicyBook(BrokerSettings(), _Holder(policies))
        patterns = [parse_pattern(each) for each in {key.pattern for key in policies.by_key}]
        queues = [each for each in patterns if each.kind is Kind.QUEUE]
        self._queues = [Destination(Kind.QUEUE, it.text) for it in queues if it.is_exact]
        """Those of which something is said by their own names: they may consume virtual topics."""
        self._wide = [it for it in queues if not it.is_exact]
        """Those that may mean queues which do."""
        self._fills: dict[str, set[tuple[str, ...]]] = {}
        """By the prefix of virtual topics' queues, what its `*` may be by these patterns."""
        self._lists = [it.values for it in policies.by_key.values() if FORWARD_TO in it.values]
        self._exact = [Destination(it.kind, it.text) for it in patterns if it.is_exact]
        self._done: set[Destination] = set()

    def judge(self, pattern: Pattern, values: Mapping[str, Value]) -> Iterator[None]:
        """
        Look, in steps, if by what is said of a pattern messages come where they have been.

        Raises:
            PolicyError: They would; the places are told.
        """
        starts = dict.fromkeys(_starts(pattern, values))
        if not pattern.is_exact:
            for each in self._named():
                yield
                starts.update(dict.fromkeys(it for it in each if pattern.matches(it.kind, it.name)))
        yield from self._judge_from(starts)

    def judge_all(self) -> Iterator[None]:
        """
        Look, in steps, if messages come where they have been, from wherever they are sent.

        Raises:
            PolicyError: They would; the places are told.
        """
        starts = dict.fromkeys(self._exact)
        for each in self._named():
            yield
            starts.update(dict.fromkeys(each))
        yield from self._judge_from(starts)

    def _judge_from(self, starts: Iterable[Destination]) -> Iterator[None]:
        for start in starts:
            yield from self._circle_from(start)

    def _named(self) -> Iterator[list[Destination]]:
        """Give the destinations that lists name, list by list."""
        for values in self._lists:
            text = str(json.loads(values)[FORWARD_TO])
            yield [it.destination for it in read_forwards(text)] if text else []

    def _circle_from(self, start: Destination) -> Iterator[None]:
        """Follow the ways from a place: a step for each that is reached, one as it is left."""
        way: dict[Destination, Iterator[Destination]] = {}
        following: Destination | None = start
        while len(self._done) + len(way) < _LOOKED_AT_MAX:
            if following in way:
                names = [str(it) for it in way]
                circle = [*names[names.index(str(following)) :], str(following)]
                raise PolicyError(f"messages would go in a circle: {' → '.join(circle)}")
            if following is not None and following not in self._done:
                way[following] = self._next(following)
                yield
            if not way:
                return
            place = next(reversed(way))
            following = next(way[place], None)
            if following is None:
                self._done.add(place)
                del way[place]
                yield

    def _next(self, place: Destination) -> Iterator[Destination]:
        rule = self._book.forwarding_of(place.kind, place.name)
        if rule is not None:
            for forward in rule.forwards:
                yield forward.destination
            mirror = mirror_of(place.name) if rule.is_mirrored else None
            if mirror is not None:
                yield mirror
        form = self._book.form_of(place.name) if place.kind is Kind.TOPIC else None
        if form is not None:
            yield from (it for it in self._queues if form.topic_of(it.name) == place.name)
            yield from self._of_patterns(form, place.name)

    def _of_patterns(self, form: Form, topic: str) -> Iterator[Destination]:
        """Give a queue that consumes a topic for each way in which patterns may mean one."""
        parts = form.prefix.split(".")[:-1]
        stars = [place for place, part in enumerate(parts) if part == ONE]
        if form.prefix not in self._fills:
            self._fills[form.prefix] = {
                tuple(own.get(place, ONE) for place in stars)
                for own in (dict(zip(it.shape.own, it.key, strict=True)) for it in self._wide)
            }
        for fill in self._fills[form.prefix]:
            for place, part in zip(stars, fill, strict=True):
                parts[place] = part
            yield Destination(Kind.QUEUE, f"{'.'.join(parts)}.{topic}{form.postfix}")


def _starts(pattern: Pattern, values: Mapping[str, Value]) -> Iterator[Destination]:
    """Give where a circle begins, if there is one that was none before."""
    if pattern.is_exact:
        yield Destination(pattern.kind, pattern.text)
    text = str(values.get(FORWARD_TO, ""))
    if text:
        for forward in read_forwards(text):
            yield forward.destination


def require_readable(values: Mapping[str, Value]) -> None:
    """
    Refuse a list with a selector that cannot be read.

    Raises:
        PolicyError: It has one.
    """
    text = str(values.get(FORWARD_TO, ""))
    selective = [it for it in read_forwards(text) if it.selector] if text else []
    if not selective:
        return
    # With all that reads: a node that starts is asked for no selector yet.
    from holdfast.selectors.selector import Selector  # noqa: PLC0415

    for forward in selective:
        try:
            Selector(forward.selector)
        except SelectorError as error:
            raise PolicyError(
                f"{FORWARD_TO}: the selector of '{forward.destination}' cannot be read: {error}"
            ) from error


def faults_of(file: Mapping[str, Mapping[str, Value]]) -> Iterable[tuple[str, str, str]]:
    """Give the patterns of a file whose words cannot hold: pattern, key, why."""
    forwarding = {key: it for key, it in file.items() if DIRECTING & it.keys()}
    ways = Ways(records_of(file)) if forwarding else None
    for pattern, values in forwarding.items():
        try:
            require_readable(values)
            if ways is not None:
                for _ in ways.judge(parse_pattern(pattern), values):
                    pass
        except PolicyError as error:
            yield pattern, min(DIRECTING & values.keys()), str(error)


def records_of(
    file: Mapping[str, Mapping[str, Value]], revision: int = 1
) -> dict[PolicyKey, PolicyRecord]:
    """Give what a file says as the log has it."""
    return {
        PolicyKey(True, pattern): PolicyRecord(pattern, as_text(values), revision)
        for pattern, values in file.items()
    }
