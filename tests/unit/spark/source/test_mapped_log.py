"""What a function makes of a log is what it was said to make, or an error says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from holdfast.errors import ConfigError, MappedRowsError
from holdfast.spark.source.mapped_log import _schema, _source, map_log, mapped

SAID = pa.schema([("n", pa.int64()), ("word", pa.string())])


def given(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"index": pa.array(numbers, pa.int64())})


def rows(function: Callable[[pa.RecordBatch], Any], *batches: pa.RecordBatch) -> list[Any]:
    made = list(mapped(iter(batches), function, SAID))
    assert all(batch.schema == SAID for batch in made)
    return [tuple(row.values()) for batch in made for row in batch.to_pylist()]


def test_columns_come_in_any_order_and_are_cast() -> None:
    """And what the function adds beside them is left out."""

    def double(batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = batch.column("index").to_pylist()
        return pa.RecordBatch.from_pydict(
            {
                "more": pa.nulls(len(numbers)),
                "word": pa.array([str(it) for it in numbers]),
                "n": pa.array([2 * it for it in numbers], pa.int32()),
            }
        )

    assert rows(double, given(1, 2), given(3)) == [(2, "1"), (4, "2"), (6, "3")]


def test_a_function_gives_fewer_rows_or_more_and_may_give_a_table() -> None:
    """None at all is no batch."""

    def only_large(batch: pa.RecordBatch) -> pa.Table:
        large = [it for it in batch.column("index").to_pylist() if it > 1]
        return pa.table({"n": pa.array(large * 2, pa.int64()), "word": ["x"] * len(large) * 2})

    assert rows(only_large, given(1), given(2)) == [(2, "x"), (2, "x")]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, "gave NoneType; it must give"),
        ({"n": [1]}, "gave dict; it must give"),
        (pa.table({"n": [1]}), r"gave 0 columns 'word'.*it gave 'n'"),
        (pa.table([[1], [2], ["a"]], names=["n", "n", "word"]), "gave 2 columns 'n'"),
        (pa.table({"n": ["many"], "word": ["a"]}), "'n' of type string, which is no int64"),
        (pa.table({"n": [[1]], "word": ["a"]}), "'n' of type list<.*which is no int64"),
    ],
)
def test_what_it_was_not_said_to_give_is_an_error(made: Any, said: str) -> None:
    """The sentence names the column."""
    with pytest.raises(MappedRowsError, match=said):
        rows(lambda _batch: made, given(1))


def test_a_schema_names_columns() -> None:
    """One without any is refused."""
    wanted = StructType([StructField("n", LongType()), StructField("word", StringType())])
    assert _schema(wanted) is wanted
    with pytest.raises(ConfigError, match="names no column"):
        _schema(StructType([]))


def test_each_function_has_a_source_of_its_own() -> None:
    """The same one has the same name, so that calling over and over leaves one behind."""
    wanted = StructType([StructField("n", LongType())])
    other = StructType([StructField("n", StringType())])
    first, second = (lambda batch: batch), (lambda batch: batch.slice(1))
    names = [_source(it, schema).name() for it in (first, second) for schema in (wanted, other)]
    assert len(set(names)) == 4
    assert _source(first, wanted).name() == names[0]


def test_a_function_is_given_no_rows_of_damage() -> None:
    """They are for people: a function would take them for messages."""
    with pytest.raises(ConfigError, match="mode: a function is given no rows of damage"):
        map_log(None, lambda batch: batch, "n long", path="/x", mode="report")  # type: ignore[arg-type]
