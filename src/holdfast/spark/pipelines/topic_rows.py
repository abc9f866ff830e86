"""
Stored topics among the rows of a log's records: who needs which message of them.

A topic's message has one row. Durable subscriptions, of which there are few, are collected by the
driver; their needs are worked out with joins: what stands behind a subscription's beginning, is not
skipped by it, and not settled or purged. What is settled has the subscription's number.

Workers make of each message that subscriptions skip a row `skips`, with their slots in `record`. Of
several copies of a message the first one counts: the cleaner's say it also of who was done by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f

from holdfast.model.records import SubscriptionAcknowledgeRecord
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord
from holdfast.store.fact_blocks import SKIPS, unpack_facts
from holdfast.store.record_codec import decode_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DECLARING: Final = ("topic", "subscription", "delete-queue")
SETTLED_MAX: Final = 200
"""Messages in one record; a few thousand of these stand in one entry."""
_TABLE: Final = "subscription long, topic long, slot int, first long"


@dataclass(slots=True)
class TopicsAndSubscriptions:
    """What stands of topics and subscriptions at the end of some records."""

    topics: dict[int, TopicRecord] = field(default_factory=dict)
    subscriptions: dict[int, SubscriptionRecord] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    """Of subscriptions that are no more: their topics."""

    def of_topic(self) -> dict[int, int]:
        """Give the topic of each subscription there is, or was."""
        living = {number: it.topic_number for number, it in self.subscriptions.items()}
        return living | self.ended

    def take(self, record: object, queue_number: int) -> None:
        """Go on by one record; `queue_number` is what ends, if it is one that ends something."""
        if isinstance(record, TopicRecord):
            self.topics[record.topic_number] = record
        elif isinstance(record, SubscriptionRecord):
            # Said again it begins with what it needs first; what it is done with is told before.
            known = self.subscriptions.setdefault(record.number, record)
            known.dispatch_mark = max(known.dispatch_mark, record.dispatch_mark)
            known.detached_at = record.detached_at
        elif self.topics.pop(queue_number, None) is not None:
            for number, each in list(self.subscriptions.items()):
                if each.topic_number == queue_number:
                    self._end(number)
        elif queue_number in self.subscriptions:
            self._end(queue_number)

    def _end(self, number: int) -> None:
        self.ended[number] = self.subscriptions.pop(number).topic_number


def topics_and_subscriptions(records: DataFrame) -> TopicsAndSubscriptions:
    """Collect them; they are needed with their bytes."""
    rows = records.where(f.col("kind").isin(*_DECLARING)).select(
        "record_number", "queue_number", "kind", "record"
    )
    found = TopicsAndSubscriptions()
    for row in sorted(rows.collect(), key=lambda row: row["record_number"]):
        ends = row["kind"] == "delete-queue"
        record = None if ends else next(decode_records(bytes(row["record"])))
        found.take(record, row["queue_number"])
    return found


@cache
def _skipping() -> pa.Array:
    """How the facts of a message begin that some subscriptions do not want."""
    return pa.array([bytes([flags]) for flags in range(256) if flags & SKIPS])


def each_skipped(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Give these rows, and behind them one for each message that some subscriptions skip."""
    packed = rows.column("record")
    if packed.null_count == len(rows):
        return rows
    skips = pc.is_in(pc.binary_slice(packed, 0, 1), value_set=_skipping())
    which = pc.indices_nonzero(pc.and_(skips, pc.equal(rows.column("kind"), "message")))
    if not len(which):
        return rows
    bits = [unpack_facts(packed[row].as_py()).skips for row in which.to_pylist()]
    other = rows.take(which)
    for name, values in (("kind", ["skips"] * len(bits)), ("record", bits)):
        at = rows.schema.get_field_index(name)
        column = rows.schema.field(at)
        other = other.set_column(at, column, pa.array(values, column.type))
    return pa.Table.from_batches([rows, other]).combine_chunks().to_batches()[0]


