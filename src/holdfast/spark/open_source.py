"""
From the options to the source: the one place that knows all kinds of places a log may be in.
"""

from __future__ import annotations

from holdfast.spark.log_client import RemoteLog
from holdfast.spark.log_directory import LogDirectory
from holdfast.spark.log_source import LogSource
from holdfast.spark.options import ReadOptions


def open_source(options: ReadOptions) -> LogSource:
    """Return where the log is read from; nothing is opened before it is asked."""
    if options.urls:
        return RemoteLog(options.urls, token=options.token)
    return LogDirectory(options.path, cluster_id=options.cluster_id)
