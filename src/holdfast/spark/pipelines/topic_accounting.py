"""
Is every message of a stored topic accounted for, for each durable subscription that was to get it?

What was for a subscription is one of live, acknowledged, expired, dropped as there were too many,
dead-lettered, moved, removed or deleted with the subscription. What was settled by it and was never
for it is counted among the fates alone: then its account does not add up.

Invariants:
    Of a log that was cleaned before its first entry only what it can show is asked.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.spark.pipelines.deliveries import DELIVERY_FATES
from holdfast.spark.pipelines.findings import FINDINGS_MAX, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, Row

    from holdfast.spark.pipelines.topic_rows import TopicsAndSubscriptions


@dataclass(slots=True)
class SubscriptionAccount:
    """What became of all that one durable subscription was to get."""

    subscription: str
    """The topic and, behind `?subscription=`, client-id and name."""
    messages: int = 0
    fates: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DELIVERY_FATES, 0))

    @property
    def is_balanced(self) -> bool:
        """Whether every message that was for it has exactly one fate, and nothing else has."""
        return self.messages == sum(self.fates.values())


def account_of_topics(
    delivered: DataFrame, known: TopicsAndSubscriptions, where: str, *, is_whole: bool
) -> tuple[list[SubscriptionAccount], list[Finding]]:
    """Account for the deliveries to each subscription; `where` is what to call the log."""
    names = known.names()
    accounts = {
        taker.subscription: SubscriptionAccount(names[taker.subscription])
        for taker in known.all_takers()
    }
    strange = Counter[int]()
    for row in delivered.groupBy("subscription", "fate", "is_for").count().collect():
        account = accounts[row["subscription"]]
        if row["is_for"]:
            account.messages += row["count"]
        elif is_whole:
            strange[row["subscription"]] += row["count"]
        else:
            continue  # It was for it before this log begins.
        account.fates[row["fate"]] += row["count"]
    found = [_unbalanced(it, where) for it in accounts.values() if not it.is_balanced]
    if strange:
        rows = delivered.where("NOT is_for").limit(FINDINGS_MAX).collect()
        found += _strange(rows, names, where)
    return sorted(accounts.values(), key=lambda it: it.subscription), found


def _unbalanced(account: SubscriptionAccount, where: str) -> Finding:
    total = sum(account.fates.values())
    return Finding(
        where=where,
        kind="account",
        reason=f"the account of {account.subscription} does not add up: {account.messages:,}"
        f" messages were for it, {total:,} have a fate",
        queue=account.subscription,
    )


def _strange(rows: Iterable[Row], names: dict[int, str], where: str) -> list[Finding]:
    """What a subscription was done with that was never for it."""
    return [
        Finding(
            where=where,
            kind="message",
            reason=f"message {row['sequence']:,} of {names[row['topic']]} was {row['fate']} for"
            f" {names[row['subscription']]} and never stored for it",
            queue=names[row["subscription"]],
            sequence=row["sequence"],
        )
        for row in rows
    ]
