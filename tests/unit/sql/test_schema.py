"""The tables, as each dialect makes them."""

from __future__ import annotations

import re

import pytest
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.engine import Dialect

from holdfast.sql import schema


@pytest.mark.parametrize(
    ("dialect", "kind"),
    [(sqlite.dialect(), "BLOB"), (postgresql.dialect(), "BYTEA"), (mysql.dialect(), "LONGBLOB")],
)
def test_bytes_have_room_in_each_dialect(dialect: Dialect, kind: str) -> None:
    """A BLOB of MariaDB alone would end at 64 KiB; nothing draws its own numbers anywhere."""
    text = "\n".join(schema.creations(dialect))

    assert f"raw {kind} NOT NULL" in text
    assert text.count("IF NOT EXISTS") == len(schema.TABLES)
    assert "SERIAL" not in text
    assert "AUTO_INCREMENT" not in text


def test_mariadb_compares_names_byte_by_byte() -> None:
    """Its usual order takes `A` and `a` for the same broker; and its tables can roll back."""
    for text in schema.creations(mysql.dialect()):
        assert "ENGINE=InnoDB" in text
        assert "COLLATE utf8mb4_bin" in text


def test_what_says_what_the_others_are_is_made_first() -> None:
    """So that tables without it are somebody else's."""
    assert schema.META == "holdfast_meta" == schema.probes()[0][0]


def test_probes_ask_for_every_column() -> None:
    """A table of another version lacks one, and is found out at the start."""
    by_table = dict(schema.probes())
    for table in schema.TABLES:
        for column in table.columns:
            assert column.name in by_table[table.name]


def test_the_view_has_the_columns_that_activemq_has() -> None:
    """People who know its table find holder and time in ours."""
    assert schema.LOCK_VIEW == "ACTIVEMQ_LOCK"
    assert schema.LOCK_QUERY == (
        "SELECT id AS ID, renewed_at AS TIME, name AS BROKER_NAME FROM holdfast_lease"
    )
    for name, columns in {
        "ACTIVEMQ_MSGS": "ID CONTAINER MSGID_PROD MSGID_SEQ EXPIRATION MSG PRIORITY",
        "ACTIVEMQ_ACKS": "CONTAINER SUB_DEST CLIENT_ID SUB_NAME SELECTOR LAST_ACKED_ID PRIORITY",
    }.items():
        assert re.findall(" AS ([A-Z_]+)", schema.MESSAGE_VIEWS[name]) == columns.split()
