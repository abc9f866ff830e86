"""
What became of each message of a stored topic for each durable subscription that was to get it.

A delivery is one of these pairs. It is for a subscription that was there when the message was
stored, if the message does not say that it skips it; it ends with the first thing that took it off
the subscription, or with the subscription. Audit and report ask the same of tables that each makes
of what it reads: what was stored, who was there, what was settled, and up to where subscriptions
were cut.

Invariants:
    Each delivery has one row and one fate.
    What was settled and was for nobody has a row too, which says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELIVERY_FATES: Final = (
    *("live", "acknowledged", "expired", "dropped", "dead-lettered"),
    *("moved", "removed", "deleted"),
)
"""Dropped is also what a limit has cut off a subscription; deleted what ended with it."""

_TAKERS: Final = (
    "subscription long, topic long, slot int, first long,"
    " ended_at long, ended_time long, ended_index long"
)
_IDENTITY: Final = ("subscription", "sequence")


class Taker(NamedTuple):
    """A durable subscription, as long as it was there."""

    subscription: int
    topic: int
    slot: int
    first: int
    """The lowest sequence that is its own."""
    ended_at: int | None = None
    """The record that ended it, or its topic; None: it is there yet."""
    ended_time: int | None = None
    """When that was, in microseconds."""
    ended_index: int | None = None
    """And the entry of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is known of topics, one table each."""

    stored: DataFrame
    """topic, sequence, record_number, skips (a bit for each slot, or null); and more, if wanted."""
    settled: DataFrame
    """subscription, sequence, at (of the record), time, settled_as; others are passed over."""
    trims: DataFrame
    """subscription, sequence (up to which), at, time, index of the entry."""
    takers: list[Taker]


def moment(at: Column, time: Column, what: Column) -> Column:
    """Give when and how a delivery ended, so that the first is the least."""
    return f.struct(at.alias("at"), time.alias("time"), what.alias("fate"))


def deliveries(told: Told) -> DataFrame:
    """
    Give a row for each delivery: subscription, topic, sequence, fate, at, time, is_for.

    `at` and `time` are of the record that ended it, null while it is live. What was settled and was
    never for the subscription has a row that is not `is_for`. Other columns of `stored` follow.

    All that is said of a subscription is gone through once, backwards by sequence. A cut goes
    further than those before it: the first that reaches a message is the least of those that stand
    at its sequence or behind it.
    """
    takers = f.broadcast(told.stored.sparkSession.createDataFrame(told.takers, _TAKERS))
    more = [it for it in told.stored.columns if it not in {"topic", *_IDENTITY, "record_number"}]
    more.remove("skips")
    pairs = _wanted(told.stored, takers).select(*_IDENTITY, *more, f.lit(True).alias("is_for"))
    settled = told.settled.select(
        *_IDENTITY, moment(f.col("at"), f.col("time"), f.col("settled_as")).alias("settled")
    )
    trims = told.trims.select(
        *_IDENTITY, moment(f.col("at"), f.col("time"), f.lit("dropped")).alias("cut"), "index"
    )
    every = pairs.unionByName(settled, allowMissingColumns=True)
    every = every.unionByName(trims, allowMissingColumns=True).join(takers, "subscription")
    # What a subscription is cut off in the entry of its end has ended with it.
    ended = moment(f.col("ended_at"), f.col("ended_time"), f.lit("deleted"))
    cut = f.when(f.col("index") == f.col("ended_index"), ended).otherwise(f.col("cut"))
    backwards = Window.partitionBy("subscription").orderBy(
        f.desc("sequence"), f.col("cut").isNull()
    )
    reached = f.min(cut).over(backwards.rowsBetween(Window.unboundedPreceding, 0))
    grouped = (
        every.withColumn("reached", reached)
        .where("cut IS NULL")
        .groupBy(*_IDENTITY, "topic")
        .agg(
            f.min(f.least("settled", "reached")).alias("done"),
            f.max(f.when(f.col("ended_at").isNotNull(), ended)).alias("ended"),
            f.coalesce(f.max("is_for"), f.lit(False)).alias("is_for"),
            *(f.max(name).alias(name) for name in more),
        )
        .withColumn("done", f.coalesce("done", "ended"))
    )
    return grouped.select(
        *("subscription", "topic", "sequence"),
        f.coalesce("done.fate", f.lit("live")).alias("fate"),
        *("done.at", "done.time", "is_for"),
        *more,
    )


def _wanted(stored: DataFrame, takers: DataFrame) -> DataFrame:
    """Give each message for each subscription that was there and is not skipped."""
    is_for = (
        (stored["topic"] == takers["topic"])
        & (f.col("sequence") >= f.col("first"))
        & (f.col("ended_at").isNull() | (f.col("record_number") < f.col("ended_at")))
    )
    byte = "conv(hex(substring(skips, shiftright(slot, 3) + 1, 1)), 16, 10)"
    skipped = f.expr(f"coalesce(cast({byte} as int), 0) & shiftleft(1, slot & 7)")
    return stored.join(takers, is_for).where(skipped == 0)
