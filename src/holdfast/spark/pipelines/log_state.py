"""
What lived, and what became of the rest: DataFrame steps over the records of a log.

Input is always the same table, one row per record (`RECORDS` of `archive/rows.py`), from an
archive's files or cut from a log on the fly. The steps say with joins what
`broker.state.BrokerState.apply` says record by record; a test holds the two to each other.

Invariants:
    A message is (queue number, sequence); a copy written by the cleaner is the same message.
    A message that stands on several queues has a row for each of its places, made by the workers.
    So has one that was moved, where it was moved to: a message's row without a size of the body. It
    says from where it came in `next_sequence` (the queue) and `through_sequence`.
    A record acts on what stands before it: a message written later lives again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f

from holdfast.broker.lasting.access import KeptRecord, LastingAccess
from holdfast.broker.lasting.policies import Policies
from holdfast.model.access_records import GrantRecord, UserRecord
from holdfast.model.numbering import generation_of
from holdfast.model.records import (
    PolicyRecord,
    ProducerRecord,
    QueueRecord,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord
from holdfast.spark.archive.entries import archived_facts
from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.rows import CONTENT, RECORDS, RangeFacts, block_rows
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.proof import blocks_of
from holdfast.spark.log.source import NO_CHAIN, LogSource
from holdfast.spark.pipelines.moved_rows import each_moved, moved_as
from holdfast.spark.pipelines.topic_rows import (
    each_skipped,
    lasting_topics,
    needed,
    settled_on_topics,
    topics_and_subscriptions,
)
from holdfast.spark.source.partitions import split, tasks_for
from holdfast.spark.worker_memory import keep_loaded
from holdfast.store.fact_blocks import PLACES
from holdfast.store.record_codec import decode_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

REMOVING: Final = ("acknowledge", "dead-letter", "move")
_EVERYTHING: Final = 2**62
_FILES: Final = "path string, first_index long, last_index long, messages long"
_UNKNOWN: Final[dict[str, Any]] = {
    "day": "",
    "rows": 0,
    "bytes": 0,
    "digest": "",
    "chain_before": NO_CHAIN,
    "chain_after": NO_CHAIN,
}
"""What of a data file its reader need not know."""
_WITH_FILE: Final = RECORDS.append(pa.field("file", pa.string()))
ROWS_MAX: Final = 16_384


def spark_schema() -> Any:
    """Give the columns of `RECORDS` as Spark's types."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - starts slowly

    return from_arrow_schema(RECORDS)


def archived_records(
    spark: SparkSession,
    source: ArchivedSource,
    last_index: int,
    files: Iterable[ArchivedFile] | None = None,
) -> DataFrame:
    """
    Give the archived records up to an entry, and in `file` the name of the file.

    They are without contents, but for the bytes of policies, users and grants.

    Workers read the files as they write them, through pyarrow: Spark's own reader knows object
    stores only with packages for Java that are not installed with it. `files` are those to be read,
    by default all.
    """
    chosen = source.catalogue.files(last_index=last_index) if files is None else list(files)
    if not chosen:
        return spark.createDataFrame([], spark_schema()).withColumn("file", f.lit(""))
    rows = [(file.path, file.first_index, file.last_index, file.messages) for file in chosen]
    context = spark.sparkContext
    work = context.parallelize(rows, tasks_for(chosen, context.defaultParallelism))
    task = partial(_archived_rows, archive=source.archive, last_index=last_index)
    with_file = spark_schema().add("file", "string")
    return spark.createDataFrame(work, _FILES).mapInArrow(task, with_file)


def _archived_rows(
    batches: Iterable[pa.RecordBatch], *, archive: Archive, last_index: int
) -> Iterator[pa.RecordBatch]:
    """Read data files; runs in a worker."""
    keep_loaded()
    names = [name for name in RECORDS.names if name not in CONTENT or name == "record"]
    for batch in batches:
        for row in batch.to_pylist():
            file = ArchivedFile(**_UNKNOWN, **row)
            for found in archive.batches(file, names):
                kept = found.filter(pc.less_equal(found.column("index"), last_index))
                rows = _without_content(each_place(kept), file.path.rpartition("/")[2])
                for start in range(0, rows.num_rows, ROWS_MAX):
                    yield rows.slice(start, ROWS_MAX)


