"""
Header lines to columns, each distinct block decoded once.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdfast.errors import CorruptRecordError
from holdfast.spark.columns import headers as header_columns
from holdfast.spark.columns.headers import HEADER_COLUMNS, HeaderReader

ONE = b"priority:9\nJMSXGroupID:g\nname\\cx:a\\nb\n"


def test_rows_with_the_same_lines_have_the_same_columns() -> None:
    """Escapes are undone; what is not there is null or the default."""
    blocks = pa.array([ONE, b"", ONE, b"reply-to:r\n"], pa.binary())
    columns = HeaderReader().columns(blocks, set(HEADER_COLUMNS))
    assert [9, 4, 9, 4] == columns["priority"].to_pylist()
    assert ["g", None, "g", None] == columns["group_id"].to_pylist()
    assert [None, None, None, "r"] == columns["reply_to"].to_pylist()
    assert [True] * 4 == columns["persistent"].to_pylist()
    maps = columns["headers"].to_pylist()
    assert [("priority", "9"), ("JMSXGroupID", "g"), ("name:x", "a\nb")] == maps[0] == maps[2]
    assert [] == maps[1]


def test_many_distinct_blocks_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered is bounded; the columns are right all the same."""
    monkeypatch.setattr(header_columns, "_KEPT_MAX", 3)
    reader = HeaderReader()
    blocks = pa.array([b"correlation-id:%d\n" % n for n in range(10)], pa.binary())
    assert [str(n) for n in range(10)] == (
        reader.columns(blocks, {"correlation_id"})["correlation_id"].to_pylist()
    )
    assert len(reader._known) <= 3


@pytest.mark.parametrize("lines", [b"no colon\n", b"bad:\\t\n", b"\xff:1\n"])
def test_lines_that_are_no_headers_are_an_error(lines: bytes) -> None:
    """Never a header less in silence."""
    with pytest.raises(CorruptRecordError, match="headers of a message"):
        HeaderReader().columns(pa.array([lines], pa.binary()), {"priority"})


@pytest.mark.parametrize("text", ["10", "-1", "x", "", "\u0664"])
def test_a_priority_that_is_none_is_the_default(text: str) -> None:
    """Producers send what they like; consumers are not told of it either."""
    blocks = pa.array([f"priority:{text}\n".encode()], pa.binary())
    assert [4] == HeaderReader().columns(blocks, {"priority"})["priority"].to_pylist()
