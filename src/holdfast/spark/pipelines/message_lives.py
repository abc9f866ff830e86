"""
The life of each message, from a table of events: when it was stored, when and how it was settled.

A message of a stored topic has a life there, which ends with that of the last durable subscription
that needed it, and one for each of these (`deliveries`).
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.model.facts import DEAD_LETTER_CAUSES, TOPIC_MARK, Cause
from holdfast.model.topic_records import whole_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from holdfast.spark.pipelines.deliveries import Taker


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A durable subscription that is, or was."""

    taker: Taker
    topic: str
    client_id: str
    name: str
    selector: str


@dataclass(slots=True)
class KnownQueues:
    """What a log says of queues, topics and durable subscriptions, by number."""

    names: dict[int, str] = field(default_factory=dict)
    """One whose name the log has lost is called by its number."""
    marks: dict[int, int] = field(default_factory=dict)
    """Up to which sequence messages may have been delivered, where that was said."""
    topics: set[int] = field(default_factory=set)
    """Those whose record is there: with it stand those of all of their subscriptions."""
    subscriptions: dict[int, Subscribed] = field(default_factory=dict)


def known_queues(events: DataFrame) -> KnownQueues:
    """Collect it: one row for each comes to the driver."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    declared = f.struct("record_number", "first_sequence", "detail")
    ended = f.struct("record_number", f.unix_micros("time").alias("time"), "index")
    rows = (
        events.where("queue_number is not null")
        .groupBy("queue_number")
        .agg(
            f.max("destination").alias("name"),
            f.max("dispatch_mark").alias("mark"),
            f.max(f.col("kind") == "declare-topic").alias("is_topic"),
            f.min(f.when(f.col("kind") == "declare-subscription", declared)).alias("declared"),
            f.min(f.when(f.col("kind") == "delete", ended)).alias("ended"),
        )
        .collect()
    )
    known = KnownQueues()
    ends = {}
    for row in rows:
        number = row["queue_number"]
        known.names[number] = row["name"] or f"queue {number}"
        if row["mark"] is not None:
            known.marks[number] = row["mark"]
        if row["is_topic"]:
            known.topics.add(number)
        if row["ended"] is not None:
            ends[number] = tuple(row["ended"])
    declared_rows = {it["queue_number"]: it["declared"] for it in rows if it["declared"]}
    # A part of one of a wildcard is called as that.
    wholes = {it: json.loads(row["detail"])["name"] for it, row in declared_rows.items()}
    for number, row in declared_rows.items():
        _note_subscription(known, number, row, ends, wholes)
    return known


def _note_subscription(
    known: KnownQueues,
    number: int,
    declared: Any,
    ends: dict[int, tuple[int, int, int]],
    wholes: dict[int, str],
) -> None:
    from holdfast.spark.pipelines.deliveries import Taker  # noqa: PLC0415 - wants the extra

    told = json.loads(declared["detail"])
    topic = told["topic_number"]
    end = ends.get(number) or ends.get(topic) or ()
    taker = Taker(number, topic, told["slot"], declared["first_sequence"], *end)
    name = known.names.get(topic, f"{TOPIC_MARK}#{topic}")
    called = wholes.get(whole_of(told["name"]), told["name"])
    known.subscriptions[number] = Subscribed(
        *(taker, name.removeprefix(TOPIC_MARK), told["client_id"], called),
        told["selector"] or "",
    )
    known.names[number] = f"{name}?subscription={told['client_id']}:{called}"
    # What was given to any of them was given.
    known.marks[topic] = max(known.marks.get(topic, 0), known.marks.get(number, 0))


def lives(events: DataFrame, known: KnownQueues) -> DataFrame:
    """
    Return a row per message and queue: when it was stored, when and how it was settled there.

    Columns: queue_number, sequence, index, is_first (of the queues on which it stands), stored_at,
    bytes, producer_id, settled_at, fate (acknowledged, expired, dropped, dead-lettered,
    purged, moved, removed, fired, skipped or null), is_delivery (the queue is a durable
    subscription), all times in microseconds.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    stored = (
        _placed(events.where(f.col("kind").isin("enqueue", "rewrite", "move")))
        .groupBy("place.queue_number", "place.sequence")
        .agg(
            f.min("index").alias("index"),
            # Of a copy by the cleaner the first queue may be another one: the first record decides.
            f.min_by("place.is_first", "index").alias("is_first"),
            f.min(f.unix_micros(f.coalesce("stored_at", "time"))).alias("stored_at"),
            f.first("message_bytes").alias("bytes"),
            f.first("producer_id", ignorenulls=True).alias("producer_id"),
            f.min("record_number").alias("record_number"),
            f.min_by("place.skips", "record_number").alias("skips"),
        )
    )
    of_queues = _of_queues(events, stored.drop("record_number", "skips"))
    if not known.subscriptions:
        return of_queues
    delivered = _delivered(events, stored, known)
    is_on_topic = f.col("queue_number").isin(*known.topics)
    on_topics = _of_topics(of_queues.where(is_on_topic), delivered)
    each = delivered.select(
        *(f.col("subscription").alias("queue_number"), "sequence", "index"),
        *(f.lit(False).alias("is_first"), "stored_at", "bytes"),
        *(f.lit(None).cast("string").alias("producer_id"), f.col("time").alias("settled_at")),
        f.when(f.col("fate") == "deleted", "purged")
        .when(f.col("fate") != "live", f.col("fate"))
        .alias("fate"),
        f.lit(True).alias("is_delivery"),
    )
    return of_queues.where(~is_on_topic).unionByName(on_topics).unionByName(each)


