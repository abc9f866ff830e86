"""
A range of the log cut into parts that tasks read side by side.

The cuts are where segments begin: every entry belongs to exactly one part, and a part of a
directory is one file. Of an archive's files, which may be many and small, a task reads several.
Who asks for more parts than that gets segments cut in pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from pyspark.sql.datasource import InputPartition

from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.source import PART_BYTES, ArchivedFiles
from holdfast.spark.log.backlog import MovedRows
from holdfast.spark.log.holds import HeldRead

NAMES_MAX: Final = 1_000
"""Names of queues that a part carries; a worker asks for more by itself, once."""


def carried(names: dict[int, str]) -> dict[int, str]:
    """Return the names that each part carries: with very many queues that is none."""
    return names if len(names) <= NAMES_MAX else {}


@dataclass
class LogPartition(InputPartition):
    """Entries `first_index` to `last_index`, and the queue names known when it was planned."""

    first_index: int
    last_index: int
    names: dict[int, str] = field(default_factory=dict)
    cluster_id: str = ""
    held: HeldRead | None = None
    """Under which name the log is kept while this is read; of a batch read by url."""
    source: ArchivedFiles | None = None
    """Of an archive the files that hold these entries, so that no task reads all manifests."""


@dataclass
class BacklogPartition(LogPartition):
    """Of these entries the messages at `places`; see `backlog.place_of`."""

    places: bytes = b""
    queues: bytes = b""
    """The queue of each where a message may stand on several; empty: the one it names first."""
    marks: dict[int, int] = field(default_factory=dict)
    moved: MovedRows | None = None
    """What lives where it was moved to, and has its bytes in these entries."""


def split(first_index: int, last_index: int, bases: tuple[int, ...]) -> list[tuple[int, int]]:
    """Cut a range where segments begin; an empty range has no parts."""
    if first_index > last_index:
        return []
    cuts = [first_index, *(base for base in bases if first_index < base <= last_index)]
    ends = [cut - 1 for cut in cuts[1:]] + [last_index]
    return list(zip(cuts, ends, strict=True))


def at_least(ranges: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """
    Halve the longest of these ranges until there are `count`, or each is a single entry.

    As `minPartitions` of Spark's Kafka source: a segment's tasks read its beginning again where
    the log is a directory, so this pays where what is done with a row costs more than reading it.
    """
    longest = [(first - last, first, last) for first, last in ranges]
    heapify(longest)
    while longest and len(longest) < count and longest[0][0] < 0:
        _, first, last = heappop(longest)
        middle = (first + last) // 2
        heappush(longest, (first - middle, first, middle))
        heappush(longest, (middle + 1 - last, middle + 1, last))
    return sorted((first, last) for _, first, last in longest)


def tasks_for(files: Sequence[ArchivedFile], cores: int) -> int:
    """
    Give how many tasks read these data files: one per file is too many where they are small.

    A task costs a tenth of a second before it reads anything, and an archive that is written as
    the log grows has a file for every few seconds.
    """
    size = sum(file.bytes for file in files)
    return max(1, min(len(files), max(cores, -(-size // PART_BYTES))))
