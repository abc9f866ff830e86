"""
Ablations of what a durable subscription of a wildcard rests on.

What it wants of a topic stands in the log before the first message that it wants, under every
leader; and what the last leader did not end the next one ends.
"""

from __future__ import annotations

from typing import Any

from holdfast.broker.durables import Durables
from holdfast.broker.removing import Removing
from holdfast.broker.serving.leadership import Leadership
from holdfast.broker.stored_topics import StoredTopics
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.wild_durable_clients import WILD_DURABLE

_TROUBLE = (WILD_DURABLE, "crash", "transfer")


def _give_parts_behind() -> list[Patch]:
    topic_of = StoredTopics.topic

    def found(stored: StoredTopics, name: str) -> Any:
        known = stored.known(name)
        if known is not None and known.assigned_sequence > known.newest_before + 1:
            return topic_of(stored, name)
        return known or stored.declare(name) if stored.is_stored(name) else None

    return [(StoredTopics, "topic", found)]


def _forget_wildcards() -> list[Patch]:
    return [(Leadership, "know_wildcard", lambda _leadership, _subscription: None)]


def _forget_one_part() -> list[Patch]:
    give = Durables.give_part

    def given(durables: Durables, durable: Any, topic: Any) -> None:
        if topic.number % 5:
            give(durables, durable, topic)

    return [(Durables, "give_part", given)]


def _let_go_of_what_is_needed() -> list[Patch]:
    def is_idle(removing: Removing, topic: Any) -> bool:
        return all(each.whole_number for each in topic.subscriptions.values())

    return [(Removing, "_is_idle_topic", is_idle)]


def _often(plan: Plan) -> None:
    plan.kinds[WILD_DURABLE] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


ABLATIONS = [
    Ablation(
        "let a wildcard have its part behind the first message",
        _give_parts_behind,
        _TROUBLE,
        _often,
    ),
    Ablation("forget wildcards as the leader changes", _forget_wildcards, _TROUBLE, _often),
    Ablation("forget a part now and then", _forget_one_part, _TROUBLE, _often),
    Ablation("let a part go that has something", _let_go_of_what_is_needed, _TROUBLE, _often),
]
