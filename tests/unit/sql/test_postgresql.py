"""PostgreSQL's session without a server: what its errors mean, and the text of its append."""

from __future__ import annotations

import gc
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from psycopg import errors

from holdfast.environment.remote_server import Host
from holdfast.sql.faults import Fault
from holdfast.sql.postgresql import PostgresqlSession, python_encoding
from holdfast.sql.url import POSTGRESQL, StoreUrl


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (errors.UniqueViolation(), Fault.DUPLICATE),
        (errors.ReadOnlySqlTransaction(), Fault.READ_ONLY),
        (errors.LockNotAvailable(), Fault.BUSY),
        (errors.IdleInTransactionSessionTimeout(), Fault.BUSY),
        (errors.SerializationFailure(), Fault.BUSY),
        (errors.DeadlockDetected(), Fault.BUSY),
        (errors.DiskFull(), Fault.FULL),
        (errors.ProgramLimitExceeded(), Fault.FULL),
        (errors.AdminShutdown(), Fault.LOST),
        (errors.CrashShutdown(), Fault.LOST),
        (errors.CannotConnectNow(), Fault.LOST),
        (errors.ConnectionFailure(), Fault.LOST),
        (errors.UndefinedTable(), Fault.NO_TABLE),
        (errors.UndefinedColumn(), Fault.NO_COLUMN),
        (errors.InvalidCatalogName(), Fault.NO_DATABASE),
        (errors.InvalidPassword(), Fault.CREDENTIALS),
        (errors.InsufficientPrivilege(), Fault.FORBIDDEN),
        (errors.DataCorrupted(), Fault.DAMAGED),
        (errors.IndexCorrupted(), Fault.DAMAGED),
        (errors.IoError(), Fault.FAILING),
        (errors.InternalError_(), Fault.UNKNOWN),
        (errors.SyntaxError(), Fault.UNKNOWN),
        (psycopg.OperationalError("server closed the connection unexpectedly"), Fault.LOST),
        (psycopg.OperationalError("session is read-only"), Fault.LOST),
        (
            psycopg.OperationalError('FATAL:  password authentication failed for user "x"'),
            Fault.CREDENTIALS,
        ),
        (psycopg.OperationalError('FATAL:  database "x" does not exist'), Fault.NO_DATABASE),
        (psycopg.OperationalError("FATAL:  the database system is starting up"), Fault.LOST),
        (errors.TooManyConnections(), Fault.CROWDED),
        (psycopg.OperationalError("FATAL:  sorry, too many clients already"), Fault.CROWDED),
        (
            psycopg.OperationalError('FATAL:  too many connections for role "x"'),
            Fault.CROWDED,
        ),
        (
            psycopg.OperationalError('FATAL:  too many connections for database "x"'),
            Fault.CROWDED,
        ),
        (
            psycopg.OperationalError(
                "FATAL:  remaining connection slots are reserved for non-replication superuser"
            ),
            Fault.CROWDED,
        ),
        (psycopg.ProgrammingError("no result"), Fault.UNKNOWN),
    ],
    ids=str,
)
def test_errors_have_their_meaning(error: psycopg.Error, fault: Fault) -> None:
    """By their code; while it connects, by what the server says."""
    assert PostgresqlSession.fault(error) is fault


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("UTF8", ""),
        ("SQL_ASCII", ""),
        ("LATIN1", "iso8859-1"),
        ("WIN1252", "cp1252"),
        ("KOI8R", "koi8-r"),
        ("EUC_JP", "euc_jp"),
        ("MULE_INTERNAL", ""),
        ("", ""),
    ],
)
def test_encodings_of_a_server_are_known(name: str, known: str) -> None:
    """Nothing is left out where all signs can be had, or where it is not known."""
    assert python_encoding(name) == known


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_not_waited_for_long() -> None:
    """L36: its port is open and nothing comes: that is a lost connection, within its bound, and its
    descriptor is given back without Python's collector, whoever keeps the error."""
    gc.disable()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = Host("127.0.0.1", silent.getsockname()[1])
        url = StoreUrl(POSTGRESQL, (host,), "holdfast", password="secret")
        before, began = descriptors(), time.monotonic()
        error = lost(url, host)
        assert descriptors() == before
    gc.enable()
    assert time.monotonic() - began < 10
    assert PostgresqlSession.fault(error) is Fault.LOST
    assert "secret" not in str(error)


def lost(url: StoreUrl, host: Host) -> Exception:
    try:
        PostgresqlSession.connect(url, host, 0.5)
    except psycopg.OperationalError as error:
        return error
    raise AssertionError("nobody answers there")


def descriptors() -> list[str]:
    return sorted(it.name for it in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize(
    ("source", "fault"), [("md.c", Fault.UNWRITABLE), ("aclchk.c", Fault.FORBIDDEN)]
)
def test_a_file_system_that_is_read_only_is_no_wrong_password(
    monkeypatch: pytest.MonkeyPatch, source: str, fault: Fault
) -> None:
    """PostgreSQL has one code for both; which part of it said so tells them apart."""
    error = errors.InsufficientPrivilege("could not extend file: Read-only file system")
    diag = SimpleNamespace(source_file=source)
    monkeypatch.setattr(errors.InsufficientPrivilege, "diag", diag)

    assert PostgresqlSession.fault(error) is fault