def _without_content(found: pa.RecordBatch, file: str) -> pa.RecordBatch:
    """Put nulls where contents are not wanted, and the name of the file behind."""
    count = found.num_rows
    packed, kinds = found.column("record"), found.column("kind")
    is_fact = pc.is_in(kinds, value_set=pa.array(["policy", "skips", "user", "grant"]))
    is_kept = pc.or_(is_fact, pc.is_null(found.column("body_size")))
    columns = {name: pa.nulls(count, RECORDS.field(name).type) for name in CONTENT}
    columns["record"] = pc.if_else(is_kept, packed, pa.scalar(None, packed.type))
    arrays = [columns[it] if it in columns else found.column(it) for it in RECORDS.names]
    arrays.append(pa.array([file] * count, pa.string()))
    return pa.RecordBatch.from_arrays(arrays, schema=_WITH_FILE)


@cache
def _on_several() -> pa.Array:
    """How the facts of a message that stands on several queues begin (`archive.rows._kinds`)."""
    return pa.array([bytes([flags]) for flags in range(256) if flags & PLACES])


def each_place(rows: pa.RecordBatch) -> pa.RecordBatch:
    """
    Give these rows, and behind them one for each other place of a message that has several.

    It is the same record, without the producer's number, which stands for the message once. Its
    queue's name is not looked up.
    """
    return each_moved(each_skipped(_each_of_several(rows)))


def _each_of_several(rows: pa.RecordBatch) -> pa.RecordBatch:
    packed = rows.column("record")
    if packed.null_count == len(rows):
        return rows
    has_several = pc.is_in(pc.binary_slice(packed, 0, 1), value_set=_on_several())
    which = pc.indices_nonzero(pc.and_(has_several, pc.equal(rows.column("kind"), "message")))
    found: list[tuple[int, int, int]] = [
        (which[row].as_py(), *place)
        for row, facts in archived_facts(rows.select(["record"]).take(which)).items()
        for place in facts.places
    ]
    if not found:
        return rows
    origins, *place = zip(*found, strict=True)
    other = rows.take(pa.array(origins))
    for name, values in zip(("queue_number", "sequence"), place, strict=True):
        at = rows.schema.get_field_index(name)
        other = other.set_column(at, rows.schema.field(at), pa.array(values, pa.int64()))
    for name in ("destination", "producer_id", "producer_sequence"):
        at = rows.schema.get_field_index(name)
        field = rows.schema.field(at)
        other = other.set_column(at, field, pa.nulls(len(origins), field.type))
    return pa.Table.from_batches([rows, other]).combine_chunks().to_batches()[0]


def log_records(
    spark: SparkSession, source: LogSource, first_index: int, last_index: int
) -> DataFrame:
    """Give the records of a log without contents, read in parallel by segments."""
    ranges = split(first_index, last_index, source.position().bases)
    if not ranges:
        return spark.createDataFrame([], spark_schema())
    task = partial(_cut_records, source=source, names=source.queue_names())
    rows = spark.sparkContext.parallelize(ranges, len(ranges)).toDF(["first", "last"])
    return rows.mapInArrow(task, spark_schema())


def _cut_records(
    batches: Iterable[pa.RecordBatch], *, source: LogSource, names: dict[int, str]
) -> Iterator[pa.RecordBatch]:
    keep_loaded()
    facts = RangeFacts(dict(names))
    for batch in batches:
        for wanted in batch.to_pylist():
            for block in blocks_of(source, wanted["first"], wanted["last"]):
                rows = each_place(block_rows(block, facts, with_content=False))
                for start in range(0, rows.num_rows, ROWS_MAX):
                    yield rows.slice(start, ROWS_MAX)


def without_content(records: DataFrame) -> DataFrame:
    """Leave out what takes the room, or was not read; of policies the bytes stay."""
    return records.drop(*(name for name in CONTENT if name != "record"))


def messages(records: DataFrame) -> DataFrame:
    """Only messages, copies by the cleaner included."""
    return records.where("kind = 'message'")


def sweeping(records: DataFrame) -> DataFrame:
    """Purges and deletions: everything of a queue up to a sequence, before a record."""
    return records.where("kind IN ('purge', 'delete-queue')").select(
        f.col("queue_number").alias("swept_queue"),
        f.when(f.col("kind") == "purge", f.col("through_sequence"))
        .otherwise(f.lit(_EVERYTHING))
        .alias("swept_through"),
        f.col("record_number").alias("swept_at"),
        f.when(f.col("kind") == "purge", "purged").otherwise("deleted").alias("swept_as"),
    )


def settled(records: DataFrame) -> DataFrame:
    """Sequences that were acknowledged, dead-lettered, moved or removed, one row each."""
    return records.where(f.col("kind").isin(*REMOVING)).select(
        "queue_number",
        f.explode("sequences").alias("sequence"),
        f.col("record_number").alias("settled_at"),
        f.when(f.col("kind") == "acknowledge", "acknowledged")
        .when(f.col("kind") == "dead-letter", "dead-lettered")
        .otherwise(moved_as())
        .alias("settled_as"),
    )


