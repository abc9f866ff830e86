"""
Names of queues: learned on the way, told beforehand, or looked for once.
"""

from __future__ import annotations

from holdfast.model.records import QueueRecord
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord, part_name
from holdfast.spark.log.naming import Naming
from holdfast.spark.log.record_table import RecordTable
from trials.pipeline.written_log import block_of, message


def test_declarations_are_learned_on_the_way() -> None:
    """Also the copy that the cleaner writes."""
    naming = Naming({1: "known"})
    naming.learn(
        RecordTable(block_of([message(2, 1)], [QueueRecord(2, "late"), QueueRecord(3, "x")]))
    )
    assert ["known", "late", "x", None, None] == naming.of([1, 2, 3, 4, None])


def test_the_log_is_searched_only_for_what_is_unknown_and_once() -> None:
    """A deleted queue whose declaration is gone must not cost a search per batch."""
    searches = []

    def search(wanted: set[int]) -> dict[int, str]:
        searches.append(wanted)
        return {5: "found"}

    naming = Naming({1: "known"}, search=search)
    assert ["known"] == naming.of([1])
    assert [] == searches
    assert [None, "found", "known"] == naming.of([4, 5, 1])
    assert [None, "found"] == naming.of([4, 5])
    assert [{4, 5}] == searches
    assert [None] == naming.of([6])
    assert [{4, 5}, {6}] == searches


def test_a_part_of_a_durable_subscription_is_called_by_whose_it_is() -> None:
    """What its record says of that no eye can read."""
    naming = Naming({})
    wholes = [TopicRecord(1, "a.>"), SubscriptionRecord(2, 1, 0, "ann", "mine")]
    parts = [TopicRecord(3, "a.x"), SubscriptionRecord(4, 3, 0, "ann", part_name(2, 3))]
    naming.learn(RecordTable(block_of([*wholes, *parts])))
    assert naming.of([2, 4]) == [
        "topic://a.>?subscription=ann:mine",
        "topic://a.x?subscription=ann:#2",
    ]
