"""
A range of the log to batches of one view: what every task does, in Spark or without it.

Invariants:
    Memory is that of one block and its columns, however long the range is.
    Damage is an error with its place; with mode=report it is a row that says the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from holdfast.errors import ArchiveError, CorruptRecordError
from holdfast.model.facts import Origin
from holdfast.spark.archive.messages import archived_messages
from holdfast.spark.archive.source import ArchivedFiles
from holdfast.spark.columns.events import event_batch
from holdfast.spark.columns.headers import HeaderReader
from holdfast.spark.columns.messages import (
    cut_messages,
    entry_batch,
    in_pieces,
    message_batch,
    problem_batch,
)
from holdfast.spark.log.backlog import MovedRows, place_of
from holdfast.spark.log.entry_block import EntryBlock, Integers
from holdfast.spark.log.naming import CLUSTER_DIGITS, Naming
from holdfast.spark.log.record_table import Mask, MessageRows, RecordTable
from holdfast.spark.log.row_filter import INDEX_MAX, RowFilter
from holdfast.spark.log.source import DamagedRange, LogSource, search_names
from holdfast.spark.source.losses import LenientArchive
from holdfast.spark.source.options import ReadOptions

_Files = ArchivedFiles | LenientArchive


class LiveRows:
    """
    The rows of the view `backlog`: places of live messages, sorted, and their queues' marks.

    Where messages stand on several queues `queues` has that of each place; else it is empty.
    """

    __slots__ = ("marks", "moved", "places", "queues")

    def __init__(
        self,
        places: Integers,
        marks: dict[int, int],
        queues: Integers | None = None,
        moved: MovedRows | None = None,
    ) -> None:
        self.places = places
        self.marks = marks
        self.queues = queues if queues is not None else places[:0]
        self.moved = moved
        """What lives where it was moved to, with the way that it came."""

    def keep(self, rows: MessageRows, cluster: str = "") -> None:
        """Have one row for each queue on which a message is live, and no other."""
        if len(self.queues):
            rows.spread()
        places = place_of(rows.entries + rows.table.block.first_index, rows.ordinals)
        found = np.searchsorted(self.places, places)
        found[found == len(self.places)] = 0
        is_live = self.places[found] == places if len(self.places) else places < 0
        if len(self.queues):
            is_live &= self._is_on(rows.field("queue_number"), found, places)
        if self.moved is None:
            rows.keep(is_live)
        else:
            self._keep_moved(self.moved, rows, places, np.flatnonzero(is_live), cluster)

    @staticmethod
    def _keep_moved(
        moved: MovedRows, rows: MessageRows, places: Integers, kept: Integers, cluster: str
    ) -> None:
        """Have the rows that are kept, and what was moved on the queues where it stands now."""
        at = np.searchsorted(places, moved.places)
        is_here = at < len(places)
        is_here[is_here] = places[at[is_here]] == moved.places[is_here]
        origins = [
            Origin(
                moved.moves[which].cause,
                moved.moves[which].queue_name,
                f"ID:{cluster}-{moved.moves[which].queue_number}"
                f"-{moved.moves[which].source_of(sequence)}",
            )
            for which, sequence in zip(
                moved.moved_by[is_here].tolist(), moved.sequences[is_here].tolist(), strict=True
            )
        ]
        there = moved.queues[is_here], moved.sequences[is_here]
        rows.place_moved(kept, at[is_here], there, np.arange(len(origins)), origins)

    def _is_on(self, numbers: Integers, found: Integers, places: Integers) -> Mask:
        """Tell whether each row's queue is among those of its place, which stand side by side."""
        ends = np.searchsorted(self.places, places, "right")
        is_on = self.queues[found] == numbers
        for row in np.flatnonzero(~is_on & (ends - found > 1)).tolist():
            is_on[row] = numbers[row] in self.queues[found[row] : ends[row]]
        return np.asarray(is_on, dtype=np.bool_)

    def seen(self, rows: MessageRows) -> pa.Array:
        """Tell which messages a consumer may have seen."""
        numbers = rows.field("queue_number")
        marks = np.zeros(len(rows), dtype=np.int64)
        for number in np.unique(numbers).tolist():
            marks[numbers == number] = self.marks.get(number, 0)
        return pa.array(rows.field("sequence") <= marks)