def newest_copies(records: DataFrame) -> DataFrame:
    """Where each message stands last: queue_number, sequence, record_number, index, body_size …"""
    place = ["record_number", "index", "body_size", "next_sequence", "through_sequence", "record"]
    if "file" in records.columns:
        place.append("file")
    newest = (
        messages(records)
        .groupBy("queue_number", "sequence")
        .agg(f.max(f.struct(*place)).alias("newest"))
    )
    return newest.select("queue_number", "sequence", "newest.*")


def live(records: DataFrame) -> DataFrame:
    """The messages that live: queue_number, sequence, record_number of the newest copy."""
    left = _never_settled(records)
    known = topics_and_subscriptions(records)
    if not known.topics:
        return left
    is_on_topic = f.col("queue_number").isin(*known.topics)
    identity = ["queue_number", "sequence"]
    wanted = needed(records, known, settled(records)).select(*identity).distinct()
    of_topics = left.where(is_on_topic).join(wanted, identity, "left_semi")
    return left.where(~is_on_topic).unionByName(of_topics)


def _never_settled(records: DataFrame) -> DataFrame:
    """The messages that are not settled, purged or deleted since, and all of topics that are."""
    removed = (
        settled(records)
        .groupBy("queue_number", "sequence")
        .agg(f.max("settled_at").alias("settled_at"))
    )
    left = newest_copies(records).join(removed, ["queue_number", "sequence"], "left")
    left = left.where("settled_at IS NULL OR settled_at < record_number").drop("settled_at")
    swept = sweeping(records)
    is_swept = (
        (f.col("queue_number") == f.col("swept_queue"))
        & (f.col("sequence") <= f.col("swept_through"))
        & (f.col("record_number") < f.col("swept_at"))
    )
    return left.join(f.broadcast(swept), is_swept, "left_anti")


@dataclass(frozen=True, slots=True)
class LastingState:
    """What a log says beside its messages: queues, producers, counters, policies and users."""

    queues: tuple[QueueRecord, ...]
    producers: tuple[ProducerRecord, ...]
    next_queue_number: int
    policies: tuple[PolicyRecord, ...] = ()
    topics: tuple[TopicRecord, ...] = ()
    subscriptions: tuple[SubscriptionRecord, ...] = ()
    settled: tuple[SubscriptionAcknowledgeRecord, ...] = ()
    """What subscriptions are done with of what lives on their topics, and did not skip."""
    access: tuple[KeptRecord, ...] = ()
    """Users and grants."""

    @property
    def generation(self) -> int:
        """The generation of the cluster in which the newest messages were stored."""
        following = [each.next_sequence for each in self.queues]
        following += [each.next_sequence for each in self.topics]
        return max(map(generation_of, following), default=0)


def lasting_state(records: DataFrame) -> LastingState:
    """
    Collect queues, producers, counters, policies and users as the last of `records` leaves them.

    Records of policies, users and grants are needed with their bytes.
    """
    queues, next_number = _queues(records)
    producers = tuple(_producers(records))
    policies, access = _policies(records), _access(records)
    known = topics_and_subscriptions(records)
    if not known.topics:
        return LastingState(tuple(queues), producers, next_number, policies, access=access)
    return LastingState(
        *(tuple(queues), producers, next_number, policies),
        access=access,
        topics=tuple(lasting_topics(records, known)),
        subscriptions=tuple(known.subscriptions.values()),
        settled=tuple(settled_on_topics(records, known, settled(records))),
    )


def depths(records: DataFrame) -> dict[int, int]:
    """
    Count what lives by number of the queue or durable subscription; not of topics themselves.

    A durable subscription of a wildcard has what all of its parts have, as nodes tell it.
    """
    left = _never_settled(records).select("queue_number")
    known = topics_and_subscriptions(records)
    if known.topics:
        left = left.where(~f.col("queue_number").isin(*known.topics))
        wanted = needed(records, known, settled(records))
        left = left.unionAll(wanted.select(f.col("subscription").alias("queue_number")))
    wholes = known.wholes()
    found: dict[int, int] = {}
    for row in left.groupBy("queue_number").count().collect():
        number = wholes.get(row["queue_number"], row["queue_number"])
        if number:  # Parts of what has ended nobody sees any more.
            found[number] = found.get(number, 0) + row["count"]
    return found


