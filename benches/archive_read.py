"""
Reading an archive's messages, beside pyarrow reading the same files: processor time per row.

Three ways in turn, one process, no Spark: pyarrow with all columns of the files; the view
`messages` from the files' columns, with all its default columns and without the map `headers`; and
the same view with every entry rebuilt, as `mode=report` reads. What is told is processor time of
all threads, the median of the rounds.

Run: .venv/bin/python benches/archive_read.py [--messages N] [--body-bytes N] [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.columns.schema import default_columns
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.source import LogSource
from holdfast.spark.source.log_reading import LogReading
from holdfast.spark.source.options import read_options
from spark import PER_ENTRY, Log
from trials.pipeline.written_archive import archived_log

FILES = 4
Batches = Iterator[pa.RecordBatch]


def by_pyarrow(archive: Archive) -> Batches:
    """Every column, one row group at a time."""
    for file in archive.catalogue().files():
        with archive.place.open_input(file.path) as source:
            table = pq.ParquetFile(source)
            for group in range(table.num_row_groups):
                yield from table.read_row_group(group).to_batches()


def read(source: LogSource, columns: str) -> Batches:
    """As a task reads it."""
    position = source.position()
    options = read_options({"path": "/nowhere", "columns": columns})
    reading = LogReading(source, options, {}, position.cluster_id)
    return reading.batches(position.first_index, position.last_index)


def by_columns(archive: Archive, columns: str = "*") -> Batches:
    """From the files' columns."""
    source = ArchivedSource.open(str(archive))
    position = source.position()
    (part,) = source.parts([(position.first_index, position.last_index)])
    return read(part, columns)


def by_entries(archive: Archive) -> Batches:
    """Every entry rebuilt and proven by the chain."""
    return read(ArchivedSource.open(str(archive)), "*")


def timed(way: Callable[[], Batches]) -> tuple[float, int]:
    """Give processor seconds and rows."""
    began, rows = time.process_time(), 0
    for batch in way():
        rows += batch.num_rows
    return time.process_time() - began, rows


def main() -> None:
    """Write, read in turn, and print a table."""
    parser = argparse.ArgumentParser(
        description="Reading an archive's messages, by processor time."
    )
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    few = ", ".join(name for name in default_columns("messages") if name != "headers")
    with tempfile.TemporaryDirectory() as folder:
        log = Log("", chosen.messages, chosen.body_bytes)
        log.write(Path(folder))
        per_range = -(-chosen.messages // PER_ENTRY // FILES)
        source = LogDirectory(str(log.directory))
        archive = archived_log(source, Path(folder) / "archive", per_range=per_range)
        ways: dict[str, Callable[[], Batches]] = {
            "pyarrow, all columns of the files": lambda: by_pyarrow(archive),
            "messages by columns": lambda: by_columns(archive),
            "messages by columns, without headers": lambda: by_columns(archive, few),
            "messages by entries": lambda: by_entries(archive),
        }
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(chosen.rounds):
            for name, way in ways.items():
                seconds, rows = timed(way)
                assert rows >= chosen.messages, (name, rows)
                found[name].append(seconds / chosen.messages * 1e6)
        files = archive.catalogue().files()
    size = sum(file.bytes for file in files) / 1e6
    print(f"{chosen.messages:,} × {chosen.body_bytes} B, {len(files)} files, {size:,.0f} MB\n")
    print("| way | µs of processor a row | range |\n|---|---|---|")
    for name, each in found.items():
        middle = statistics.median(each)
        print(f"| {name} | {middle:.2f} | {min(each):.2f}–{max(each):.2f} |")


if __name__ == "__main__":
    main()
