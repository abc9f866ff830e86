"""
Is every message accounted for? Steps over the records of a log, and what is wrong with them.

Every message is exactly one of live, acknowledged, expired, dropped as its queue was full,
dead-lettered, moved to another queue, removed by an operator, purged or deleted with its queue;
what is sent at some time is scheduled or has fired for the last time, and what went out each time
is a message. A queue's and a producer's numbers have no holes; nothing is stored twice.

Invariants:
    Of a log that was cleaned before its first entry only what it can show is asked: an old message
    may be acknowledged without being stored here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from holdfast.model.limits import FLOOR_ID
from holdfast.model.numbering import LEADERS_STEP
from holdfast.spark.pipelines.findings import Finding
from holdfast.spark.pipelines.log_state import fates, messages, producer_numbers, settled
from holdfast.spark.pipelines.topic_rows import on_topics, topics_and_subscriptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FATES: Final = (
    *("live", "acknowledged", "expired", "dropped", "dead-lettered"),
    *("moved", "removed", "purged", "deleted", "scheduled", "fired"),
)
FINDINGS_MAX: Final = 1000
"""Findings of one kind that are listed; how many there are in all is told."""


@dataclass(slots=True)
class Account:
    """What became of the messages of a log."""

    messages: int = 0
    fates: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FATES, 0))
    queues: int = 0
    producers: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_balanced(self) -> bool:
        """Whether every message has exactly one fate."""
        return self.messages == sum(self.fates.values())


def take_account(records: DataFrame, where: str, *, is_whole: bool) -> Account:
    """
    Account for all messages of `records`; `where` is what to call them.

    `is_whole` says that the log is known from its first entry on.
    """
    account = Account()
    became = fates(records)
    for row in became.groupBy("fate").count().collect():
        account.fates[row["fate"]] = row["count"]
    stored = messages(records)
    counted = stored.agg(
        f.count_distinct("queue_number", "sequence").alias("messages"),
        f.count_distinct("queue_number").alias("queues"),
    ).collect()[0]
    account.messages, account.queues = counted["messages"], counted["queues"]
    account.findings += stored_twice(stored, where)
    account.findings += queue_gaps(stored, where, is_whole=is_whole)
    producers, found = producer_gaps(records, where, is_whole=is_whole)
    account.producers = producers
    account.findings += found
    if is_whole:
        account.findings += settled_unseen(records, where)
    return account


def stored_twice(stored: DataFrame, where: str) -> list[Finding]:
    """Messages that were stored as new more than once."""
    rows = (
        stored.where("NOT rewritten")
        .groupBy("queue_number", "sequence")
        .agg(
            f.count("*").alias("count"),
            f.max("index").alias("index"),
            f.first("destination", ignorenulls=True).alias("queue"),
        )
        .where("count > 1")
        .limit(FINDINGS_MAX)
        .collect()
    )
    return [
        Finding(
            where=where,
            kind="message",
            reason=f"message {row['sequence']:,} was stored {row['count']} times as new",
            first_index=row["index"],
            last_index=row["index"],
            queue=row["queue"] or f"#{row['queue_number']}",
            sequence=row["sequence"],
        )
        for row in rows
    ]


def queue_gaps(stored: DataFrame, where: str, *, is_whole: bool) -> list[Finding]:
    """
    Sequences that a queue gave to no message that is in the log.

    Where somebody else begins to lead, or a new generation begins, the numbers jump by whole steps:
    that is no hole. A record that puts many at once, as a MOVE does, numbers them in their order.
    """
    fresh = stored.where("NOT rewritten")
    order = Window.partitionBy("queue_number").orderBy("record_number", "sequence")
    before = f.lag("sequence").over(order)
    if is_whole:
        before = f.coalesce(before, f.lit(0))
    rows = (
        fresh.select("queue_number", "sequence", "index", "destination", before.alias("before"))
        .where("before IS NOT NULL AND sequence > before + 1")
        .where((f.col("sequence") - 1) % LEADERS_STEP != 0)
        .where((f.col("sequence") - f.col("before") - 1) % LEADERS_STEP != 0)
        .limit(FINDINGS_MAX)
        .collect()
    )
    return [
        Finding(
            where=where,
            kind="sequence",
            reason=f"messages {row['before'] + 1:,} to {row['sequence'] - 1:,} of the queue were"
            f" never stored, though {row['sequence']:,} was",
            first_index=row["index"],
            last_index=row["index"],
            queue=row["destination"] or f"#{row['queue_number']}",
            sequence=row["before"] + 1,
        )
        for row in rows
    ]


def producer_gaps(records: DataFrame, where: str, *, is_whole: bool) -> tuple[int, list[Finding]]:
    """
    How many producers there are, and where their numbers have holes or come twice.

    A floor is no producer's number: which one may still come, nobody counts one by one.
    """
    numbers = producer_numbers(records).where(~f.col("producer_id").startswith(FLOOR_ID))
    order = Window.partitionBy("producer_id").orderBy("record_number")
    before = f.max("producer_sequence").over(order.rowsBetween(Window.unboundedPreceding, -1))
    if is_whole:
        before = f.coalesce(before, f.lit(0))
    judged = numbers.withColumn("before", before)
    count = numbers.select("producer_id").distinct().count()
    is_gap = f.col("producer_sequence") > f.col("before") + 1
    is_double = (f.col("producer_sequence") <= f.col("before")) & ~f.col("is_repeat")
    rows = judged.where(is_gap | is_double).limit(FINDINGS_MAX).collect()
    found = []
    for row in rows:
        number, last = row["producer_sequence"], row["before"]
        reason = (
            f"its numbers jump from {last:,} to {number:,}: messages are missing"
            if number > last
            else f"its number {number:,} was stored again after {last:,}"
        )
        found.append(
            Finding(
                where=where,
                kind="producer",
                reason=f"producer {row['producer_id']}: {reason}",
                first_index=row["index"],
                last_index=row["index"],
                producer=row["producer_id"],
                sequence=number,
            )
        )
    return count, found


def settled_unseen(records: DataFrame, where: str) -> list[Finding]:
    """Acknowledgements of messages that were never stored: they were lost."""
    stored = messages(records).select("queue_number", "sequence").distinct()
    rows = (
        on_topics(settled(records), topics_and_subscriptions(records))
        .join(stored, ["queue_number", "sequence"], "left_anti")
        .limit(FINDINGS_MAX)
        .collect()
    )
    return [
        Finding(
            where=where,
            kind="message",
            reason=f"message {row['sequence']:,} was {row['settled_as']} and never stored",
            queue=f"#{row['queue_number']}",
            sequence=row["sequence"],
        )
        for row in rows
    ]
