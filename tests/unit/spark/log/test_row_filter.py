"""
Which rows are wanted; the columns' own tests show that nothing wanted is left out.
"""

from __future__ import annotations

import numpy as np

from holdfast.spark.log.naming import Naming
from holdfast.spark.log.record_table import MessageRows, RecordTable
from holdfast.spark.log.row_filter import RowFilter
from trials.pipeline.written_log import block_of, message


def kept(wanted: RowFilter) -> list[tuple[int, int]]:
    rows = MessageRows(RecordTable(block_of([message(q, n) for q in (1, 2) for n in (1, 2, 3)])))
    wanted.keep_messages(rows, Naming({1: "a", 2: "b"}))
    return list(
        zip(rows.field("queue_number").tolist(), rows.field("sequence").tolist(), strict=True)
    )


def test_a_filter_without_bounds_keeps_all() -> None:
    """Ranges of entries are decided before rows are looked at."""
    assert RowFilter(index_min=5, index_max=9).is_for_all
    assert 6 == len(kept(RowFilter()))


def test_each_bound_is_inclusive() -> None:
    """As `>=` and `<=`."""
    assert [(1, 2), (1, 3), (2, 2), (2, 3)] == kept(RowFilter(sequence_min=2))
    assert [(1, 1), (2, 1)] == kept(RowFilter(sequence_max=1))
    assert [] == kept(RowFilter(time_min=1_000_001))
    assert 6 == len(kept(RowFilter(time_min=1_000_000, time_max=1_000_000)))


def test_destinations_are_looked_up_by_number() -> None:
    """A queue whose name is unknown is none of those wanted."""
    assert [(2, 1), (2, 2), (2, 3)] == kept(RowFilter(destinations=frozenset({"b", "c"})))
    wanted = RowFilter(destinations=frozenset({"a"}))
    numbers = np.array([1, 9, 1], dtype=np.int64)
    assert [True, False, True] == wanted.of_destinations(numbers, Naming({1: "a"})).tolist()
