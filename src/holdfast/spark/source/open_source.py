"""
From the options to the source: the one place that knows all kinds of places a log may be in.

Readers know only the contract in `log/source.py`. It is called on the driver and again on every
executor, as sources keep nothing open between calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.spark.archive.manifest_reader import MANIFESTS
from holdfast.spark.archive.source import ArchivedFiles, ArchivedSource
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.source import LogSource
from holdfast.spark.log.store_log import StoreLog
from holdfast.spark.source.options import ReadOptions


def open_source(options: ReadOptions) -> LogSource:
    """
    Return where the log is read from; of an archive its manifests are read, of others nothing yet.

    Raises:
        ArchiveError: The path is in an object store, and there is no archive.
    """
    if options.urls:
        return RemoteLog(options.urls, token=options.token)
    if options.stores:
        return StoreLog(options.stores)
    if "://" in options.path or (Path(options.path) / MANIFESTS).is_dir():
        return ArchivedSource.open(options.path, options.place_options)
    return LogDirectory(options.path, cluster_id=options.cluster_id)


def parts_of(
    source: LogSource, ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], ArchivedFiles | None]]:
    """Give each range with what its task is given of the source; None: it opens it by itself."""
    parts = source.parts(ranges) if isinstance(source, ArchivedSource) else [None] * len(ranges)
    return zip(ranges, parts, strict=True)
