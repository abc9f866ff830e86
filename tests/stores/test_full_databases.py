"""
Databases that have no room for an entry: refused in one sentence, nothing lost, the lease stays.

The server's tables are on a small file system that is really full: PostgreSQL refuses, and goes on
once there is room again, MariaDB 10.11 ends by itself. Or they are in a space that may not grow.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.errors import AppendRefusedError, UnreachableError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import LeasedLog, Outcome
from holdfast.model.limits import MiB
from holdfast.sql.opening import open_sql_log
from tests.stores.leased_log_suite import SECONDS, Writer, read_all
from tests.stores.sql_faults_suite import SHORT_SECONDS
from trials.chaos.small_disk import SmallDisk, SmallDiskError
from trials.databases.mariadb import MariadbServer, missing_mariadb
from trials.databases.postgresql import PostgresqlServer, missing_postgresql
from trials.databases.server import DatabaseServer

pytestmark = pytest.mark.processes

BODY = bytes(range(256)) * (MiB >> 8)


class TightMariadb(MariadbServer):
    """Its tables are in one space, which may not grow for ever."""

    def settings(self) -> dict[str, str]:
        return {
            **super().settings(),
            "innodb_file_per_table": "0",
            "innodb_data_file_path": "ibdata1:12M:autoextend:max:28M",
        }


@contextmanager
def on_small_disk(server: DatabaseServer) -> Iterator[SmallDisk]:
    """A file system of 64 MiB for the server's tables."""
    try:
        with SmallDisk(server.folder / "disk", 64 * MiB) as small:
            shutil.chown(small.folder, server.user, server.user)
            yield small
    except SmallDiskError as error:
        pytest.skip(f"needs a disk that is really full: {error}")
    finally:
        server.remove()


@pytest.fixture
def logs() -> Iterator[list[LeasedLog]]:
    """What is open; closed after the test."""
    made: list[LeasedLog] = []
    yield made
    for log in made:
        log.close()


def opened(url: str, logs: list[LeasedLog]) -> LeasedLog:
    log = open_sql_log(url, own_directory=Path("/nowhere"))
    logs.append(log)
    log.open()
    return log


def require(missing: str) -> None:
    if missing:
        pytest.skip(missing)


def until_refused(writer: Writer, bytes_max: int) -> str:
    """Append until there is no room; gives what is said then."""
    for _ in range(bytes_max // MiB):
        entries = writer.sealed(BODY)
        try:
            writer.send_until_known(entries)
        except AppendRefusedError as error:
            with pytest.raises(AppendRefusedError):
                writer.send_until_known(entries)
            return str(error)
    raise AssertionError("there was room for all of it")


def assert_goes_on(writer: Writer, said: str, other: LeasedLog) -> None:
    """What was stored is there, what was refused is not, and the lease is still ours."""
    assert "has no room: " in said
    assert "\n" not in said
    assert read_all(other) == writer.stored
    assert writer.log.renew(SECONDS) is Outcome.STORED
    assert other.observe(SECONDS).claimant == writer.claimant


def play(server: DatabaseServer, url: str, small: SmallDisk, logs: list[LeasedLog]) -> None:
    """The story, on a server whose tables are on this disk."""
    writer = Writer(opened(url, logs))
    writer.take()
    writer.append(b"before")
    small.fill(8 * MiB)
    said = until_refused(writer, 64 * MiB)
    other = opened(url, logs)
    assert_goes_on(writer, said, other)
    small.make_room()

    assert writer.append(b"after")
    assert read_all(other) == writer.stored
    server.kill()
    server.start()
    assert read_all(opened(url, logs)) == writer.stored


def test_postgresql_on_a_full_disk(logs: list[LeasedLog]) -> None:
    """L39: its tables are on the full disk, the log of the server itself elsewhere."""
    require(missing_postgresql())
    server = PostgresqlServer()
    with on_small_disk(server) as small, server:
        folder = small.folder / "tables"
        folder.mkdir()
        shutil.chown(folder, server.user, server.user)
        server.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
        server.execute("CREATE DATABASE full_one TABLESPACE small")
        play(server, server.url("full_one"), small, logs)


def test_mariadb_on_a_full_disk(logs: list[LeasedLog]) -> None:
    """L39: it ends by itself there; with room, and started again, it has all that was confirmed."""
    require(missing_mariadb())
    server = MariadbServer()
    with on_small_disk(server) as small, server:
        url = server.create("full_one")
        folder = server.data / "full_one"
        tables = Path(shutil.move(folder, small.folder / "tables"))
        for path in (tables, *tables.iterdir()):
            shutil.chown(path, server.user, server.user)
        folder.symlink_to(tables)
        writer = Writer(opened(url, logs))
        writer.take()
        small.fill(8 * MiB)
        entries = until_it_fails(writer, 64 * MiB)
        small.make_room()
        server.kill()
        server.start()

        found = read_all(opened(url, logs))
        assert found in (writer.stored, writer.stored + entries)
        assert writer.send_until_known(entries) is Outcome.STORED
        assert read_all(opened(url, logs)) == writer.stored


def until_it_fails(writer: Writer, bytes_max: int) -> list[Entry]:
    """Append until that is refused, or its outcome is not known; gives of which."""
    for _ in range(bytes_max // MiB):
        entries = writer.sealed(BODY)
        try:
            writer.send(entries, SHORT_SECONDS)
        except (AppendRefusedError, UnreachableError):
            return entries
    raise AssertionError("there was room for all of it")


def test_a_table_space_of_mariadb_that_may_not_grow(logs: list[LeasedLog]) -> None:
    """L39: refused by its number, 1114; the server lives, and nothing is lost."""
    require(missing_mariadb())
    with TightMariadb() as server:
        url = server.create("full_one")
        writer = Writer(opened(url, logs))
        writer.take()
        said = until_refused(writer, 64 * MiB)
        assert "has no room: (1114, " in said
        assert "\n" not in said

        assert read_all(opened(url, logs)) == writer.stored
        server.kill()
        server.start()
        assert read_all(opened(url, logs)) == writer.stored