def offered(records: DataFrame, known: TopicsAndSubscriptions) -> DataFrame:
    """
    Give which messages are for which subscriptions, whatever these are done with.

    Columns: queue_number (the topic's), sequence, subscription.
    """
    table = [
        (number, it.topic_number, it.slot, it.first_sequence)
        for number, it in known.subscriptions.items()
    ]
    takers = records.sparkSession.createDataFrame(table, _TABLE)
    stored = (
        records.where("kind = 'message'")
        .where(f.col("queue_number").isin(*known.topics))
        .groupBy("queue_number", "sequence")
        .agg(f.min("record_number").alias("record_number"))
    )
    skipped = records.where("kind = 'skips'").select(
        "queue_number", "sequence", "record_number", f.col("record").alias("skips")
    )
    is_for = (f.col("queue_number") == f.col("topic")) & (f.col("sequence") >= f.col("first"))
    pairs = stored.join(f.broadcast(takers), is_for).join(
        skipped, ["queue_number", "sequence", "record_number"], "left"
    )
    byte = "conv(hex(substring(skips, shiftright(slot, 3) + 1, 1)), 16, 10)"
    skips = f.expr(f"coalesce(cast({byte} as int), 0) & shiftleft(1, slot & 7)")
    return pairs.where(skips == 0).select("queue_number", "sequence", "subscription")


def needed(records: DataFrame, known: TopicsAndSubscriptions, settled: DataFrame) -> DataFrame:
    """Give of these who is not done: queue_number (the topic's), sequence, subscription."""
    done = settled.select(f.col("queue_number").alias("subscription"), "sequence").distinct()
    purged = (
        records.where("kind = 'purge'")
        .groupBy(f.col("queue_number").alias("subscription"))
        .agg(f.max("through_sequence").alias("purged"))
    )
    left = offered(records, known).join(done, ["subscription", "sequence"], "left_anti")
    left = left.join(f.broadcast(purged), "subscription", "left")
    left = left.where("purged IS NULL OR sequence > purged")
    return left.select("queue_number", "sequence", "subscription")


def on_topics(rows: DataFrame, known: TopicsAndSubscriptions) -> DataFrame:
    """Give these rows with the topic's number where they have a subscription's."""
    of_topic = known.of_topic()
    if not of_topic:
        return rows
    pairs: list[Any] = [f.lit(each) for pair in of_topic.items() for each in pair]
    number = f.element_at(f.create_map(*pairs), f.col("queue_number"))
    return rows.withColumn("queue_number", f.coalesce(number, f.col("queue_number")))


def lasting_topics(records: DataFrame, known: TopicsAndSubscriptions) -> list[TopicRecord]:
    """Give what declares the topics again, with the next number of each."""
    stored = records.where("kind = 'message'").where(f.col("queue_number").isin(*known.topics))
    rows = stored.groupBy("queue_number").agg(f.max("sequence").alias("last")).collect()
    last = {row["queue_number"]: row["last"] for row in rows}
    found = []
    for number, topic in known.topics.items():
        count = sum(it.topic_number == number for it in known.subscriptions.values())
        following = max(topic.next_sequence, last.get(number, 0) + 1)
        found.append(TopicRecord(number, topic.name, following, count))
    return found


def settled_on_topics(
    records: DataFrame, known: TopicsAndSubscriptions, settled: DataFrame
) -> list[SubscriptionAcknowledgeRecord]:
    """Say of what lives on topics which subscriptions are done with it that did not skip it."""
    wanted = needed(records, known, settled).cache()
    living = wanted.select("queue_number", "sequence").distinct()
    done = (
        offered(records, known)
        .join(living, ["queue_number", "sequence"], "left_semi")
        .join(wanted, ["queue_number", "sequence", "subscription"], "left_anti")
        .groupBy("subscription", f.shiftright("sequence", 7))  # At most 128 of them.
        .agg(f.sort_array(f.collect_list("sequence")).alias("sequences"))
    )
    rows = done.collect()
    wanted.unpersist()
    topic_numbers = known.of_topic()
    return [
        SubscriptionAcknowledgeRecord(
            row["subscription"], row["sequences"], topic_numbers[row["subscription"]]
        )
        for row in rows
    ]
