"""Several hosts of one URL with real servers: a standby that takes over, and a replica."""

from __future__ import annotations

import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import UnreachableError
from holdfast.sql.copied_log import CopiedSqlLog
from holdfast.sql.opening import open_sql_log
from tests.stores.leased_log_suite import SECONDS, Writer
from trials.databases.mariadb import MariadbServer
from trials.databases.postgresql import SUPERUSER, PostgresqlServer, binaries
from trials.databases.server import DatabaseServer

pytestmark = pytest.mark.processes
DATABASE = "several"


class Standby(PostgresqlServer):
    """A physical standby of another one, by streaming."""

    def __init__(self, primary: PostgresqlServer) -> None:
        super().__init__()
        self._primary = primary

    def prepare(self) -> None:
        primary = ["-h", "127.0.0.1", "-p", str(self._primary.port), "-U", SUPERUSER]
        program = str(binaries() / "pg_basebackup")
        self.run([program, *primary, "-D", str(self._data), "-R", "-c", "fast"])

    def promote(self) -> None:
        """Let it take over once it has what the primary has."""
        ((end,),) = self._primary.execute("SELECT pg_current_wal_insert_lsn()")
        until = time.monotonic() + SECONDS
        while not self.execute(f"SELECT pg_last_wal_replay_lsn() >= '{end}'")[0][0]:
            assert time.monotonic() < until, "it does not follow"
            time.sleep(0.02)
        self._primary.kill()
        assert self.execute("SELECT pg_promote()") == [(True,)]


def log_at(*servers: DatabaseServer) -> CopiedSqlLog:
    """A process's log at all these, in this order; not opened."""
    first, *others = servers
    hosts = "".join(f",127.0.0.1:{it.port}" for it in others)
    url = first.url(DATABASE).replace(f":{first.port}", f":{first.port}{hosts}")
    return open_sql_log(url, own_directory=Path("/nowhere"))


def refused(*servers: DatabaseServer) -> str:
    """Why a process that knows nothing is not served there."""
    with closing(log_at(*servers)) as log, pytest.raises(UnreachableError) as raised:
        log.open()
    return str(raised.value)


def test_an_old_primary_that_comes_back_is_passed_by(postgresql: PostgresqlServer) -> None:
    """The holder goes on at the standby; who is new serves there as well, or not at all."""
    postgresql.create(DATABASE)
    with Standby(postgresql) as standby, closing(log_at(postgresql, standby)) as log:
        log.open()
        holder = Writer(log)
        holder.take()
        holder.append(b"before")
        standby.promote()
        holder.append(b"behind the failover")
        ((written,),) = standby.execute(
            "SELECT member_id FROM holdfast_meta WHERE id = 4", DATABASE
        )
        assert written.endswith(f"{2:08x}")

        postgresql.start()
        with closing(log_at(postgresql, standby)) as fresh:
            assert fresh.open().end == holder.end
        standby.stop()
        assert f"(at 127.0.0.1:{postgresql.port}) may be one that another host has taken" in (
            refused(postgresql, standby)
        )
        with pytest.raises(UnreachableError):
            log.renew(SECONDS)  # its connection ended
        with pytest.raises(UnreachableError, match="timeline 1, and 2 was seen"):
            log.renew(SECONDS)


def test_a_replica_that_takes_writes_is_not_gone_on_with(mariadb: MariadbServer) -> None:
    """Neither by the holder, nor by whoever is new; both are served where it was written."""
    mariadb.create(DATABASE)
    with MariadbServer() as replica, closing(log_at(mariadb, replica)) as log:
        replica.create(DATABASE)
        assert "both take writes" in refused(mariadb, replica)
        replica.execute("SET GLOBAL read_only = ON")
        log.open()
        holder = Writer(log)
        holder.take()
        holder.append(b"before")
        replica.execute("SET GLOBAL read_only = OFF")
        copy(mariadb, replica)

        mariadb.kill()
        with pytest.raises(UnreachableError):
            holder.send(holder.sealed(b"lost"))  # its connection ended
        with pytest.raises(UnreachableError, match="another server than the one that its rows"):
            holder.send(holder.sealed(b"lost"))
        assert "another server than the one that its rows name" in refused(mariadb, replica)
        mariadb.start()
        holder.append(b"behind it")
        with closing(log_at(replica, mariadb)) as fresh:
            assert fresh.open().end == holder.end


def copy(primary: MariadbServer, replica: MariadbServer) -> None:
    """Give the replica what replication would have given it."""
    words = ["--no-defaults", "-h", "127.0.0.1", "-u", "root"]
    dump = subprocess.run(
        ["mariadb-dump", *words, "-P", str(primary.port), DATABASE],
        capture_output=True,
        check=True,
        timeout=SECONDS,
    )
    subprocess.run(
        ["mariadb", *words, "-P", str(replica.port), DATABASE],
        input=dump.stdout,
        check=True,
        timeout=SECONDS,
    )
