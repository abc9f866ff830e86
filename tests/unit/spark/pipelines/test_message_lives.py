"""
What a report knows of durable subscriptions before it counts; what Spark counts is tested there.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.model.topic_records import SubscriptionRecord, part_name
from holdfast.spark.pipelines.deliveries import Taker
from holdfast.spark.pipelines.message_lives import KnownQueues, _note_subscription
from holdfast.store.topic_rows import topic_row

SELECTOR = "a = 1"


def declared(number: int, name: str) -> dict[str, Any]:
    """The first event of a subscription of topic 2, as the view `events` has it."""
    record = SubscriptionRecord(number, 2, 5, "ann", name, selector=SELECTOR, first_sequence=7)
    return {"first_sequence": 7, "detail": json.dumps(topic_row(record)[1])}


@pytest.mark.parametrize(
    ("ends", "ended"),
    [({}, ()), ({3: (4, 5, 6)}, (4, 5, 6)), ({2: (7, 8, 9)}, (7, 8, 9))],
)
def test_a_subscription_is_there_until_it_or_its_topic_ends(
    ends: dict[int, tuple[int, int, int]], ended: tuple[int, ...]
) -> None:
    """With all that says what is for it."""
    known = KnownQueues(names={2: "topic://prices"})
    _note_subscription(known, 3, declared(3, "mine"), ends, {})
    found = known.subscriptions[3]
    assert found.taker == Taker(3, 2, 5, 7, *ended)
    assert (found.topic, found.client_id, found.name) == ("prices", "ann", "mine")
    assert found.selector == SELECTOR
    assert known.names[3] == "topic://prices?subscription=ann:mine"


def test_what_was_given_to_any_of_them_was_given() -> None:
    """A topic's mark is the furthest of those of its subscriptions."""
    known = KnownQueues(names={2: "topic://prices"}, marks={3: 40, 4: 90, 5: 10})
    for number in (3, 4, 5):
        _note_subscription(known, number, declared(number, f"{number}"), {}, {})
    assert known.marks[2] == 90


def test_a_part_of_a_wildcards_subscription_is_called_as_the_whole() -> None:
    """On the topic on which it stands."""
    known = KnownQueues(names={2: "topic://prices"})
    _note_subscription(known, 3, declared(3, part_name(9, 2)), {}, {9: "mine"})
    assert known.names[3] == "topic://prices?subscription=ann:mine"
    assert known.subscriptions[3].name == "mine"
