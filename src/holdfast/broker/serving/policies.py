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
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from holdfast.broker.lasting.policies import Policies
from holdfast.broker.lasting.topics import SubscriptionKey
from holdfast.broker.serving.burials import Burials
from holdfast.broker.serving.durable import DurableQueue, StoredTopic
from holdfast.broker.serving.effective import (
    Effective,
    Keeping,
    Limits,
    advisories_of,
    keeping_of,
    lifetimes_of,
    limits_of,
    recovery_of,
    sharing_of,
    slow_rule_of,
)
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import PolicyError
from holdfast.model.advisory_options import ADVISED_BY
from holdfast.model.destination import Kind
from holdfast.model.forwarding import Forwarding
from holdfast.model.own_dead_letters import fits, own_queues
from holdfast.model.policies import form_from, forwarding_from, read_values, redelivery_of
from holdfast.model.policy_option import DIRECTING, FLOW_CONTROL, KEEPING, Value
from holdfast.model.policy_options import (
    DISCARD,
    INDIVIDUAL,
    OPTIONS,
    OWN_OF_DURABLES,
    TRUE,
)
from holdfast.model.records import PolicyRecord
from holdfast.model.recovery_options import RECOVERY_POLICY
from holdfast.model.redelivery import Redelivery
from holdfast.model.sharing_options import PAUSED
from holdfast.model.virtual_topics import Form, form_of
from holdfast.model.wildcards import Shape, parse_pattern

_FORWARDINGS_COUNT_MAX: Final = 4096
_WORKED_OUT_COUNT_MAX: Final = 1024


class HasPolicies(Protocol):
    """The lasting state, as far as it is looked at here."""

    @property
    def policies(self) -> Policies:
        """What the log says of destinations by pattern."""


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


class _WorkedOut(NamedTuple):
    """What holds for all destinations that the same policies mean."""

    effective: Effective
    """But for where their dead letters go."""
    values: dict[str, Value]


