"""
Ranges of the log as an archive's data files: one per day, up to `FILE_BYTES_MAX` each.

A file is written under a name nobody else uses, and is durable once it is finished. It is part of
the archive only when a published manifest names it. The name tells the attempt that wrote it: when
one of an attempt's tasks fails, what the others have finished can be found and goes.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import date, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.journal.entry import CHAIN_BYTES
from holdfast.spark.archive.file_digest import FileDigest
from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.places import DurableFile, Place
from holdfast.spark.archive.rows import RECORDS, RangeFacts, block_rows
from holdfast.spark.log.entry_block import EntryBlock

DATA: Final = "records"
COMPRESSION: Final = "snappy"
"""Measured on 1 KiB bodies, half of them random: snappy took a quarter of zstd's time for 5 % more
bytes, and less than writing them uncompressed."""
FILE_BYTES_MAX: Final = 256 * 1024 * 1024
_DAY_MICROSECONDS: Final = 24 * 3600 * 1_000_000
_EPOCH: Final = date(1970, 1, 1)


class RangeWriter:
    """
    Writes blocks of entries in order as data files, one per day and `FILE_BYTES_MAX`.

    Nothing it writes counts until its files are named by a published manifest.
    """

    def __init__(
        self,
        place: Place,
        chain_before: str,
        names: dict[int, str],
        compression: str,
        attempt: str = "",
    ) -> None:
        self._place = place
        self._attempt = attempt
        self._compression = compression
        self.facts = RangeFacts(names)
        self.files: list[ArchivedFile] = []
        self._chain_before = chain_before
        self._chain = chain_before
        self._first = self._last = 0
        self._day = ""
        self._before = (0, 0)
        self._written = 0
        self._output: _HashedFile | None = None
        self._table: Any = None
        self._path = ""

    def add(self, block: EntryBlock) -> None:
        """Take the next block; it was proven to continue the log."""
        days = block.field("timestamp") // _DAY_MICROSECONDS
        starts = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist()]
        ends = [*starts[1:], len(block)]
        for start, end in zip(starts, ends, strict=True):
            first, last = block.first_index + start, block.first_index + end - 1
            day = f"{_EPOCH + timedelta(days=int(days[start])):%Y-%m-%d}"
            self._add_of_day(block.between(first, last), day)

    def _add_of_day(self, block: EntryBlock, day: str) -> None:
        if day != self._day or self._written >= FILE_BYTES_MAX or self._table is None:
            self.finish()
            self._begin(block.first_index, day)
        rows = block_rows(block, self.facts)
        self._table.write_table(pa.Table.from_batches([rows]), row_group_size=rows.num_rows)
        self._written += int(block.ends[-1] - block.starts[0])
        self._last = block.last_index
        self._chain = block.chains[-CHAIN_BYTES:].hex()

    def finish(self) -> list[ArchivedFile]:
        """Close what is open; gives all files written so far, durable."""
        if self._table is None:
            return self.files
        self._table.close()
        output = self._output
        assert output is not None
        output.close()
        self.files.append(
            ArchivedFile(
                path=self._path,
                day=self._day,
                first_index=self._first,
                last_index=self._last,
                rows=self.facts.rows - self._before[0],
                messages=self.facts.messages - self._before[1],
                bytes=output.digest.size,
                digest=output.digest.text,
                chain_before=self._chain_before,
                chain_after=self._chain,
            )
        )
        self._table = self._output = None
        return self.files

    def abandon(self) -> None:
        """Remove everything written, as far as the store lets us: the job failed."""
        if self._output is not None:
            self._output.abandon()
            if self._table is not None:  # else the disk was full with the file's first bytes
                with suppress(OSError):
                    self._table.close()
            _remove(self._place, [self._path])
        _remove(self._place, [file.path for file in self.files])

    def _begin(self, index: int, day: str) -> None:
        self._day, self._first, self._chain_before = day, index, self._chain
        self._written = 0
        self._before = (self.facts.rows, self.facts.messages)
        # The last index is not known yet, and a name must not be taken by another task.
        name = f"{index:020d}-{self._attempt}{uuid.uuid4().hex[:12]}.parquet"
        self._path = f"{_folder(day)}/{name}"
        self._output = _HashedFile(self._place.write_durable(self._path))
        self._table = pq.ParquetWriter(
            pa.PythonFile(self._output, "w"),
            RECORDS,
            compression=self._compression,
            # The chain proves bodies, not all that an entry's header says: of when it is, for one.
            write_page_checksum=True,
            use_dictionary=[
                "index",
                "term",
                "entry_kind",
                "entry_time",
                "chain",
                "kind",
                "queue_number",
                "destination",
                "producer_id",
                "header_lines",
            ],
            write_statistics=["index", "record_number", "entry_time", "stored_at", "destination"],
        )


def new_attempt() -> str:
    """Give what tells the files of one attempt from those of all others."""
    return uuid.uuid4().hex[:12]


def remove_attempt(place: Place, attempt: str, since_day: str) -> None:
    """
    Remove the files of an attempt that failed, of this day and later, as far as the store lets us.

    What is left, because it is out of reach or a task still writes it, is named by no manifest.
    """
    with suppress(OSError):
        for folder in place.folders(DATA):
            if folder >= _folder(since_day):
                found = [it.path for it in place.files(folder)]
                _remove(place, [path for path in found if f"-{attempt}" in path])


def _folder(day: str) -> str:
    return f"{DATA}/day={day}"


def _remove(place: Place, paths: list[str]) -> None:
    for path in paths:
        with suppress(OSError):  # no manifest will name it, so that `sweep` does it later
            place.remove(path)


class _HashedFile:
    """What pyarrow writes to: passes bytes on and keeps their digest."""

    def __init__(self, target: DurableFile) -> None:
        self._target = target
        self.digest = FileDigest()
        self.closed = False
        self._is_abandoned = False

    def abandon(self) -> None:
        """Write nothing more: a full disk would let nobody finish the file."""
        self._is_abandoned = True
        with suppress(OSError):
            self.close()

    def write(self, data: Any) -> int:
        if self._is_abandoned:
            return len(data)
        self._target.write(data)
        self.digest.update(data)
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._target.__exit__()

    def tell(self) -> int:
        return self.digest.size

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False