class LogReading:
    """One task's reading: what is wanted, and the names of queues that it knows."""

    __slots__ = ("_at", "_headers", "live", "naming", "options", "source", "wanted")

    def __init__(
        self,
        source: LogSource,
        options: ReadOptions,
        names: dict[int, str],
        cluster_id: str,
        wanted: RowFilter | None = None,
        live: LiveRows | None = None,
    ) -> None:
        self.source = source
        self.options = options
        self._at = INDEX_MAX
        self.naming = Naming(names, cluster_id=cluster_id, search=self._search)
        self._headers = HeaderReader()
        self.wanted = wanted or RowFilter()
        self.live = live

    def batches(self, first_index: int, last_index: int) -> Iterator[pa.RecordBatch]:
        """
        Give these entries as batches.

        Raises:
            CorruptEntryError: An entry is damaged (mode=fail); the error names the place.
            CorruptRecordError: A record makes no sense (mode=fail).
            RecordNotFoundError: The log does not go back so far any more.
            LinkError: No node answers.
        """
        first = max(first_index, self.wanted.index_min)
        last = min(last_index, self.wanted.index_max)
        if first > last:
            return
        self._at = first
        if isinstance(self.source, _Files) and self._is_by_columns:
            yield from self._of_files(self.source, first, last)
            return
        for block in self.source.blocks(first, last):
            if isinstance(block, DamagedRange):
                yield from self._damage(block)
            else:
                yield from self._rows(block)

    def _search(self, wanted: set[int]) -> dict[int, str]:
        """Find the names of queues, from what this task reads on backwards first."""
        if isinstance(self.source, _Files):
            try:
                return self.source.queue_names()  # all that are declared in the archive
            except ArchiveError:
                if self.options.mode == "fail":
                    raise
                return {}
        return search_names(self.source, wanted, self._at)

    @property
    def _is_by_columns(self) -> bool:
        """Whether an archive's columns are the answer: what tells of damage goes by entries."""
        return self.options.view == "messages" and self.options.mode == "fail"

    def _of_files(
        self, source: ArchivedFiles | LenientArchive, first_index: int, last_index: int
    ) -> Iterator[pa.RecordBatch]:
        for piece in source.pieces(first_index, last_index):
            if isinstance(piece, DamagedRange):
                yield from self._damage(piece)
                continue
            columns, naming = self.options.columns, self.naming
            for batch in archived_messages(
                source.archive, piece, columns, naming, self._headers, self.wanted
            ):
                yield from in_pieces(batch)

    def _rows(self, block: EntryBlock) -> Iterator[pa.RecordBatch]:
        try:
            batch = self._cut(block)
        except CorruptRecordError as error:
            if self.options.mode == "fail":
                raise
            if len(block) == 1:
                yield self._problem(block.first_index, str(error))
                return
            # Rare: entry by entry, so that only what is wrong is reported.
            for index in range(block.first_index, block.last_index + 1):
                yield from self._rows(block.between(index, index))
            return
        yield from in_pieces(batch)

    def _cut(self, block: EntryBlock) -> pa.RecordBatch:
        columns = self.options.columns
        if self.options.view == "entries":
            return entry_batch(block, columns)
        if self.options.view == "events":
            return event_batch(block, columns, self.naming, self.wanted)
        if self.live is not None:
            return self._cut_live(block, self.live)
        return message_batch(block, columns, self.naming, self._headers, self.wanted)

    def _cut_live(self, block: EntryBlock, live: LiveRows) -> pa.RecordBatch:
        rows = MessageRows(RecordTable(block))
        live.keep(rows, self.naming.cluster_id[:CLUSTER_DIGITS])
        self.wanted.keep_messages(rows, self.naming)
        return cut_messages(
            rows,
            self.options.columns,
            self.naming,
            self._headers,
            view="backlog",
            extra={"may_have_been_seen": live.seen(rows)},
        )

    def _damage(self, damage: DamagedRange) -> Iterator[pa.RecordBatch]:
        if self.options.mode == "fail":
            raise damage.error
        for index in range(damage.first_index, damage.last_index + 1):
            yield self._problem(index, str(damage.error))

    def _problem(self, index: int, sentence: str) -> pa.RecordBatch:
        return problem_batch(self.options.view, self.options.columns, index, sentence)