def _queues(records: DataFrame) -> tuple[list[QueueRecord], int]:
    """The queues that exist, and the next number that was never used: one pass, one job."""

    def where(kind: str, value: Any) -> Any:
        return f.max(f.when(f.col("kind") == kind, value))

    rows = (
        records.where("queue_number IS NOT NULL OR kind = 'counters'")
        .groupBy("queue_number")
        .agg(
            where("queue", f.struct("record_number", "destination")).alias("declared"),
            where("queue", f.col("next_sequence")).alias("next"),
            where("message", f.col("sequence")).alias("last"),
            where("delete-queue", f.col("record_number")).alias("deleted_at"),
            where("counters", f.col("next_sequence")).alias("counter"),
            f.max("dispatch_mark").alias("mark"),
        )
        .collect()
    )
    next_number = 1
    found = []
    for row in sorted(rows, key=lambda row: row["queue_number"] or 0):
        number, declared = row["queue_number"], row["declared"]
        next_number = max(next_number, row["counter"] or 1, (number or 0) + 1)
        if declared is None or (row["deleted_at"] or 0) > declared["record_number"]:
            continue
        next_sequence = max(row["next"] or 1, (row["last"] or 0) + 1)
        found.append(QueueRecord(number, declared["destination"], next_sequence, row["mark"] or 0))
    return found, next_number


def producer_numbers(records: DataFrame) -> DataFrame:
    """
    Every number a producer's message or transaction was stored under, forgotten ones left out.

    producer_id, producer_sequence, record_number, index, used_at, is_repeat: a copy by the cleaner
    says again what was said before.
    """
    said = records.where(
        "producer_id IS NOT NULL AND (kind = 'producer' OR (kind = 'message' AND NOT rewritten))"
    ).select(
        "producer_id",
        f.coalesce("producer_sequence", f.lit(0)).alias("producer_sequence"),
        "record_number",
        "index",
        f.when(f.col("kind") == "message", f.col("entry_time"))
        .otherwise(f.coalesce("stored_at", "entry_time"))
        .alias("used_at"),
        (f.col("kind") == "producer").alias("is_repeat"),
    )
    forgotten = (
        records.where("kind = 'forget-producer'")
        .groupBy("producer_id")
        .agg(f.max("record_number").alias("forgotten_at"))
    )
    left = said.join(forgotten, "producer_id", "left")
    return left.where("forgotten_at IS NULL OR forgotten_at < record_number").drop("forgotten_at")


def _policies(records: DataFrame) -> tuple[PolicyRecord, ...]:
    """There are few of them: they are applied here, by the broker's own."""
    rows = records.where("kind = 'policy'").select("record_number", "record").collect()
    found = Policies()
    for row in sorted(rows, key=lambda row: row["record_number"]):
        for record in decode_records(bytes(row["record"])):
            assert isinstance(record, PolicyRecord), "the archive says so"
            found.apply(record, row["record_number"])
    return tuple(found.by_key.values())


def _access(records: DataFrame) -> tuple[KeptRecord, ...]:
    """As with policies."""
    rows = records.where("kind IN ('user', 'grant')").select("record_number", "record").collect()
    found = LastingAccess()
    for row in sorted(rows, key=lambda row: row["record_number"]):
        for record in decode_records(bytes(row["record"])):
            assert isinstance(record, UserRecord | GrantRecord), "the archive says so"
            found.apply(record, row["record_number"])
    return tuple(found.records())


def _producers(records: DataFrame) -> list[ProducerRecord]:
    order = f.struct("producer_sequence", "record_number")
    rows = (
        producer_numbers(records)
        .groupBy("producer_id")
        .agg(
            f.max("producer_sequence").alias("sequence"),
            f.unix_micros(f.max_by("used_at", order)).alias("used_at"),
        )
        .collect()
    )
    found = [ProducerRecord(row["producer_id"], row["sequence"], row["used_at"]) for row in rows]
    return sorted(found, key=lambda producer: producer.producer_id)


def moved_on(state: LastingState, by_queues: int) -> LastingState:
    """
    Leave room in a restored state for what the old cluster gave after it.

    Queue numbers move on. Sequences need not: the restored cluster is of another generation, in
    which queues give numbers of their own. A mark stands for what was there.
    """
    queues = tuple(
        QueueRecord(
            queue.queue_number,
            queue.name,
            queue.next_sequence,
            min(queue.dispatch_mark, queue.next_sequence - 1),
        )
        for queue in state.queues
    )
    return replace(state, queues=queues, next_queue_number=state.next_queue_number + by_queues)
