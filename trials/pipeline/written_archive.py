"""
An archive written without Spark: for tests of what reads archives.

The ranges are written and published by the code of `holdfast archive`, in the calling thread; only
where ranges end is chosen here and not by the log's segments.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.spark.archive.places import Options
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.proof import chain_before_log
from holdfast.spark.log.source import search_names
from holdfast.spark.pipelines.written_ranges import LogRange, joined, write_range


def archived_log(
    log: LogDirectory, folder: Path | str, *, per_range: int, options: Options = ()
) -> Archive:
    """Archive a log, so many entries to a range and file; `options` are those of its store."""
    position = log.position()
    archive = Archive.open(str(folder), options)
    chain = chain_before_log(log, position)
    names = log.queue_names() | search_names(log)
    for first in range(position.first_index, position.last_index + 1, per_range):
        last = min(first + per_range - 1, position.last_index)
        wanted = LogRange(first, last, chain)
        written = write_range(wanted, source=log, archive=archive, names=names)
        archive.publish(joined([written], position.cluster_id))
        chain = written.chain_after
    return archive
