"""Columns of facts where there are none, and what facts leave alone."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdfast.model.facts import Attributes, MessageFacts
from holdfast.spark.columns.facts import FACT_COLUMNS, fact_column, with_origins, with_priorities
from holdfast.spark.columns.schema import arrow_type
from trials.pipeline.written_log import EACH_FACT

LAST_MS = 253_402_300_799_999
"""Of the year 9999."""


@pytest.mark.parametrize("name", sorted(FACT_COLUMNS))
def test_a_column_has_the_type_that_the_view_says(name: str) -> None:
    """With facts and without."""
    facts = MessageFacts(**EACH_FACT)
    for known in ({}, {1: facts}):
        column = fact_column(name, known, 3)
        assert column.type == arrow_type("messages", name)
        assert column.is_valid().to_pylist() == [False, bool(known), False]


def test_facts_that_say_nothing_of_it_leave_a_column_alone() -> None:
    """It is not even copied."""
    facts = {0: MessageFacts(due_ms=1)}
    priorities, blocks = pa.array([4], pa.int32()), pa.array([b"a:b\n"])
    assert with_priorities(priorities, facts) is priorities
    assert with_origins(blocks, facts) is blocks


@pytest.mark.parametrize("never", [253_402_300_800_000, (1 << 63) - 1, (1 << 64) - 1])
def test_a_time_that_nobody_can_show_is_none(never: int) -> None:
    """Programs say "never" by the largest number they have."""
    facts = {0: MessageFacts(attributes=Attributes(expires_ms=never), due_ms=never)}
    for name in ("expires_at", "due_at"):
        assert fact_column(name, facts, 1).to_pylist() == [None]
    shown = {0: MessageFacts(attributes=Attributes(expires_ms=LAST_MS), due_ms=LAST_MS)}
    for name in ("expires_at", "due_at"):
        (moment,) = fact_column(name, shown, 1).to_pylist()
        assert moment.year == 9999
