"""
`spark.readStream.format("holdfast")`: the log as it grows.

An offset is the last entry taken, and of which log it is: that is proven before a query goes on,
when it starts, with each batch, and whenever the cluster was promoted by force meanwhile. With a
hold the cluster keeps the log from the first entry that Spark has not reported done, across
restarts of either; without one a reader that is away for long may find that entries were cleaned
away, and is told so by an error, or with failOnDataLoss=false by a warning and a number in its
progress.

Invariants:
    A query never goes on in another log than the one it has read.
    An offset is never before one that was given, whatever a node says that is behind.
    An offset is never beyond what the cluster has committed.
    The hold moves only to what Spark has said is done; never back. While there is nothing new it
    is renewed, so that it does not expire under a query that waits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from holdfast.errors import RecordNotFoundError
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.log.client import PATIENCE_SECONDS, PAUSE_SECONDS, RemoteLog
from holdfast.spark.log.holds import Hold
from holdfast.spark.log.row_filter import RowFilter
from holdfast.spark.log.source import LogPosition, first_index_at
from holdfast.spark.source.batch_reader import read_partition
from holdfast.spark.source.continuity import (
    check_cluster,
    check_continues,
    shorter_log_error,
    taken_at,
)
from holdfast.spark.source.losses import first_kept, passed_over
from holdfast.spark.source.offsets import Taken, offset_at, taken_of
from holdfast.spark.source.open_source import open_source, parts_of
from holdfast.spark.source.options import ReadOptions
from holdfast.spark.source.partitions import LogPartition, at_least, carried, split

ARCHIVE_LOOK_SECONDS: Final = 1.0
"""How often the manifests of an archive are read again: Spark asks every few milliseconds."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one view as the log grows. Lives on the driver; tasks use `read` alone."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.source = open_source(options)
        self.hold: Hold | None = None
        if options.hold and isinstance(self.source, RemoteLog):
            bounds = (options.hold_bytes_max, options.hold_expiry_seconds)
            self.hold = Hold(self.source, options.hold, *bounds)
        self.target_index: int | None = None
        """With Trigger.AvailableNow: where to stop."""
        self.skipped_entries = 0
        """With failOnDataLoss=false: how many the query has passed over since it was started."""
        self._reached = -1
        """The furthest offset that was given; -1 before the first."""
        self._proven: set[tuple[Taken, int]] = set()
        """What was found in the log, and in which generation of the cluster."""
        self._looked_at = time.monotonic()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """
        Where a query without a checkpoint begins; sets the hold there.

        Raises:
            RecordNotFoundError: The log does not go back to `start_index` any more.
            StoreError: The offset that was given to begin at is of another log.
            LinkError: No node answers.
        """
        position = self._look()
        options = self.options
        for taken in options.proofs:
            check_continues(self.source, position, taken)
        first = position.first_index
        if options.starts_at_latest:
            first = position.last_index + 1
        elif options.start_time is not None:
            first = first_index_at(self.source, position, options.start_time)
        elif options.start_index is not None:
            first = options.start_index
        if not options.fails_on_loss:
            first = self._first_to_read(first, position.last_index, position)
        elif first < position.first_index:
            raise RecordNotFoundError(
                f"start_index {first:,} is not in the log any more: it begins with entry"
                f" {position.first_index:,}"
            )
        if self.hold is not None:
            self.hold.move(first, or_first=not options.fails_on_loss)
        self._reached = max(self._reached, first - 1)
        return offset_at(taken_at(self.source, position, first - 1))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What `maxBytesPerTrigger` and `maxEntriesPerTrigger` say."""
        if self.options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(self.options.bytes_per_trigger_max)
        if self.options.entries_per_trigger_max is not None:
            return ReadMaxRows(self.options.entries_per_trigger_max)
        return ReadAllAvailable()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        """
        Where the next batch ends.

        Raises:
            LinkError: No node answers.
            StoreError: The log is not the one that `start` is of.
        """
        begin = taken_of(start)
        self._renew_hold(begin.index + 1)
        position = self._position_for(begin)
        last = self._last_index(position)
        self._reached = max(self._reached, begin.index)
        if last <= begin.index:
            return start
        options = self.options
        if not isinstance(limit, ReadAllAvailable):
            first = begin.index + 1
            if not options.fails_on_loss:
                # What is gone takes no time, and must not be gone through batch by batch.
                first = first_kept(self.source, position, first)
            if options.entries_per_trigger_max is not None:
                last = min(last, first - 1 + options.entries_per_trigger_max)
            if options.bytes_per_trigger_max is not None and first <= last:
                last = min(last, self.source.reach(first, options.bytes_per_trigger_max))
        if last <= begin.index:
            return start
        # Also where nobody was promoted: nodes that are put back to older copies, and the files of
        # one, tell of nothing. What they took in since stands where other entries were taken.
        check_continues(self.source, position, begin)
        end = taken_at(self.source, position, last)
        self._reached = last
        self._proven = {(begin, position.generation), (end, position.generation)}
        return offset_at(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """How far the log goes, and how far behind we are, for Spark's progress reports."""
        position = self._look()
        last = max(position.last_index, self._reached)
        told = offset_at(Taken(last, position.cluster_id, position.generation))
        if self._reached >= 0:
            told["entries_behind"] = last - self._reached
        if self.hold is not None:
            told["held_bytes"] = self.hold.held_bytes
        if not self.options.fails_on_loss:
            told["skipped"] = self.skipped_entries
        return told

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where the log ends now: the query stops there."""
        self.target_index = self._look().last_index

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """
        Plan the tasks of one batch.

        Raises:
            LinkError: No node answers.
            StoreError: The log is not the one that the batch is of.
        """
        begin, through = taken_of(start), taken_of(end)
        first, last = begin.index + 1, through.index
        self._reached = max(self._reached, last)
        if first > last:
            return []
        position = self._position_for(through)
        self._prove(begin, position)
        if not self.options.fails_on_loss:
            first = self._first_to_read(first, last, position)
        names = carried(self.source.queue_names())
        ranges = at_least(split(first, last, position.bases), self.options.partitions_min)
        return [
            LogPartition(*bounds, names, position.cluster_id, source=part)
            for bounds, part in parts_of(self.source, ranges)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part of a batch, on an executor."""
        return read_partition(self.options, partition, RowFilter())

    def commit(self, end: dict[str, Any]) -> None:
        """
        Move the hold behind what Spark is done with.

        Raises:
            LinkError: No node answers: the query stops rather than let the log grow unheld.
        """
        if self.hold is not None:
            lenient = not self.options.fails_on_loss
            self.hold.move(taken_of(end).index + 1, or_first=lenient)

    def _renew_hold(self, index: int) -> None:
        """Renew the hold if that is due; one that has ended may begin later if nobody minds."""
        if self.hold is None:
            return
        try:
            self.hold.renew_if_due(index)
        except RecordNotFoundError:
            if self.options.fails_on_loss:
                raise
            self.hold.move(index, or_first=True)

    def _first_to_read(self, first: int, last: int, position: LogPosition) -> int:
        """Pass over what was cleaned away, and count it."""
        kept = first_kept(self.source, position, first)
        self.skipped_entries += passed_over(first, kept, last)
        return kept

    def _look(self) -> LogPosition:
        """Ask how far the log goes; of an archive what was added meanwhile is read now and then."""
        source, now = self.source, time.monotonic()
        if isinstance(source, ArchivedSource) and now - self._looked_at >= ARCHIVE_LOOK_SECONDS:
            self.source = source.reopened()
            self._looked_at = time.monotonic()
        return self.source.position()

    def _position_for(self, taken: Taken) -> LogPosition:
        """
        Ask how far the log goes, and make sure that it is the one in which this was taken.

        One that is shorter may be behind; after a promotion by force it is not waited for forever.
        """
        started = time.monotonic()
        while True:
            position = self._look()
            check_cluster(taken, position)
            if position.last_index >= taken.index:
                self._prove(taken, position)
                return position
            if not taken.cluster_id or position.generation <= taken.generation:
                return position
            if time.monotonic() - started > PATIENCE_SECONDS:
                raise shorter_log_error(taken, position)
            time.sleep(PAUSE_SECONDS)

    def _prove(self, taken: Taken, position: LogPosition) -> None:
        """Look into the log, unless that was done since the last promotion by force."""
        if (taken, position.generation) not in self._proven:
            check_continues(self.source, position, taken)
            self._proven.add((taken, position.generation))

    def _last_index(self, position: LogPosition) -> int:
        ends = (self.target_index, self.options.end_index)
        return min([position.last_index, *(end for end in ends if end is not None)])