def _delivered(events: DataFrame, stored: DataFrame, known: KnownQueues) -> DataFrame:
    """Give what became of each message of a topic for each subscription that was to get it."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    from holdfast.spark.pipelines.deliveries import Told, deliveries  # noqa: PLC0415 - as above

    takers = [it.taker for it in known.subscriptions.values()]
    topics = {it.topic for it in takers}
    told = Told(
        stored=stored.where(f.col("queue_number").isin(*topics)).select(
            *(f.col("queue_number").alias("topic"), "sequence", "record_number", "skips"),
            *("index", "stored_at", "bytes"),
        ),
        settled=_each_settled(events).select(
            *(f.col("queue_number").alias("subscription"), "sequence"),
            *(f.col("record_number").alias("at"), f.col("settled_at").alias("time")),
            f.col("fate").alias("settled_as"),
        ),
        trims=events.where(f.col("kind") == "purge").select(
            f.col("queue_number").alias("subscription"),
            *(f.col("last_sequence").alias("sequence"), f.col("record_number").alias("at")),
            *(f.unix_micros("time").alias("time"), "index"),
        ),
        takers=takers,
    )
    return deliveries(told).where("is_for")


def _of_topics(stored: DataFrame, delivered: DataFrame) -> DataFrame:
    """Give the messages of topics with the end that the last subscription made of each."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    last = delivered.groupBy(f.col("topic").alias("queue_number"), "sequence").agg(
        f.max(f.col("fate") == "live").alias("is_needed"),
        f.max_by(f.struct("time", "fate"), "at").alias("last"),
    )
    joined = stored.drop("settled_at", "fate").join(last, ["queue_number", "sequence"], "left")
    is_needed = f.coalesce("is_needed", f.lit(False))
    fate = (
        f.when(f.col("last").isNull(), "skipped")
        .when(f.col("last.fate") == "deleted", "purged")
        .otherwise(f.col("last.fate"))
    )
    return joined.select(
        *(name for name in stored.columns if name not in {"settled_at", "fate"}),
        f.when(~is_needed, f.coalesce("last.time", "stored_at")).alias("settled_at"),
        f.when(~is_needed, fate).alias("fate"),
    )