class PolicyBook:
    """The policies of the log, to be looked up by name."""

    __slots__ = (
        *("_advises_anything", "_by_shape", "_directs_anything", "_forms", "_forwardings"),
        *("_keeps_less", "_pauses_anything", "_read_at", "_read_of", "_recovers_anything"),
        *("_settings", "_state", "_worked_out", "burials"),
    )

    def __init__(self, settings: BrokerSettings, state: HasPolicies) -> None:
        self._settings = settings
        self._state = state
        self._read_of: Policies | None = None
        self._read_at = 0
        self._by_shape: dict[Kind, dict[Shape, dict[tuple[str, ...], _Said]]] = {}
        """By what their parts of their own are, so that a thousand cost no more than a few."""
        self._directs_anything = self._keeps_less = self._advises_anything = False
        self._recovers_anything = self._pauses_anything = False
        self._forwardings: dict[tuple[Kind, str], Forwarding | None] = {}
        """What was worked out, of some thousand destinations at most."""
        self._forms: dict[str, Form | None] = {}
        """The same of topics: how the queues are called that consume them."""
        self._worked_out: dict[tuple[Kind, tuple[int, ...]], _WorkedOut] = {}
        """The same by the policies that mean a destination: most are meant by the same ones."""
        self.burials = Burials(self.forwarding_of, self._dead_letters_of)
        """Where dead letters stand."""

    def of(self, destination: Queue | Topic) -> Effective:
        """Give what holds for a destination now."""
        found = destination.policy
        if found is None or found.change_count != self._state.policies.change_count:
            found = destination.policy = self._look_up(destination)
        return found

    def _look_up(self, destination: Queue | Topic) -> Effective:
        kind = Kind.QUEUE if isinstance(destination, Queue) else Kind.TOPIC
        name = destination.name
        self._keep_up()
        # A temporary one belongs to its connection; nobody means it, or a subscription, by a
        # pattern.
        is_meant = not destination.is_temporary and type(destination) in (Queue, Topic)
        if isinstance(destination, DurableQueue):
            return self._of_durable(destination)
        records = self._records_of(kind, name) if is_meant else []
        found = self._worked_out_of(kind, records)
        if kind is Kind.TOPIC:
            return found.effective
        told_of = found
        if isinstance(destination, StoredTopic):  # All else each of its subscriptions has.
            told_of = self._worked_out_of(Kind.TOPIC, self._records_of(Kind.TOPIC, name))
        target = self._dead_letter_queue(name, found.values, "queue")
        places = self.burials.places(target)
        return found.effective._replace(
            dead_letter_queue=target,
            dead_letter_places=places,
            keeps_dead_letters=is_meant and (name == target or name in places),
            advisories=told_of.effective.advisories,
        )

    def _of_durable(self, subscription: DurableQueue) -> Effective:
        """Give what holds for a durable subscription, as its topic's policies say it."""
        topic = subscription.topic.name
        said = self._worked_out_of(Kind.TOPIC, self._records_of(Kind.TOPIC, topic))
        keeping = keeping_of(said.values)
        values = self._worked_out_of(Kind.QUEUE, []).values | {
            key: value for key, value in said.values.items() if OPTIONS[key].is_of_both
        }
        is_own = said.values[OWN_OF_DURABLES] == TRUE
        whose = subscription.client_key if is_own else None
        target = self._dead_letter_queue(topic, said.values, "topic", whose)
        return self._of_queue(values, said.effective.redelivery)._replace(
            prefetch=min(keeping.prefetch, self._settings.prefetch_max),
            limits=keeping.limits,
            dead_letter_queue=target,
            dead_letter_places=self.burials.places(target),
        )

    def keeping_of(self, topic: str) -> Keeping:
        """Give what a topic's durable subscriptions may keep."""
        self._keep_up()
        records = self._records_of(Kind.TOPIC, topic)
        return keeping_of(self._worked_out_of(Kind.TOPIC, records).values)

    def _worked_out_of(self, kind: Kind, records: list[PolicyRecord]) -> _WorkedOut:
        """Give what these policies say together."""
        key = (kind, tuple(map(id, records)))
        found = self._worked_out.get(key)
        if found is None:
            if len(self._worked_out) >= _WORKED_OUT_COUNT_MAX:
                self._worked_out.clear()
            found = self._worked_out[key] = self._work_out(kind, _said_by(kind, records))
        return found

    def _dead_letters_of(self, queue: str) -> tuple[str, Limits | None]:
        """Give where dead letters of a queue of this name go, and its limits."""
        found = self._worked_out_of(Kind.QUEUE, self._records_of(Kind.QUEUE, queue))
        return self._dead_letter_queue(queue, found.values, "queue"), found.effective.limits

    def burial_places(self, queue: Queue) -> tuple[str, ...]:
        """
        Give the queues where a queue's dead letters are put; none: nowhere.

        What may come back is copied nowhere, as it would double on each round: it is only moved.
        """
        policy = self.of(queue)
        places = policy.dead_letter_places
        if len(places) > 1 and self.burials.lead_back(queue.name, policy.dead_letter_queue):
            return places[:1]
        return places

    def _work_out(self, kind: Kind, said: dict[str, Sourced]) -> _WorkedOut:
        values = {key: it.value for key, it in self._with_defaults(kind, said).items()}
        redelivery = redelivery_of({key: it.value for key, it in said.items()})
        if kind is Kind.QUEUE:
            return _WorkedOut(self._of_queue(values, redelivery), values)
        count, prefetch = self._state.policies.change_count, int(values["topicPrefetch"])
        effective = Effective(
            *(count, min(prefetch, self._settings.prefetch_max), "", redelivery),
            pending_max=int(values["constantPendingMessageLimitStrategy"]),
            pending_rate=float(values["prefetchRatePendingMessageLimitStrategy"]),
            has_flow_control=values[FLOW_CONTROL] == TRUE,
            slow_rule=slow_rule_of(values),
            recovery=recovery_of(values),
            is_always_retroactive=values["alwaysRetroactive"] == TRUE,
            advisories=advisories_of(values),
        )
        return _WorkedOut(effective, values)

    def _of_queue(self, values: Mapping[str, Value], redelivery: Redelivery | None) -> Effective:
        """Give what holds where all of this is said."""
        most = self._settings.prefetch_max
        return Effective(
            self._state.policies.change_count,
            min(int(values["queuePrefetch"]), most),
            "",
            redelivery,
            browser_prefetch=min(int(values["queueBrowserPrefetch"]), most),
            sharing=sharing_of(values),
            keeps_volatile=values["processNonPersistent"] == TRUE,
            is_prioritized=values["prioritizedMessages"] == TRUE,
            suspect_after=int(values["suspectAfter"]) if redelivery is not None else 0,
            delivery_ms_max=1000 * int(values["deliverySecondsMax"]),
            lifetimes=lifetimes_of(values),
            limits=limits_of(values),
            slow_rule=slow_rule_of(values),
            advisories=advisories_of(values),
            is_paused=values[PAUSED] == TRUE,
        )

    @property
    def advises_anything(self) -> bool:
        """Whether any policy lets anything be said of any destination."""
        self._keep_up()
        return self._advises_anything

    @property
    def change_count(self) -> int:
        """How often the policies were changed."""
        return self._state.policies.change_count

    @property
    def pauses_anything(self) -> bool:
        """Whether any policy may pause any queue."""
        self._keep_up()
        return self._pauses_anything

    def is_paused(self, queue: str) -> bool:
        """Say whether nobody is given anything of a queue of this name."""
        records = self._records_of(Kind.QUEUE, queue)
        return self._worked_out_of(Kind.QUEUE, records).effective.is_paused

    @property
    def recovers_anything(self) -> bool:
        """Whether any policy lets any topic keep anything for who comes later."""
        self._keep_up()
        return self._recovers_anything

    @property
    def directs_anything(self) -> bool:
        """Whether any policy says of any destination where what is sent there goes."""
        self._keep_up()
        return self._directs_anything

    @property
    def keeps_less(self) -> bool:
        """Whether any policy says of any topic that its durable subscriptions do not keep all."""
        self._keep_up()
        return self._keeps_less

    def forwarding_of(self, kind: Kind, name: str) -> Forwarding | None:
        """Give what happens to what is sent to a destination; None: it goes there."""
        self._keep_up()
        if not self._directs_anything:
            return None
        key = (kind, name)
        if key not in self._forwardings:
            if len(self._forwardings) >= _FORWARDINGS_COUNT_MAX:
                self._forwardings.clear()
            said = self._said_of(kind, name)
            self._forwardings[key] = forwarding_from({key: it.value for key, it in said.items()})
        return self._forwardings[key]

    def form_of(self, topic: str) -> Form | None:
        """Give how the queues are called that consume a topic; None: it is no virtual one."""
        self._keep_up()
        if not self._directs_anything:
            return form_of(topic)
        if topic not in self._forms:
            if len(self._forms) >= _FORWARDINGS_COUNT_MAX:
                self._forms.clear()
            said = self._said_of(Kind.TOPIC, topic)
            self._forms[topic] = form_from(topic, {key: it.value for key, it in said.items()})
        return self._forms[topic]

    def _dead_letter_queue(
        self,
        name: str,
        values: dict[str, Value],
        kind: str,
        whose: SubscriptionKey | None = None,
    ) -> str:
        strategy = values["deadLetterStrategy"]
        if strategy == DISCARD:
            return ""
        if strategy == INDIVIDUAL:
            around = str(values[f"{kind}Prefix"]), str(values[f"{kind}Suffix"])
            for own in own_queues(around[0], name, around[1], whose):
                if fits(own):
                    return own
        return str(values["deadLetterQueue"])

    def explain(self, kind: Kind, name: str) -> dict[str, Sourced]:
        """Say of every key what it is for a destination, and whose word that is."""
        return self._with_defaults(kind, self._said_of(kind, name))

    def _with_defaults(self, kind: Kind, said: dict[str, Sourced]) -> dict[str, Sourced]:
        return {
            option.name: said.get(option.name) or Sourced(self._default_of(option.name), None)
            for option in OPTIONS.values()
            if option.is_of(kind)
        }

    def _default_of(self, name: str) -> Value:
        option = OPTIONS[name]
        if not option.setting:
            return option.default
        value: Value = getattr(self._settings, option.setting.rpartition(".")[2])
        return value

    def _said_of(self, kind: Kind, destination: str) -> dict[str, Sourced]:
        """Give what is said of a destination, key by key."""
        self._keep_up()
        return _said_by(kind, self._records_of(kind, destination))

    def _records_of(self, kind: Kind, destination: str) -> list[PolicyRecord]:
        """Give those that mean a destination; what a later one says counts."""
        parts = destination.split(".")
        matching: list[tuple[Shape, _Said]] = []
        for shape, by_key in self._by_shape.get(kind, {}).items():
            key = shape.key_of(parts)
            said = None if key is None else by_key.get(key)
            if said is not None:
                matching.append((shape, said))
        matching.sort(key=lambda each: each[0].rank)
        return [record for _, said in matching for record in said.records()]

    def _keep_up(self) -> None:
        """Read the policies, if they have changed since."""
        policies = self._state.policies
        if self._read_of is not policies or self._read_at != policies.change_count:
            self._read(policies)

    def _read(self, policies: Policies) -> None:
        """Put the patterns in order; what a later version may have written as one means nothing."""
        by_shape: dict[Kind, dict[Shape, dict[tuple[str, ...], _Said]]] = {}
        self._keeps_less = False
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
            self._keeps_less |= pattern.kind is Kind.TOPIC and _says_any_of(record, KEEPING)
        self._by_shape = by_shape
        self._forwardings.clear()
        self._forms.clear()
        self._worked_out.clear()
        self.burials.clear()
        self._directs_anything = any(
            _says_any_of(record, DIRECTING) for record in policies.by_key.values()
        )
        self._recovers_anything = any(
            _says_any_of(record, (RECOVERY_POLICY,)) for record in policies.by_key.values()
        )
        self._pauses_anything = any(
            _says_any_of(record, (PAUSED,)) for record in policies.by_key.values()
        )
        self._advises_anything = any(
            _says_any_of(record, ADVISED_BY) for record in policies.by_key.values()
        )
        self._read_of, self._read_at = policies, policies.change_count


def _says_any_of(record: PolicyRecord, names: Collection[str]) -> bool:
    """Whether a policy may say any of these keys."""
    return any(f'"{name}"' in record.values for name in names)


def _said_by(kind: Kind, records: list[PolicyRecord]) -> dict[str, Sourced]:
    """Give what these say, key by key."""
    found: dict[str, Sourced] = {}
    for record in records:
        # A later version may know more of a key than this one.
        values = read_values(kind, json.loads(record.values), is_of_log=True).values
        found |= {name: Sourced(value, record) for name, value in values.items()}
    return found
