"""
What a message costs by how much of the log is read in one go: processor time, and pages taken anew.

A log of messages is cut into batches of six columns in this process, and these are thrown away, or
written as a stream of Arrow's into a socket, as Spark's Python workers do; who reads there is not
counted. Each size and way in turn; told are the median and the least of the rounds. Memory that the
system gives anew comes page by page (4 KiB), each of them cleared first.

Run: .venv/bin/python benches/blocks.py [--messages N] [--body-bytes N] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import statistics
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from machine import KIB

from holdfast.spark.log import directory
from holdfast.spark.source.batch_reader import BatchReader
from holdfast.spark.source.options import read_options
from spark import SIX_COLUMNS, Log

SIZES = tuple(KIB * it for it in (512, 1024, 2048, 4096, 8192))
BUFFER_BYTES = 64 * KIB
"""Spark's `spark.buffer.size`."""


def throw_away(batches: Iterable[pa.RecordBatch]) -> None:
    """The parser alone."""
    for _ in batches:
        pass


def send(batches: Iterable[pa.RecordBatch]) -> None:
    """Write them into a socket; another process reads it."""
    ours, theirs = socket.socketpair()
    reader = os.fork()
    if not reader:
        ours.close()
        room = bytearray(BUFFER_BYTES)
        while theirs.recv_into(room):
            pass
        os._exit(0)
    theirs.close()
    with ours, os.fdopen(os.dup(ours.fileno()), "wb", BUFFER_BYTES) as file:
        stream = None
        for batch in batches:
            stream = stream or pa.RecordBatchStreamWriter(file, batch.schema)
            stream.write_batch(batch)
        if stream is not None:
            stream.close()
    os.waitpid(reader, 0)


def measured(log: Log, block_bytes: int, way: str) -> tuple[float, float]:
    """Microseconds of processor time, and pages, for each message."""
    directory.BLOCK_BYTES = block_bytes  # type: ignore[misc]
    reader = BatchReader(read_options({"path": str(log.directory), "columns": SIX_COLUMNS}))
    partitions = reader.partitions()
    before = resource.getrusage(resource.RUSAGE_SELF)
    for partition in partitions:
        (send if way == "sent" else throw_away)(reader.read(partition))
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds / log.messages * 1e6, (after.ru_minflt - before.ru_minflt) / log.messages


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description="What a message costs by the size of a block.")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--body-bytes", type=int, default=KIB)
    parser.add_argument("--rounds", type=int, default=8)
    chosen = parser.parse_args()
    log = Log("", chosen.messages, chosen.body_bytes)
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        log.write(Path(name))
        for _ in range(chosen.rounds + 1):
            for way in ("parsed", "sent"):
                for size in SIZES:
                    found.setdefault((way, size), []).append(measured(log, size, way))
    for (way, size), rounds in found.items():
        used = [it for it, _ in rounds[1:]]
        pages = statistics.median(it for _, it in rounds[1:])
        print(
            f"{way}, blocks of {size // KIB:,} KiB: {statistics.median(used):.2f} µs of a core"
            f" (least {min(used):.2f}), {pages:.2f} pages a message"
        )


if __name__ == "__main__":
    main()
