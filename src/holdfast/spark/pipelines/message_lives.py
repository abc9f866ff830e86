"""
The life of each message, from a table of events: when it was stored, when and how it was settled.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from holdfast.model.facts import DEAD_LETTER_CAUSES, Cause

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def lives(events: DataFrame) -> DataFrame:
    """
    Return a row per message and queue: when it was stored, when and how it was settled there.

    Columns: queue_number, sequence, index, is_first (of the queues on which it stands), stored_at,
    bytes, producer_id, settled_at, fate (acknowledged, expired, dropped, dead-lettered,
    purged, moved, removed, fired or null), all times in microseconds.
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
        )
    )
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
    )


def _settled(events: DataFrame) -> DataFrame:
    """Give for each message that consumers have settled when and how, in `end`."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    return (
        events.where(f.col("kind").isin("acknowledge", "dead-letter", "move"))
        .where("kind <> 'move' OR get_json_object(detail, '$.copy') = 'false'")
        .select(
            "queue_number",
            f.explode("sequences").alias("sequence"),
            f.unix_micros("time").alias("settled_at"),
            f.when(f.col("kind") == "acknowledge", "acknowledged")
            .when(_is_by({Cause.REMOVED}), "removed")
            .when(_is_by({Cause.EXPIRED}), "expired")
            .when(_is_by({Cause.FIRED}), "fired")
            .when((f.col("kind") == "move") & ~_is_by(DEAD_LETTER_CAUSES), "moved")
            .otherwise("dead-lettered")
            .alias("fate"),
        )
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
        return f.struct(
            number.alias("queue_number"),
            sequence.alias("sequence"),
            f.lit(is_first).alias("is_first"),
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
