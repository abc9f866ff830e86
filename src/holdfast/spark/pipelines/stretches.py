"""
Reading on behind what an archive lacks, and saying so.

Whoever reads an archive is told of a gap by an error, as of any damage. Some want what there is all
the same, because the gap was accepted when the archive was written: a replay, a report.
"""

from __future__ import annotations

import logging
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.log.source import LogSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("holdfast.spark")


def load_stretches(spark: SparkSession, options: dict[str, str], source: LogSource) -> DataFrame:
    """
    Give the rows that `options` of the data source ask for, in the order of the log.

    Of an archive with gaps the rest is read, and a warning names them.
    """
    gaps = gaps_of(source)
    if not gaps or not isinstance(source, ArchivedSource):
        return spark.read.format("holdfast").options(**options).load()
    for sentence in gaps:
        logger.warning("%s: what was in them is left out", sentence)
    parts = [
        {**options, "start_index": str(first), "end_index": str(last)}
        for first, last in source.stretches()
    ]
    frames = [spark.read.format("holdfast").options(**each).load() for each in parts]
    return reduce(lambda one, other: one.union(other), frames)


def gaps_of(source: LogSource) -> list[str]:
    """Say what is missing between the first and the last entry of an archive, one sentence each."""
    if not isinstance(source, ArchivedSource):
        return []
    return [
        f"entries {before + 1:,} to {after - 1:,} are missing from the archive {source.archive}"
        for (_, before), (after, _) in pairwise(source.stretches())
    ]
