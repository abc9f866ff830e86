"""
Databases that have no room for an entry: refused in one sentence, nothing lost, the lease stays.

The server's tables are on a small file system that is really full: PostgreSQL refuses, and goes on
once there is room again, MariaDB 10.11 ends by itself. Or they are in a space that may not grow.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from holdfast.errors import AppendRefusedError, UnreachableError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import LeasedLog, Outcome
from holdfast.model.limits import MiB
from holdfast.raidb.opening import open_raidb_log
from holdfast.raidb.settings import RaidbSettings
from holdfast.sql.opening import open_sql_log
from holdfast.sql.sqlite_room import SqliteRoom
from tests.stores.leased_log_suite import SECONDS, Writer, read_all
from tests.stores.sql_faults_suite import SHORT_SECONDS
from trials.chaos.small_disk import SmallDisk, SmallDiskError
from trials.databases.mariadb import MariadbServer, missing_mariadb
from trials.databases.postgresql import PostgresqlServer, missing_postgresql
from trials.databases.server import DatabaseServer

pytestmark = pytest.mark.processes

BODY = bytes(range(256)) * (MiB >> 8)
SMALL_BYTES = 24 * MiB


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


@pytest.mark.parametrize("is_kept", [True, False], ids=["as it is", "without what is kept"])
def test_two_of_three_files_of_sqlite_on_full_disks(
    logs: list[LeasedLog], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    """
    J3: nothing more is published before they are full; then what is acknowledged is stored, the
    lease is kept and taken, all by the room that was set aside, and with more they are alike.
    """
    with ExitStack() as stack:
        smalls = [stack.enter_context(small_disk(tmp_path / name, SMALL_BYTES)) for name in "ab"]
        for small in smalls:
            small.fill(8 * MiB)
        (tmp_path / "c").mkdir()
        urls = [f"sqlite:///{tmp_path}/{name}/log.db" for name in "abc"]
        first = several(urls, logs, tmp_path)
        writer = Writer(first)
        writer.take()
        while not first.low_room:
            writer.append(BODY[: MiB // 4])
        assert first.low_room.count("bytes left") == 2
        for small in smalls:
            small.fill()
        assert until_refused(writer, 64 * MiB).count("has no room") == 2
        assert first.renew(SECONDS) is Outcome.STORED
        if not is_kept:
            monkeypatch.setattr(SqliteRoom, "give_up", lambda _: None)
            with pytest.raises(AppendRefusedError, match="has no room"):
                acknowledge(writer, 50)
            return
        acknowledge(writer, 50)

        second = several(urls, logs, tmp_path)
        heir = Writer(second, "b")
        acknowledge(heir, 50)
        assert {state.partition(":")[0] for _, _, state in second.facts().members} == {"active"}
        for small in smalls:
            small.make_room()
        assert heir.append(BODY)
        assert not second.low_room
        found = read_all(second)
        assert found == writer.stored + heir.stored
        raw = b"".join(it.raw for it in found)
        assert all(raw_of(Path(it.removeprefix("sqlite:///"))) == raw for it in urls)


def acknowledge(writer: Writer, count: int) -> None:
    """Take the lease, as a broker does that has given up what is large, and store what is small."""
    writer.take()
    for _ in range(count):
        entries = writer.sealed(b"an acknowledgement")
        try:
            writer.send_until_known(entries)
        except AppendRefusedError:  # What is set aside is for the next attempt.
            assert writer.send_until_known(entries) is Outcome.STORED


def several(urls: list[str], logs: list[LeasedLog], tmp_path: Path) -> LeasedLog:
    log = open_raidb_log(urls, RaidbSettings(), own_directory=tmp_path)
    logs.append(log)
    log.open()
    return log


def raw_of(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT raw FROM holdfast_entries ORDER BY idx, part").fetchall()
    return b"".join(row[0] for row in rows)


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[SmallDisk]:
    try:
        disk = SmallDisk(folder, size).__enter__()
    except SmallDiskError as error:
        pytest.skip(f"needs a disk that is really full: {error}")
    with closing(disk):
        yield disk


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
