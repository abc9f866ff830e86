"""
The tables of a log in a database, and how they are laid out.

One row of `holdfast_lease` is the lease, the end of the log and its fence; an entry is one row of
`holdfast_entries` for each MiB. `holdfast_meta` is the first table and its row the last: a database
with other tables of ours and no such table is somebody else's, and one with the table and no row is
being laid out. Numbers are told as literals; nothing here draws them from the database.

Source: "Stores and fenced leases", section 7.2.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    CHAR,
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateTable

FORMAT: Final = 1
COPYING: Final = 0
"""In the place of the format while the log is a copy that is not whole: nobody serves that."""
TEXT_MAX: Final = 255
LOCK_VIEW: Final = "ACTIVEMQ_LOCK"

_metadata = MetaData()
_MARIADB: Final[dict[str, Any]] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}
_raw = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")


def _key(name: str, kind: type[SmallInteger | Integer | BigInteger]) -> Column[int]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def _number(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _text(name: str) -> Column[str]:
    return Column(name, String(TEXT_MAX), nullable=False)


def _hexadecimal(name: str) -> Column[str]:
    return Column(name, CHAR(32), nullable=False)


TABLES: Final = (
    Table(
        "holdfast_meta",
        _metadata,
        _key("id", SmallInteger),
        Column("format", Integer, nullable=False),
        _hexadecimal("store_id"),
        _hexadecimal("member_id"),
        **_MARIADB,
    ),
    Table(
        "holdfast_lease",
        _metadata,
        _key("id", SmallInteger),
        _number("epoch"),
        _number("beat"),
        _hexadecimal("holder"),
        _text("name"),
        _text("address"),
        _text("stomp"),
        _number("lease_ms"),
        Column("released", SmallInteger, nullable=False),
        _number("last_index"),
        _hexadecimal("last_chain"),
        _number("first_index"),
        _number("renewed_at"),
        _number("event"),
        Column("members", Text, nullable=False),
        **_MARIADB,
    ),
    Table(
        "holdfast_entries",
        _metadata,
        _key("idx", BigInteger),
        _key("part", Integer),
        _number("term"),
        _number("first_record"),
        Column("record_count", Integer, nullable=False),
        Column("bytes", Integer, nullable=False),
        _number("stored_at"),
        Column("raw", _raw, nullable=False),
        **_MARIADB,
    ),
    Table(
        "holdfast_brokers",
        _metadata,
        Column("name", String(TEXT_MAX), primary_key=True),
        _hexadecimal("holder"),
        _text("address"),
        _text("stomp"),
        Column("known_level", Integer, nullable=False),
        _number("beat"),
        _number("applied_index"),
        **_MARIADB,
    ),
)
PROJECTIONS: Final = (
    Table(
        "holdfast_queues",
        _metadata,
        _key("number", Integer),
        Column("name", Text, nullable=False),
        _number("depth"),
        _number("bytes"),
        _number("enqueued"),
        _number("dequeued"),
        _number("oldest_at"),
        _number("as_of_index"),
        **_MARIADB,
    ),
)
"""What is shown to people only: a log is whole without, and an older one has none of them."""

_long_text = Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
MESSAGES: Final = (
    Table(
        "holdfast_messages",
        _metadata,
        _key("queue_number", Integer),
        _key("sequence", BigInteger),
        _number("idx"),
        Column("container", Text, nullable=False),
        _text("message_id"),
        _number("stored_at"),
        _number("expires_at"),
        Column("priority", SmallInteger, nullable=False),
        _number("size"),
        Column("headers", _long_text),
        Column("body", _raw),
        _number("as_of_index"),
        **_MARIADB,
    ),
    Table(
        "holdfast_subscriptions",
        _metadata,
        _key("number", Integer),
        Column("container", Text, nullable=False),
        Column("client_id", Text, nullable=False),
        Column("name", Text, nullable=False),
        Column("selector", _long_text, nullable=False),
        _number("depth"),
        _number("last_acked"),
        _number("as_of_index"),
        **_MARIADB,
    ),
)
"""The same of what is shown only where it is asked for."""

MESSAGE_VIEWS: Final = {
    "ACTIVEMQ_MSGS": (
        "SELECT sequence AS ID, container AS CONTAINER, message_id AS MSGID_PROD,"
        " sequence AS MSGID_SEQ, expires_at AS EXPIRATION, body AS MSG, priority AS PRIORITY"
        " FROM holdfast_messages"
    ),
    "ACTIVEMQ_ACKS": (
        "SELECT container AS CONTAINER, container AS SUB_DEST, client_id AS CLIENT_ID,"
        " name AS SUB_NAME, selector AS SELECTOR, last_acked AS LAST_ACKED_ID, 5 AS PRIORITY"
        " FROM holdfast_subscriptions"
    ),
}
"""For people who know ActiveMQ's tables."""

META: Final = TABLES[0].name
"""It says what the others are."""


CHANGES: Final = (
    "UPDATE holdfast_lease SET beat = beat WHERE id < 0",
    "INSERT INTO holdfast_entries SELECT * FROM holdfast_entries WHERE idx < 0",
    "DELETE FROM holdfast_entries WHERE idx < 0",
    "INSERT INTO holdfast_brokers SELECT * FROM holdfast_brokers WHERE name = ''",
    "UPDATE holdfast_brokers SET beat = beat WHERE name = ''",
    "DELETE FROM holdfast_brokers WHERE name = ''",
)
"""What a log does with its tables, done to no row: it fails where the right to do it is missing."""


def creations(dialect: Dialect) -> list[str]:
    """Give the statements that make the tables, each where it is not there yet."""
    return [_creation(it, dialect) for it in TABLES]


def _creation(table: Table, dialect: Dialect) -> str:
    return str(CreateTable(table, if_not_exists=True).compile(dialect=dialect))


def probes() -> list[tuple[str, str]]:
    """Give each table's name and a query that fails if it, or a column, is not there."""
    return [(it.name, _probe(it)) for it in TABLES]


def _probe(table: Table) -> str:
    return f"SELECT {', '.join(c.name for c in table.columns)} FROM {table.name} WHERE 1 = 0"


def projections(
    dialect: Dialect, tables: tuple[Table, ...] = PROJECTIONS
) -> list[tuple[str, str, str]]:
    """Give the name, the probe and the creation of each table that is only shown."""
    return [(it.name, _probe(it), _creation(it, dialect)) for it in tables]


LOCK_QUERY: Final = "SELECT id AS ID, renewed_at AS TIME, name AS BROKER_NAME FROM holdfast_lease"
"""Of the view for people who know ActiveMQ's table of that name."""
