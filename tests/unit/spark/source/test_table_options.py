"""
The options of a table in Spark's catalog: how they come, and how they travel in its schema.
"""

from __future__ import annotations

import pytest

from holdfast.errors import ConfigError
from holdfast.spark.columns.schema import spark_schema
from holdfast.spark.source.data_source import HoldfastDataSource
from holdfast.spark.source.table_options import (
    options_of_new_table,
    options_of_query,
    table_options,
    with_options,
)

OF_TABLE = {
    "provider": "holdfast",
    "owner": "somebody",
    "url": "http://a:1",
    "option.url": "http://a:1",
    "view": "of TBLPROPERTIES",
    "option.maxBytesPerTrigger": "1m",
}
"""As Spark hands over what CREATE TABLE says."""


def test_only_what_was_said_as_an_option_is_one() -> None:
    """Spark's own properties are not, nor those of TBLPROPERTIES; a query has no such names."""
    assert options_of_new_table(OF_TABLE) == {"url": "http://a:1", "maxbytespertrigger": "1m"}
    assert options_of_new_table({"url": "http://a:1"}) is None


@pytest.mark.parametrize("path", ["file:/a/log", "file:///a/log", "/a/log"])
def test_the_place_of_files_is_a_path(path: str) -> None:
    """Spark makes a URI of it; an object store's stays."""
    assert options_of_new_table({"provider": "holdfast", "path": path}) == {"path": "/a/log"}
    store = {"provider": "holdfast", "option.path": "s3a://a/log"}
    assert options_of_new_table(store) == {"path": "s3a://a/log"}


def test_a_secret_is_no_option_of_a_table() -> None:
    """Whoever may look at the table would see it."""
    options = {"provider": "holdfast", "option.fs.s3a.secret.key": "hush"}
    with pytest.raises(ConfigError, match=r"fs\.s3a\.secret\.key: a table shows") as caught:
        options_of_new_table(options)
    assert "hush" not in str(caught.value)


def test_the_options_travel_in_every_column() -> None:
    """Through the JSON in which a catalog keeps the schema; beside what a column has already."""
    schema = with_options(spark_schema("messages", ("body", "index")), {"url": "http://a:1"})
    again = type(schema).fromJson(schema.jsonValue())
    for name in ("body", "index"):
        one = type(schema)([again[name]])
        assert table_options(one) == {"url": "http://a:1"}
    assert table_options(spark_schema("messages", ("body",))) == {}


def test_what_a_query_says_wins() -> None:
    """Each option by itself, whatever its letters; a place of its own takes the table's away."""
    schema = with_options(spark_schema("messages"), {"url": "http://a:1", "hold": "h"})
    assert options_of_query(schema, {}) == {"url": "http://a:1", "hold": "h"}
    assert options_of_query(schema, {"Hold": "x"}) == {"url": "http://a:1", "hold": "x"}
    assert options_of_query(schema, {"path": "/x"}) == {"path": "/x", "hold": "h"}


def test_a_table_that_is_made_is_read_without_options() -> None:
    """The schema that making it gives brings them back; what makes no sense is said at once."""
    made = HoldfastDataSource(
        {"provider": "holdfast", "option.path": "/x", "option.view": "events"}
    )
    options = HoldfastDataSource({}).reader(made.schema()).options
    assert (options.path, options.view) == ("/x", "events")
    assert options.columns == tuple(made.schema().fieldNames())
    with pytest.raises(ConfigError, match="sorted_by: there is no such option"):
        HoldfastDataSource({"provider": "x", "option.url": "a:1", "option.sorted_by": "a"}).schema()


def test_a_table_without_options_says_how_to_have_some() -> None:
    """Made with a list of columns, or written to."""
    rows = spark_schema("messages", ("body",))
    with pytest.raises(ConfigError, match="make it without, and name columns"):
        HoldfastDataSource({}).reader(rows)
    with pytest.raises(ConfigError, match="is for reading"):
        HoldfastDataSource({}).writer(rows, overwrite=False)
