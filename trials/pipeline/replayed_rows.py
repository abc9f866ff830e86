"""
What a replay sends, without Spark: the rows of a source as its sender takes them, and a program.

    python -m trials.pipeline.replayed_rows SOURCE TARGET URI

sends every message of a data directory or an archive by the sender of `holdfast replay`, and writes
after each turn how many are confirmed: so that it can be killed there.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from holdfast.environment.clock import SystemClock
from holdfast.spark.pipelines.replay import Choice
from holdfast.spark.pipelines.replay_numbers import Stretches
from holdfast.spark.pipelines.replay_sender import ReplayProgress, Sender, Told
from holdfast.spark.source.batch_reader import BatchReader
from holdfast.spark.source.options import read_options

_COLUMNS: Final = (
    "index,ordinal,term,stored_at,queue_number,sequence,rewritten,destination,header_block,body"
)


class Row(NamedTuple):
    """A message as Spark hands it to the sender."""

    log_index: int
    ordinal: int
    term: int
    stored_us: int
    queue_number: int
    sequence: int
    rewritten: bool
    destination: str
    header_block: bytes
    body: bytes


def rows_of(source: dict[str, str]) -> Iterator[Row]:
    """Give every message of a source in the order of the log, planned and read as by tasks."""
    reader = BatchReader(read_options(source | {"columns": _COLUMNS}))
    for part in reader.partitions():
        for batch in reader.read(part):
            for row in batch.to_pylist():
                stored_us = int(row.pop("stored_at").timestamp() * 1_000_000)
                yield Row(log_index=row.pop("index"), stored_us=stored_us, **row)


def replay_rows(
    rows: Iterator[Any], target: str, uri: str, told: Told | None = None
) -> ReplayProgress:
    """Send these rows under the numbers that are their own; returns when all are stored."""
    job = Choice().job("0" * 32, target)
    sender = Sender(job, target, Stretches(), rate=None, told=told, clock=SystemClock())
    asyncio.run(sender.run(uri, rows, {}))
    return sender.progress


def main() -> None:
    """Send what the command line says."""
    path, target, uri = sys.argv[1:]

    def tell(progress: ReplayProgress) -> None:
        sys.stdout.write(f"{progress.confirmed}\n")
        sys.stdout.flush()

    replay_rows(rows_of({"path": path}), target, uri, tell)
    sys.stdout.write("done\n")
    sys.stdout.flush()
    sys.stdin.readline()


if __name__ == "__main__":
    main()
