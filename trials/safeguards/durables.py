"""
Ablations of what a durable subscription rests on.

A message says who does not want it, whoever leads later, and each leader knows who does not want
what he sends himself; a copy by the cleaner says who is done
with it; and a client is told that it has one when the log has it.
"""

from __future__ import annotations

from typing import Any

from holdfast.broker import cleaning_topics
from holdfast.broker.lasting.topic_index import bitmap_of
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.durable import StoredTopic
from holdfast.model.topic_records import SubscriptionRecord
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.durable_clients import DURABLE
from trials.simulation.faults import Plan

_TROUBLE = (DURABLE, "crash", "transfer")


def _ask_no_selector() -> list[Patch]:
    skips_of = StoredTopic.skips_of

    def skips(topic: StoredTopic, sequence: int, message: Any, client_id: str = "") -> bytes:
        selective, topic.selective = topic.selective, {}
        found = skips_of(topic, sequence, message, client_id)
        topic.selective = selective
        return found

    return [(StoredTopic, "skips_of", skips)]


def _forget_whose_it_is() -> list[Patch]:
    lead = StoredTopic.__init__

    def led(topic: StoredTopic, lasting: Any, *given: Any) -> None:
        lead(topic, lasting, *given)
        topic.no_local.clear()

    return [(StoredTopic, "__init__", led)]


def _copy_for_all() -> list[Patch]:
    def skips(_broker: Any, topic: Any, sequence: int, _leaving: Any) -> bytes:
        indexes = [each.index for each in topic.subscriptions.values()]
        return bitmap_of(each.slot for each in indexes if sequence < each.begin)

    return [(cleaning_topics, "skips_to_be", skips)]


def _forget_who_subscribes() -> list[Patch]:
    record = Receipts.record

    def recorded(receipts: Receipts, written: Any) -> None:
        if type(written) is not SubscriptionRecord:
            record(receipts, written)

    return [(Receipts, "record", recorded)]


def _often(plan: Plan) -> None:
    plan.kinds[DURABLE] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


ABLATIONS = [
    Ablation("let no selector leave a message out", _ask_no_selector, _TROUBLE, _often),
    Ablation("forget who does not want his own", _forget_whose_it_is, _TROUBLE, _often),
    Ablation("write a topic's message again for all", _copy_for_all, _TROUBLE, _often),
    Ablation("log no durable subscription", _forget_who_subscribes, _TROUBLE, _often),
]
