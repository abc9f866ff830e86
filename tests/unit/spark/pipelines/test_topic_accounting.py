"""
A subscription's account, of deliveries that are counted already; the counting is tested on Spark.
"""

from __future__ import annotations

from typing import Any

from holdfast.model.topic_records import SubscriptionRecord, TopicRecord, part_name
from holdfast.spark.pipelines.topic_accounting import SubscriptionAccount, account_of_topics
from holdfast.spark.pipelines.topic_rows import Moment, TopicsAndSubscriptions

ANN, BEN = (f"topic://prices?subscription={name}:mine" for name in ("ann", "ben"))


class PaperDeliveries:
    """Counts, and what was never for anybody, as Spark gives them."""

    def __init__(self, counts: list[tuple[int, str, bool, int]]) -> None:
        self.rows = [
            dict(zip(("subscription", "fate", "is_for", "count"), row, strict=True))
            for row in counts
        ]

    def groupBy(self, *_: str) -> Any:  # noqa: N802 - Spark's name
        return self

    def count(self) -> Any:
        return self

    def where(self, _: str) -> Any:
        strange = [row | {"topic": 2, "sequence": 9} for row in self.rows if not row["is_for"]]
        found = PaperDeliveries([])
        found.rows = strange
        return found

    def limit(self, _: int) -> Any:
        return self

    def collect(self) -> list[dict[str, Any]]:
        return self.rows


def known() -> TopicsAndSubscriptions:
    """One topic; ann is there, ben was."""
    found = TopicsAndSubscriptions()
    at = Moment(7, 8, 9)
    found.take(TopicRecord(2, "prices"), 2, at)
    for number, client in ((3, "ann"), (4, "ben")):
        found.take(SubscriptionRecord(number, 2, number, client, "mine"), number, at)
    found.take(None, 4, at)
    return found


def account(
    *counts: tuple[int, str, bool, int], is_whole: bool = True
) -> tuple[dict[str, SubscriptionAccount], list[str]]:
    told: Any = PaperDeliveries(list(counts))
    accounts, findings = account_of_topics(told, known(), "log", is_whole=is_whole)
    return {it.subscription: it for it in accounts}, [it.reason for it in findings]


def test_each_subscription_has_an_account_of_its_own() -> None:
    """Also one that has ended, and one for which there was nothing."""
    told, found = account((3, "live", True, 4), (3, "expired", True, 2))
    assert (told[ANN].messages, told[ANN].fates["live"], told[ANN].fates["expired"]) == (6, 4, 2)
    assert (told[BEN].messages, sum(told[BEN].fates.values())) == (0, 0)
    assert found == []


def test_what_was_never_for_it_does_not_add_up() -> None:
    """It is named with its topic; in a log that lacks its beginning it may have been for it."""
    counts = ((4, "acknowledged", True, 1), (4, "acknowledged", False, 1))
    told, found = account(*counts)
    assert not told[BEN].is_balanced
    assert found == [
        f"the account of {BEN} does not add up: 1 messages were for it, 2 have a fate",
        f"message 9 of topic://prices was acknowledged for {BEN} and never stored for it",
    ]
    told, found = account(*counts, is_whole=False)
    assert told[BEN].is_balanced
    assert found == []


def test_a_part_of_a_wildcards_subscription_is_called_as_the_whole() -> None:
    """And nodes tell of it with that, as long as it is there."""
    found, at = known(), Moment(7, 8, 9)
    found.take(TopicRecord(5, "p.*"), 5, at)
    found.take(SubscriptionRecord(6, 5, 0, "cat", "all"), 6, at)
    found.take(SubscriptionRecord(7, 2, 2, "cat", part_name(6, 2)), 7, at)
    assert found.names()[7] == "topic://prices?subscription=cat:all"
    assert found.wholes() == {7: 6}
    found.take(None, 6, at)
    assert found.wholes() == {7: 0}
    assert found.names()[7] == "topic://prices?subscription=cat:all"
