"""
The options of a table in Spark's catalog: `CREATE TABLE ... USING holdfast OPTIONS (...)`.

When such a table is made, Spark hands over its options twice, as `name` and as `option.name`, among
properties of its own (`provider`, `owner`, `location`, whatever TBLPROPERTIES says). When the table
is read, a data source written in Python gets none of them: only what the query itself gives (seen
with Spark 4.3). What Spark does give back is the schema, so the options travel there, in the
metadata of every column: of every one, as a reader may one day be asked for some of them.

Pure, but for Spark's types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from holdfast.errors import ConfigError

METADATA: Final = "holdfast.options"
"""The key in a column's metadata."""

_PREFIX: Final = "option."
_OF_EVERY_TABLE: Final = "provider"
"""What Spark says of every table, and of nothing else."""

_SECRET: Final = ("fs.s3a.secret.key", "fs.s3a.session.token")
_PLACES: Final = frozenset({"url", "path", "store"})


def options_of_new_table(options: Mapping[str, str]) -> dict[str, str] | None:
    """
    Return the options of a table that is being made; None if these are no table's.

    Raises:
        ConfigError: They would show a secret to everyone who may look at the table.
    """
    given = {key.lower(): value for key, value in options.items()}
    if _OF_EVERY_TABLE not in given:
        return None
    own = {
        key.removeprefix(_PREFIX): value
        for key, value in given.items()
        if key.startswith(_PREFIX) or key == "path"
    }
    if secrets := [key for key in _SECRET if key in own]:
        raise ConfigError(
            [
                f"{key}: a table shows its options to everyone who may look at it; leave this to"
                f" the environment of driver and workers, or give it with each query"
                for key in secrets
            ]
        )
    if own.get("path", "").startswith("file:"):
        own["path"] = "/" + own["path"].removeprefix("file:").lstrip("/")
    return own


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema of a table, which carries its options."""
    return StructType(
        [
            StructField(
                field.name,
                field.dataType,
                field.nullable,
                {**(field.metadata or {}), METADATA: dict(options)},
            )
            for field in schema.fields
        ]
    )


def table_options(schema: StructType) -> dict[str, str]:
    """Return the options that a table's schema carries; none if it is of no table."""
    for field in schema.fields:
        found = (field.metadata or {}).get(METADATA)
        if found:
            return {str(key): str(value) for key, value in found.items()}
    return {}


def options_of_query(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """
    Return what a query gives, and of its table's options those that it does not give.

    A query that names a place of its own does not read the table's place.
    """
    given = {key.lower(): value for key, value in options.items()}
    known = table_options(schema)
    if _PLACES & given.keys():
        known = {key: value for key, value in known.items() if key not in _PLACES}
    return known | given
