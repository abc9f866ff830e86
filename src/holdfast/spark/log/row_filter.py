"""
Which rows are wanted: the part of a query that is decided before headers and bodies are touched.

A filter only ever leaves out what the query would leave out anyway: Spark applies every condition
again to what comes back, so a filter may let too much through, never too little.

Pure: no Spark, no disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from holdfast.spark.log.naming import Naming
from holdfast.spark.log.record_table import MessageRows

INDEX_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Bounds, both inclusive; `destinations` None means all. Times are in microseconds."""

    index_min: int = 0
    index_max: int = INDEX_MAX
    sequence_min: int = 0
    sequence_max: int = INDEX_MAX
    time_min: int = 0
    time_max: int = INDEX_MAX
    destinations: frozenset[str] | None = None

    @property
    def is_for_all(self) -> bool:
        """Whether no row of the entries in range is left out."""
        return (
            self.destinations is None
            and self.sequence_min <= 0
            and self.sequence_max == INDEX_MAX
            and self.time_min <= 0
            and self.time_max == INDEX_MAX
        )

    def keep_messages(self, rows: MessageRows, naming: Naming) -> None:
        """Forget the rows that are not wanted."""
        if self.is_for_all:
            return
        mask = np.ones(len(rows), dtype=np.bool_)
        if self.sequence_min > 0 or self.sequence_max < INDEX_MAX:
            sequences = rows.field("sequence")
            mask &= (sequences >= self.sequence_min) & (sequences <= self.sequence_max)
        if self.time_min > 0 or self.time_max < INDEX_MAX:
            stored = rows.stored_at
            mask &= (stored >= self.time_min) & (stored <= self.time_max)
        if self.destinations is not None:
            mask &= self.of_destinations(rows.field("queue_number"), naming)
        rows.keep(mask)

    def of_destinations(
        self, numbers: npt.NDArray[np.int64], naming: Naming
    ) -> npt.NDArray[np.bool_]:
        """Tell of each queue number whether its queue is wanted."""
        assert self.destinations is not None
        distinct = np.unique(numbers)
        names = naming.of(distinct.tolist())
        wanted = [name in self.destinations for name in names]
        return np.isin(numbers, distinct[np.array(wanted, dtype=np.bool_)])
