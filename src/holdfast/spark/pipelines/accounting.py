"""
Is every message accounted for? Steps over the records of a log, and what is wrong with them.

Every message is exactly one of live, acknowledged, expired, dropped as its queue was full,
dead-lettered, moved to another queue, removed by an operator, purged or deleted with its queue; on
a stored topic that is what it was for the last subscription, and skipped if it was for none. What
is sent at some time is scheduled or has fired for the last time, and what went out each time
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
from holdfast.model.schedules import SCHEDULE_QUEUE
from holdfast.spark.pipelines.deliveries import DELIVERY_FATES, deliveries
from holdfast.spark.pipelines.findings import FINDINGS_MAX, Finding
from holdfast.spark.pipelines.log_state import messages, producer_numbers, settled, sweeping
from holdfast.spark.pipelines.topic_accounting import SubscriptionAccount, account_of_topics
from holdfast.spark.pipelines.topic_rows import (
    TopicsAndSubscriptions,
    told_of_topics,
    topics_and_subscriptions,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame

FATES: Final = (
    *("live", "acknowledged", "expired", "dropped", "dead-lettered"),
    *("moved", "removed", "purged", "deleted", "scheduled", "fired"),
    "skipped",
)


@dataclass(slots=True)
class Account:
    """What became of the messages of a log."""

    messages: int = 0
    fates: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FATES, 0))
    queues: int = 0
    producers: int = 0
    subscriptions: list[SubscriptionAccount] = field(default_factory=list)
    """Durable subscriptions that there are, or were."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def deliveries(self) -> int:
        """How many messages were for subscriptions, each counted for every one of these."""
        return sum(each.messages for each in self.subscriptions)

    @property
    def delivery_fates(self) -> dict[str, int]:
        """What became of these."""
        return {
            fate: sum(each.fates[fate] for each in self.subscriptions) for fate in DELIVERY_FATES
        }

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
    known = topics_and_subscriptions(records)
    delivered = all_deliveries(records, known).cache() if known.all_topics else None
    became = fates(records, known, delivered)
    for row in became.groupBy("fate").count().collect():
        account.fates[row["fate"]] = row["count"]
    stored = messages(records)
    is_new = f.when(~f.col("rewritten"), 1)
    each = stored.groupBy("queue_number", "sequence").agg(f.count(is_new).alias("copies"))
    counted = each.agg(
        f.count(f.lit(1)).alias("messages"),
        f.count_distinct("queue_number").alias("queues"),
        f.max("copies").alias("copies"),
    ).collect()[0]
    account.messages, account.queues = counted["messages"], counted["queues"]
    if (counted["copies"] or 0) > 1:
        account.findings += stored_twice(stored, where)
    account.findings += queue_gaps(stored, where, is_whole=is_whole)
    producers, found = producer_gaps(records, where, is_whole=is_whole)
    account.producers = producers
    account.findings += found
    if is_whole:
        account.findings += settled_unseen(records, where, known.names())
    if delivered is not None:
        found_of_topics = account_of_topics(delivered, known, where, is_whole=is_whole)
        account.subscriptions, found = found_of_topics
        account.findings += found
        delivered.unpersist()
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
    is_gap = f.col("producer_sequence") > f.col("before") + 1
    is_double = (f.col("producer_sequence") <= f.col("before")) & ~f.col("is_repeat")
    counted = judged.agg(
        f.count_distinct("producer_id").alias("producers"),
        f.count(f.when(is_gap | is_double, 1)).alias("wrong"),
    ).collect()[0]
    count = counted["producers"]
    wrong = judged.where(is_gap | is_double).limit(FINDINGS_MAX)
    rows = wrong.collect() if counted["wrong"] else []
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


def settled_unseen(
    records: DataFrame, where: str, of_topics: Collection[int] = ()
) -> list[Finding]:
    """Acknowledgements of messages that were never stored: they were lost; not of these numbers."""
    stored = messages(records).select("queue_number", "sequence").distinct()
    rows = (
        settled(records)
        .where(~f.col("queue_number").isin(*of_topics))
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


def all_deliveries(records: DataFrame, known: TopicsAndSubscriptions) -> DataFrame:
    """Give what became of each message for each subscription there is, or was; see `deliveries`."""
    takers = known.all_takers()
    return deliveries(told_of_topics(records, settled(records), known.all_topics, takers))


def fates(
    records: DataFrame, known: TopicsAndSubscriptions, delivered: DataFrame | None = None
) -> DataFrame:
    """
    What became of every message: queue_number, sequence, first_record, fate.

    `fate` is live, acknowledged, dead-lettered, moved, removed, purged, deleted or fired: the first
    thing that took it off its queue. What lives where scheduled messages wait is scheduled. What
    stands on a stored topic lives while a subscription needs it, and then has the fate that it had
    for the last one; it is skipped if it was for none. `delivered` has all deliveries, if there are
    topics.
    """
    joined = _with_first_ends(records)
    fate = (
        f.when(
            f.col("settled_at").isNotNull()
            & (f.col("swept_at").isNull() | (f.col("settled_at") < f.col("swept_at"))),
            f.col("settled_as"),
        )
        .when(f.col("swept_at").isNotNull(), f.col("swept_as"))
        .when(f.col("waits"), "scheduled")
        .otherwise("live")
    )
    identity = ["queue_number", "sequence"]
    if delivered is not None and known.all_topics:
        last = (
            delivered.where("is_for")
            .groupBy(f.col("topic").alias("queue_number"), "sequence")
            .agg(
                f.max(f.col("fate") == "live").alias("is_needed"),
                f.max_by("fate", "at").alias("last_fate"),
            )
        )
        joined = joined.join(last, identity, "left")
        on_topic = f.when(f.col("is_needed"), "live").otherwise(
            f.coalesce("last_fate", f.lit("skipped"))
        )
        fate = f.when(f.col("queue_number").isin(*known.all_topics), on_topic).otherwise(fate)
    return joined.select(*identity, "first_record", "index", fate.alias("fate"))


def _with_first_ends(records: DataFrame) -> DataFrame:
    """Give each message with what settled it first, and what swept it first with others."""
    stored = (
        messages(records)
        .groupBy("queue_number", "sequence")
        .agg(
            f.min("record_number").alias("first_record"),
            f.max("record_number").alias("last_record"),
            f.min("index").alias("index"),
            f.max(f.col("destination") == SCHEDULE_QUEUE).alias("waits"),
        )
    )
    first_settled = (
        settled(records)
        .groupBy("queue_number", "sequence")
        .agg(
            f.min("settled_at").alias("settled_at"),
            f.min_by("settled_as", "settled_at").alias("settled_as"),
        )
    )
    swept = sweeping(records)
    is_swept = (
        (f.col("queue_number") == f.col("swept_queue"))
        & (f.col("sequence") <= f.col("swept_through"))
        & (f.col("last_record") < f.col("swept_at"))
    )
    first_swept = (
        stored.join(f.broadcast(swept), is_swept)
        .groupBy("queue_number", "sequence")
        .agg(
            f.min("swept_at").alias("swept_at"),
            f.min_by("swept_as", "swept_at").alias("swept_as"),
        )
    )
    identity = ["queue_number", "sequence"]
    return stored.join(first_settled, identity, "left").join(first_swept, identity, "left")
