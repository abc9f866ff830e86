"""
What holds for one destination: the log's policies, from the general to the exact, and defaults.

The leader alone asks, when somebody subscribes or rejects, never for a message that goes its way.
What was found for a queue or topic is kept with it until a policy changes.

Of one key the pattern counts that says most of the name (`model.wildcards`); where a file and an
operator have the same pattern, the operator.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.broker.lasting.policies import Policies
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving.effective import Effective, lifetimes_of, sharing_of
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import PolicyError
from holdfast.model.destination import Kind
from holdfast.model.limits import QUEUE_NAME_BYTES_MAX
from holdfast.model.policies import (
    DISCARD,
    INDIVIDUAL,
    OPTIONS,
    TRUE,
    Value,
    read_values,
    redelivery_of,
)
from holdfast.model.records import PolicyRecord
from holdfast.model.wildcards import Shape, parse_pattern


class Sourced(NamedTuple):
    """What one key is for one destination, and whose word that is."""

    value: Value
    record: PolicyRecord | None
    """None: its default."""


@dataclass(slots=True)
class _Said:
    """What is said by one pattern: in a file, and at run time, which counts."""

    in_file: PolicyRecord | None = None
    at_run_time: PolicyRecord | None = None

    def records(self) -> Iterator[PolicyRecord]:
        for record in (self.in_file, self.at_run_time):
            if record is not None:
                yield record


class PolicyBook:
    """The policies of the log, to be looked up by name."""

    __slots__ = ("_by_shape", "_read_at", "_read_of", "_settings", "_state")

    def __init__(self, settings: BrokerSettings, state: BrokerState) -> None:
        self._settings = settings
        self._state = state
        self._read_of: Policies | None = None
        self._read_at = 0
        self._by_shape: dict[Kind, dict[Shape, dict[tuple[str, ...], _Said]]] = {}
        """By what their parts of their own are, so that a thousand cost no more than a few."""

    def of(self, destination: Queue | Topic) -> Effective:
        """Give what holds for a destination now."""
        found = destination.policy
        if found is None or found.change_count != self._state.policies.change_count:
            found = destination.policy = self._look_up(destination)
        return found

    def _look_up(self, destination: Queue | Topic) -> Effective:
        kind = Kind.QUEUE if isinstance(destination, Queue) else Kind.TOPIC
        name = destination.name
        # A temporary one belongs to its connection; nobody means it by a pattern.
        said = {} if destination.is_temporary else self._said_of(kind, name)
        values = {key: it.value for key, it in self._with_defaults(kind, said).items()}
        prefetch = values["queuePrefetch" if kind is Kind.QUEUE else "topicPrefetch"]
        assert isinstance(prefetch, int), "it was read so"
        target = "" if kind is Kind.TOPIC else self._dead_letter_queue(name, values)
        count = self._state.policies.change_count
        redelivery = redelivery_of({key: it.value for key, it in said.items()})
        effective = Effective(count, min(prefetch, self._settings.prefetch_max), target, redelivery)
        if kind is Kind.TOPIC:
            return effective
        browser_prefetch = min(int(values["queueBrowserPrefetch"]), self._settings.prefetch_max)
        return effective._replace(
            browser_prefetch=browser_prefetch,
            sharing=sharing_of(values),
            keeps_volatile=values["processNonPersistent"] == TRUE,
            delivery_ms_max=1000 * int(values["deliverySecondsMax"]),
            lifetimes=lifetimes_of(values),
        )

    def _dead_letter_queue(self, name: str, values: dict[str, Value]) -> str:
        strategy = values["deadLetterStrategy"]
        if strategy == DISCARD:
            return ""
        if strategy == INDIVIDUAL:
            own = f"{values['queuePrefix']}{name}{values['queueSuffix']}"
            if len(own.encode()) <= QUEUE_NAME_BYTES_MAX:
                return own
        return str(values["deadLetterQueue"])

    def explain(self, kind: Kind, name: str) -> dict[str, Sourced]:
        """Say of every key what it is for a destination, and whose word that is."""
        return self._with_defaults(kind, self._said_of(kind, name))

    def _with_defaults(self, kind: Kind, said: dict[str, Sourced]) -> dict[str, Sourced]:
        return {
            option.name: said.get(option.name) or Sourced(self._default_of(option.name), None)
            for option in OPTIONS.values()
            if option.kind is kind
        }

    def _default_of(self, name: str) -> Value:
        option = OPTIONS[name]
        if not option.setting:
            return option.default
        value: Value = getattr(self._settings, option.setting.rpartition(".")[2])
        return value

    def _said_of(self, kind: Kind, destination: str) -> dict[str, Sourced]:
        """Give what is said of a destination, key by key."""
        policies = self._state.policies
        if self._read_of is not policies or self._read_at != policies.change_count:
            self._read(policies)
        parts = destination.split(".")
        matching: list[tuple[Shape, _Said]] = []
        for shape, by_key in self._by_shape.get(kind, {}).items():
            key = shape.key_of(parts)
            said = None if key is None else by_key.get(key)
            if said is not None:
                matching.append((shape, said))
        found: dict[str, Sourced] = {}
        for _, said in sorted(matching, key=lambda each: each[0].rank):
            for record in said.records():
                # A later version may know more of a key than this one.
                values = read_values(kind, json.loads(record.values)).values
                found |= {name: Sourced(value, record) for name, value in values.items()}
        return found

    def _read(self, policies: Policies) -> None:
        """Put the patterns in order; what a later version may have written as one means nothing."""
        by_shape: dict[Kind, dict[Shape, dict[tuple[str, ...], _Said]]] = {}
        for key, record in policies.by_key.items():
            try:
                pattern = parse_pattern(key.pattern)
            except PolicyError:
                continue  # The revision of a file.
            of_kind = by_shape.setdefault(pattern.kind, {})
            said = of_kind.setdefault(pattern.shape, {}).setdefault(pattern.key, _Said())
            if key.is_of_file:
                said.in_file = record
            else:
                said.at_run_time = record
        self._by_shape = by_shape
        self._read_of, self._read_at = policies, policies.change_count