def _of_queues(events: DataFrame, stored: DataFrame) -> DataFrame:
    """Give these messages with what took each off its queue."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    # A purge settles all up to a sequence, a deletion all of the queue; there are few of them.
    purged = (
        events.where(f.col("kind").isin("purge", "delete"))
        .groupBy("queue_number")
        .agg(
            f.collect_list(
                f.struct(
                    f.unix_micros("time").alias("at"),
                    f.coalesce("last_sequence", f.lit(2**62)).alias("through"),
                )
            ).alias("purges")
        )
    )
    reached = f.filter("purges", lambda each: each["through"] >= f.col("sequence"))
    purged_at = f.array_min(f.transform(reached, lambda each: each["at"]))
    joined = stored.join(_settled(events), ["queue_number", "sequence"], "left").join(
        f.broadcast(purged), "queue_number", "left"
    )
    return (
        joined.withColumn("settled_at", f.coalesce("end.settled_at", purged_at))
        .withColumn(
            "fate",
            f.coalesce("end.fate", f.when(f.col("settled_at").isNotNull(), f.lit("purged"))),
        )
        .drop("end", "purges")
        .withColumn("is_delivery", f.lit(False))
    )


def _each_settled(events: DataFrame) -> DataFrame:
    """Give what was settled: queue_number, sequence, record_number, settled_at, fate."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    return (
        events.where(f.col("kind").isin("acknowledge", "dead-letter", "move"))
        .where("kind <> 'move' OR get_json_object(detail, '$.copy') = 'false'")
        .select(
            "queue_number",
            f.explode("sequences").alias("sequence"),
            "record_number",
            f.unix_micros("time").alias("settled_at"),
            f.when(f.col("kind") == "acknowledge", "acknowledged")
            .when(_is_by({Cause.REMOVED}), "removed")
            .when(_is_by({Cause.EXPIRED}), "expired")
            .when(_is_by({Cause.MAXLEN}), "dropped")
            .when(_is_by({Cause.FIRED}), "fired")
            .when((f.col("kind") == "move") & ~_is_by(DEAD_LETTER_CAUSES), "moved")
            .otherwise("dead-lettered")
            .alias("fate"),
        )
    )


def _settled(events: DataFrame) -> DataFrame:
    """Give for each message that consumers have settled when and how, in `end`."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    return (
        _each_settled(events)
        .groupBy("queue_number", "sequence")
        .agg(f.min(f.struct("settled_at", "fate")).alias("end"))
    )


def _is_by(causes: Collection[Cause]) -> Column:
    """Whether an event says that messages were moved, and for one of these causes."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    names = [cause.name.lower() for cause in sorted(causes)]
    found = f.get_json_object("detail", "$.cause")
    return (f.col("kind") == "move") & f.coalesce(found.isin(names), f.lit(False))


def _placed(messages: DataFrame) -> DataFrame:
    """Give each message once for every queue on which it stands, with that in `place`."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    def places(number: Column, sequence: Column, *, is_first: bool) -> Column:
        # What says who skips it is said of where it was sent.
        skips = f.col("skips") if is_first else f.lit(None).cast("binary")
        return f.struct(
            number.alias("queue_number"),
            sequence.alias("sequence"),
            f.lit(is_first).alias("is_first"),
            skips.alias("skips"),
        )

    first = places(f.col("queue_number"), f.col("first_sequence"), is_first=True)
    others = f.transform(
        f.arrays_zip("place_queues", "place_sequences"),
        lambda it: places(it["place_queues"], it["place_sequences"], is_first=False),
    )
    # What was moved stands on the other queue alone, as far as this record says.
    every = (
        f.when(f.col("kind") == "move", others)
        .when(f.col("place_queues").isNull(), f.array(first))
        .otherwise(f.concat(f.array(first), others))
    )
    return messages.withColumn("place", f.explode(every))
