"""
What lived in an archive of any size, asked of Spark; see `applied_archive` for a small one.

Workers read the records without contents, Spark joins them (`log_state`), and workers pack what
lives. Use as a context manager: what Spark keeps of it goes at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import functions as f

from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.pipelines.log_state import (
    LastingState,
    archived_records,
    lasting_state,
    live,
    without_content,
)
from holdfast.spark.pipelines.message_packing import Packed, pack_files, unpacked
from holdfast.spark.pipelines.moved_rows import with_contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class QueriedArchive:
    """An archive up to an entry, of which these files are read."""

    def __init__(
        self,
        spark: SparkSession,
        source: ArchivedSource,
        files: list[ArchivedFile],
        as_of: int,
    ) -> None:
        self._source = source
        self._files = files
        self._as_of = as_of
        self._records = without_content(archived_records(spark, source, as_of, files)).cache()
        self._found = live(self._records).cache()
        self._living = with_contents(self._found, self._records).cache()

    def __enter__(self) -> Self:
        """Nothing is read before it is asked for."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let Spark forget it."""
        self._living.unpersist()
        self._found.unpersist()
        self._records.unpersist()

    def lasting_state(self) -> LastingState:
        """Give queues, producers, counters, policies and users."""
        return lasting_state(self._records)

    def last_record(self) -> Mapping[str, Any] | None:
        """Give where the last record stands, and what its entry says; None if there is none."""
        last = (
            self._records.where(f.col("index") <= self._as_of)
            .orderBy(f.col("index").desc(), f.col("ordinal").desc())
            .select(
                "index",
                "term",
                "record_number",
                "ordinal",
                "chain",
                f.unix_micros("entry_time").alias("time"),
            )
            .first()
        )
        return last.asDict() if last is not None else None

    def queues(self) -> Iterable[Mapping[str, Any]]:
        """Say of each queue on which something lives how much, and from where to where."""
        rows = (
            self._living.groupBy("queue_number")
            .agg(
                f.count("*").alias("messages"),
                f.sum("body_size").alias("bytes"),
                f.min("sequence").alias("first"),
                f.max("sequence").alias("last"),
            )
            .collect()
        )
        return [row.asDict() for row in rows]

    def packed(self, scratch: Place, cluster: str) -> Iterator[Packed]:
        """Give what lives; of what workers pack nothing stays, also where one of them died."""
        try:
            parts = pack_files(self._source.archive, self._files, self._living, scratch, cluster)
            yield from unpacked(scratch, parts)
        finally:
            scratch.remove_all()
