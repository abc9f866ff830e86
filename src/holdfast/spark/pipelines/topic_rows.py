"""
Stored topics among the rows of a log's records: who needs which message of them.

A topic's message has one row. Durable subscriptions, of which there are few, are collected by the
driver; their needs are worked out with joins: what stands behind a subscription's beginning, is not
skipped by it, and not settled or purged. What is settled has the subscription's number.

Workers make of each message that subscriptions skip a row `skips`, with their slots in `record`. Of
several copies of a message the first one counts: the cleaner's say it also of who was done by then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f

from holdfast.model.records import SubscriptionAcknowledgeRecord
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord, whole_of
from holdfast.spark.log.naming import declared_name
from holdfast.spark.pipelines.deliveries import Taker, Told, deliveries
from holdfast.store.fact_blocks import SKIPS, unpack_facts
from holdfast.store.record_codec import decode_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DECLARING: Final = ("topic", "subscription", "delete-queue")
SETTLED_MAX: Final = 200
"""Messages in one record; a few thousand of these stand in one entry."""


class Moment(NamedTuple):
    """Where a record stands, and when it was written, in microseconds."""

    record_number: int
    time: int
    entry: int


@dataclass(slots=True)
class TopicsAndSubscriptions:
    """What stands of topics and subscriptions at the end of some records, and stood before."""

    topics: dict[int, TopicRecord] = field(default_factory=dict)
    subscriptions: dict[int, SubscriptionRecord] = field(default_factory=dict)
    past_topics: dict[int, TopicRecord] = field(default_factory=dict)
    ended: dict[int, tuple[SubscriptionRecord, Moment]] = field(default_factory=dict)
    """Subscriptions that are no more, and where they ended."""

    @property
    def all_topics(self) -> dict[int, TopicRecord]:
        """Those that are, and those that were."""
        return self.past_topics | self.topics

    def names(self) -> dict[int, str]:
        """
        Give what each topic and subscription that is, or was, is called.

        A part of one of a wildcard is called by its own topic, and as the whole.
        """
        found: dict[int, str] = {}
        every = {number: it for number, (it, _) in self.ended.items()} | self.subscriptions
        for each in (*self.all_topics.values(), *every.values()):
            number, name = declared_name(each, found)
            found[number] = name
            if isinstance(each, SubscriptionRecord) and (whole := every.get(whole_of(each.name))):
                found[number] = (
                    f"{found[each.topic_number]}?subscription={whole.client_id}:{whole.name}"
                )
        return found

    def wholes(self) -> dict[int, int]:
        """Give of each part of a wildcard's subscription the number of that; 0: it is no more."""
        found = {number: whole_of(it.name) for number, it in self.subscriptions.items()}
        return {
            number: whole if whole in self.subscriptions else 0
            for number, whole in found.items()
            if whole
        }

    def takers(self) -> list[Taker]:
        """Give the subscriptions that are."""
        return [
            Taker(number, it.topic_number, it.slot, it.first_sequence)
            for number, it in self.subscriptions.items()
        ]

    def all_takers(self) -> list[Taker]:
        """Give those that are, and those that were."""
        return self.takers() + [
            Taker(number, it.topic_number, it.slot, it.first_sequence, *moment)
            for number, (it, moment) in self.ended.items()
        ]

    def take(self, record: object, queue_number: int, moment: Moment) -> None:
        """Go on by one record; `queue_number` is what ends, if it is one that ends something."""
        if isinstance(record, TopicRecord):
            self.topics[record.topic_number] = record
        elif isinstance(record, SubscriptionRecord):
            # Said again it begins with what it needs first; what it is done with is told before.
            known = self.subscriptions.setdefault(record.number, record)
            known.dispatch_mark = max(known.dispatch_mark, record.dispatch_mark)
            known.detached_at = record.detached_at
        elif (topic := self.topics.pop(queue_number, None)) is not None:
            self.past_topics[queue_number] = topic
            for number, each in list(self.subscriptions.items()):
                if each.topic_number == queue_number:
                    self._end(number, moment)
        elif queue_number in self.subscriptions:
            self._end(queue_number, moment)

    def _end(self, number: int, moment: Moment) -> None:
        self.ended[number] = self.subscriptions.pop(number), moment


def topics_and_subscriptions(records: DataFrame) -> TopicsAndSubscriptions:
    """Collect them; they are needed with their bytes."""
    rows = records.where(f.col("kind").isin(*_DECLARING)).select(
        *("record_number", "index", "queue_number", "kind", "record"),
        f.unix_micros("entry_time").alias("time"),
    )
    found = TopicsAndSubscriptions()
    for row in sorted(rows.collect(), key=lambda row: row["record_number"]):
        ends = row["kind"] == "delete-queue"
        record = None if ends else next(decode_records(bytes(row["record"])))
        moment = Moment(row["record_number"], row["time"], row["index"])
        found.take(record, row["queue_number"], moment)
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


def told_of_topics(
    records: DataFrame, settled: DataFrame, topics: Iterable[int], takers: list[Taker]
) -> Told:
    """Give what the records say of these topics and subscriptions, what is settled among it."""
    skips = f.when(f.col("kind") == "skips", f.struct("record_number", "record"))
    stored = (
        records.where(f.col("kind").isin("message", "skips"))
        .where(f.col("queue_number").isin(*topics))
        .groupBy(f.col("queue_number").alias("topic"), "sequence")
        .agg(f.min("record_number").alias("record_number"), f.min(skips).alias("said"))
        .withColumn(
            "skips",
            f.when(f.col("said.record_number") == f.col("record_number"), f.col("said.record")),
        )
        .drop("said")
    )
    return Told(
        stored=stored,
        settled=settled.select(
            f.col("queue_number").alias("subscription"),
            *("sequence", f.col("settled_at").alias("at"), f.lit(None).cast("long").alias("time")),
            "settled_as",
        ),
        trims=records.where("kind = 'purge'").select(
            f.col("queue_number").alias("subscription"),
            *(f.col("through_sequence").alias("sequence"), f.col("record_number").alias("at")),
            *(f.unix_micros("entry_time").alias("time"), "index"),
        ),
        takers=takers,
    )


def living_deliveries(
    records: DataFrame, known: TopicsAndSubscriptions, settled: DataFrame
) -> DataFrame:
    """
    Give which messages are for which subscriptions that are, and which of these are `live`.

    Columns: queue_number (the topic's), sequence, subscription, fate.
    """
    told = told_of_topics(records, settled, known.topics, known.takers())
    return (
        deliveries(told)
        .where("is_for")
        .select(f.col("topic").alias("queue_number"), "sequence", "subscription", "fate")
    )


def needed(records: DataFrame, known: TopicsAndSubscriptions, settled: DataFrame) -> DataFrame:
    """Give of these who is not done: queue_number (the topic's), sequence, subscription."""
    return living_deliveries(records, known, settled).where("fate = 'live'").drop("fate")


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
    each = living_deliveries(records, known, settled).cache()
    living = each.where("fate = 'live'").select("queue_number", "sequence").distinct()
    done = (
        each.where("fate <> 'live'")
        .join(living, ["queue_number", "sequence"], "left_semi")
        .groupBy("subscription", f.shiftright("sequence", 7))  # At most 128 of them.
        .agg(f.sort_array(f.collect_list("sequence")).alias("sequences"))
    )
    rows = done.collect()
    each.unpersist()
    topic_numbers = {number: it.topic_number for number, it in known.subscriptions.items()}
    return [
        SubscriptionAcknowledgeRecord(
            row["subscription"], row["sequences"], topic_numbers[row["subscription"]]
        )
        for row in rows
    ]
