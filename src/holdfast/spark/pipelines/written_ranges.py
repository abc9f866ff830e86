"""
Ranges of the log as tasks write them: proven on the way, and joined to what a manifest says.

A range lies within one segment; the driver joins those that were written side by side, and a merge
writes neighbours of the archive as one.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from itertools import pairwise

from holdfast.errors import ArchiveError
from holdfast.spark.archive.fetched_place import fetched
from holdfast.spark.archive.manifests import ArchivedFile, Catalogue, Manifest
from holdfast.spark.archive.range_writer import COMPRESSION
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.proof import RangeEnd, chain_at, proven_blocks
from holdfast.spark.log.source import NO_CHAIN, LogSource
from holdfast.spark.worker_memory import keep_loaded


@dataclass(frozen=True, slots=True)
class LogRange:
    """A piece of work: entries of one segment, and the chain before them; None: look it up."""

    first_index: int
    last_index: int
    chain_before: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRange:
    """What a task says it wrote."""

    first_index: int
    last_index: int
    chain_before: str
    chain_after: str
    last_term: int
    first_record: int
    next_record: int
    first_timestamp: int
    last_timestamp: int
    messages: int
    log_bytes: int
    files: tuple[ArchivedFile, ...]
    queues: dict[int, str]
    unknown: frozenset[int]
    cleaned_through: int
    complete_from: int


def write_range(
    wanted: LogRange,
    *,
    source: LogSource,
    archive: Archive,
    names: dict[int, str],
    compression: str = COMPRESSION,
    attempt: str = "",
) -> WrittenRange:
    """
    Write one range of the log as data files; runs in a worker.

    Raises:
        CorruptEntryError: An entry is damaged, missing, or does not continue the chain.
    """
    keep_loaded()
    before = wanted.chain_before
    if before is None:
        before = chain_at(source, wanted.first_index - 1)
    writer = archive.writer(before, dict(names), compression, attempt)
    chain = bytes.fromhex(before) if before != NO_CHAIN else None
    ends: list[RangeEnd] = []
    log_bytes = 0
    try:
        for block in proven_blocks(source, wanted.first_index, wanted.last_index, chain):
            ends = [*ends[:1], RangeEnd.of(block, 0), RangeEnd.of(block, len(block) - 1)]
            log_bytes += int(block.ends[-1] - block.starts[0])
            writer.add(block)
        files = writer.finish()
    except BaseException:
        writer.abandon()
        raise
    first, last = ends[0], ends[-1]
    facts = writer.facts
    return WrittenRange(
        first_index=first.index,
        last_index=last.index,
        chain_before=before,
        chain_after=last.chain,
        last_term=last.term,
        first_record=first.first_record,
        next_record=last.next_record,
        first_timestamp=first.timestamp,
        last_timestamp=last.timestamp,
        messages=facts.messages,
        log_bytes=log_bytes,
        files=tuple(files),
        queues=facts.declared,
        unknown=frozenset(facts.unknown),
        cleaned_through=facts.cleaned_through,
        complete_from=facts.complete_from,
    )


def joined(written: list[WrittenRange], cluster_id: str) -> Manifest:
    """
    Give the manifest of ranges that follow each other.

    Raises:
        ArchiveError: They do not fit together.
    """
    for before, after in pairwise(written):
        if (before.last_index + 1, before.chain_after) != (after.first_index, after.chain_before):
            raise ArchiveError(
                f"what was read up to entry {before.last_index:,} does not fit what was read from"
                f" {after.first_index:,} on: the log changed meanwhile, or is of two clusters"
            )
    first, last = written[0], written[-1]
    cleaned = max(written, key=lambda each: each.cleaned_through)
    return Manifest(
        cluster_id=cluster_id,
        first_index=first.first_index,
        last_index=last.last_index,
        chain_before=first.chain_before,
        chain_after=last.chain_after,
        last_term=last.last_term,
        first_record=first.first_record,
        next_record=last.next_record,
        first_timestamp=first.first_timestamp,
        last_timestamp=last.last_timestamp,
        messages=sum(each.messages for each in written),
        log_bytes=sum(each.log_bytes for each in written),
        files=tuple(file for each in written for file in each.files),
        queues={number: name for each in written for number, name in each.queues.items()},
        cleaned_through=cleaned.cleaned_through,
        complete_from=cleaned.complete_from,
        written_by=f"{socket.gethostname()}:{os.getpid()}",
    )


def merge_range(
    group: list[Manifest], *, archive: Archive, compression: str, attempt: str = ""
) -> WrittenRange:
    """Write the entries of neighbouring ranges as one range; every entry is proven on the way."""
    first, last = group[0], group[-1]
    near = Archive(fetched(archive.place))
    names: dict[int, str] = {}
    for manifest in group:
        for file in manifest.files:
            # The new file's digest would else make right what the chain does not prove.
            near.check(file)
            # Most queues were declared in an earlier range, and nothing else says so here.
            names |= near.names_in(file)
    return write_range(
        LogRange(first.first_index, last.last_index, first.chain_before),
        source=ArchivedSource(near, Catalogue(tuple(group))),
        archive=archive,
        names=names,
        compression=compression,
        attempt=attempt,
    )
