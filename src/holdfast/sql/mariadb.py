"""
MariaDB and MySQL, and Galera: the append is one packet of statements, judged by row counts.

A COMMIT that answers well may have stored nothing: on Galera, where another node's write broke the
transaction off. So a commit proves nothing by itself: what counts is how many rows the update and
the inserts found, and that the lease row is as they made it afterwards. An entry that no packet
holds is sent in several, still in one transaction.

On Galera a write that conflicts with another node's is refused when it is committed, whatever was
read before; reads that judge wait until this node has applied what the others have committed.

Source: MariaDB's documentation, "CLIENT_FOUND_ROWS", "wsrep_sync_wait"; "Stores and fenced leases",
sections 3, 7.3 and 7.4.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import pymysql
from pymysql.constants import CLIENT, ER
from sqlalchemy.dialects.mysql.pymysql import MySQLDialect_pymysql

from holdfast.errors import StoreError
from holdfast.model.limits import MiB
from holdfast.sql import statements
from holdfast.sql.faults import Fault
from holdfast.sql.parts import PART_BYTES
from holdfast.sql.session import Session, Standing, UncertainError, Values

if TYPE_CHECKING:
    from holdfast.environment.remote_server import Host
    from holdfast.sql.parts import Part
    from holdfast.sql.url import StoreUrl

LEASE_SECONDS: Final = 5.0
LEASE_SECONDS_GALERA: Final = 15.0
"""Longer than a cluster stands still until a node that is gone is put out of it."""
PACKET_BYTES_MAX: Final = 4 * MiB
"""Of entries in one packet; each byte may take two in it."""
_PACKET_ROOM: Final = 64 * 1024
"""For everything else that stands in a packet."""
_STATEMENT_BYTES: Final = 512
"""For what stands around one part."""
_PACKET_NEEDED: Final = 2 * PART_BYTES + _PACKET_ROOM

_PATIENCE: Final = (
    "SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = @@GLOBAL.lock_wait_timeout"
)
_SETTINGS: Final = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES'",
    "SET SESSION completion_type = 'NO_CHAIN'",
    _PATIENCE,
    "SET SESSION wait_timeout = 86400",
)
_SETTINGS_GALERA: Final = (
    "SET SESSION wsrep_sync_wait = 7",
    # A node that has lost the others tells nothing, whatever its own settings allow.
    "SET SESSION wsrep_dirty_reads = OFF",
)
_WISHES: Final = (
    # MySQL has no such thing, and the others want a privilege: they save time, and no message.
    "SET SESSION idle_write_transaction_timeout = 1",
    "SET SESSION binlog_annotate_row_events = 0",
    "SET SESSION binlog_row_image = 'MINIMAL'",
)
_SAFE: Final = {
    "innodb_flush_log_at_trx_commit": ({"1"}, "1"),
    "innodb_doublewrite": ({"ON", "1"}, "ON"),
}
_NO_PROVIDER: Final = frozenset({"none", ""})
_WHO: Final = ("server_uuid", "server_uid", "server_id", "hostname", "port")
"""
Two servers that are there at once differ in one of these. What names a server has to last: MySQL's
`server_uuid` does; MariaDB's `server_uid` comes with a minor upgrade, and goes with a network card.
"""
_MYSQL: Final = "e"
_MARIADB: Final = "f"
"""First digits of the names of servers; of MariaDB 8 of the id, 4 of the port, and the host's."""
_HOST_AT: Final = 13
_READ_ONLY: Final = ("read_only", "super_read_only", "innodb_read_only")
_SUPER_READ_ONLY: Final = 1836
_CODES: Final = {
    ER.DUP_ENTRY: Fault.DUPLICATE,
    ER.LOCK_WAIT_TIMEOUT: Fault.BUSY,
    ER.LOCK_DEADLOCK: Fault.BUSY,
    ER.CHECKREAD: Fault.BUSY,
    ER.RECORD_FILE_FULL: Fault.FULL,
    ER.DISK_FULL: Fault.FULL,
    ER.ERROR_ON_WRITE: Fault.FULL,
    ER.NET_PACKET_TOO_LARGE: Fault.FULL,
    ER.ACCESS_DENIED_ERROR: Fault.CREDENTIALS,
    ER.DBACCESS_DENIED_ERROR: Fault.CREDENTIALS,
    ER.TABLEACCESS_DENIED_ERROR: Fault.FORBIDDEN,
    ER.COLUMNACCESS_DENIED_ERROR: Fault.FORBIDDEN,
    1698: Fault.CREDENTIALS,  # for want of a password
    ER.BAD_DB_ERROR: Fault.NO_DATABASE,
    ER.NO_SUCH_TABLE: Fault.NO_TABLE,
    ER.BAD_FIELD_ERROR: Fault.NO_COLUMN,
    ER.CRASHED_ON_USAGE: Fault.DAMAGED,
    ER.NOT_KEYFILE: Fault.DAMAGED,
    ER.OPTION_PREVENTS_STATEMENT: Fault.READ_ONLY,
    _SUPER_READ_ONLY: Fault.READ_ONLY,
    ER.CON_COUNT_ERROR: Fault.CROWDED,
    ER.TOO_MANY_USER_CONNECTIONS: Fault.CROWDED,
    ER.USER_LIMIT_REACHED: Fault.CROWDED,
    ER.SERVER_SHUTDOWN: Fault.LOST,
    ER.UNKNOWN_COM_ERROR: Fault.LOST,  # Galera's, where a node is not one of the majority
    ER.ERROR_DURING_COMMIT: Fault.LOST,
}
_LOOK: Final = (
    "SELECT 1 FROM holdfast_lease"
    " WHERE id = 1 AND epoch = %(epoch)s AND holder = %(holder)s AND last_index = %(last)s"
)
"""
Whether the commit was one. A transaction that another node's write broke off, after its statements
and before its commit, is told to be committed all the same, and is nowhere.
"""
_NAMES: Final = ("idx", "part", "term", "first_record", "record_count", "bytes", "stored_at", "raw")


class MariadbSession(Session):
    """One connection to a server, or to one node of several."""

    dialect = MySQLDialect_pymysql(paramstyle="pyformat")
    errors = (pymysql.MySQLError,)
    on_conflict = "ON DUPLICATE KEY UPDATE"
    overwriting = "{0} = VALUES({0})"
    lease_seconds = LEASE_SECONDS

    def __init__(self, connection: pymysql.connections.Connection[Any]) -> None:
        """Take a connection that was made."""
        self._connection = connection
        self._deadline = 0.0
        self._packet_bytes = PACKET_BYTES_MAX
        self._haste = 1
        self.kind = "MariaDB"

    @classmethod
    def connect(cls, url: StoreUrl, host: Host | None, seconds: float) -> MariadbSession:
        """
        Connect to this host, and set up the session.

        Raises:
            pymysql.MySQLError: It does not answer in time, or refuses.
            StoreError: It takes no packets as large as a part of an entry.
        """
        assert host is not None, "a server has a host"
        connection = pymysql.connect(
            host=host.name,
            port=host.port,
            user=url.user or None,
            password=url.password,
            database=url.database,
            charset="utf8mb4",
            autocommit=True,
            client_flag=CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS,
            connect_timeout=max(1, round(seconds)),
            read_timeout=max(1, round(seconds)),
            write_timeout=max(1, round(seconds)),
            **url.options,
        )
        session = cls(connection)
        try:
            session.bound(max(seconds, 0.5))
            session._set_up(f"{url} (at {host})")
        except BaseException:
            session.close()
            raise
        return session

    def _set_up(self, place: str) -> None:
        for statement in _SETTINGS:
            self.write(statement)
        for statement in _WISHES:
            with suppress(pymysql.err.OperationalError, pymysql.err.InternalError):
                self.write(statement)
        ((version, packet),) = self.rows("SELECT VERSION(), @@max_allowed_packet")
        if packet < _PACKET_NEEDED:
            raise StoreError(
                f"max_allowed_packet of {place} is {packet:,}, and a part of an entry takes up to"
                f" {_PACKET_NEEDED:,}: set it to 16M or more"
            )
        self._packet_bytes = min(PACKET_BYTES_MAX, (packet - _PACKET_ROOM) // 2)
        number, _, rest = str(version).partition("-")
        is_mariadb = "MariaDB" in rest
        self._haste = 0 if is_mariadb else 1
        self.kind = f"{'MariaDB' if is_mariadb else 'MySQL'} {number}"
        self.cluster = ""
        found = self._variables("wsrep_%")
        if found.get("wsrep_on") == "ON":
            self._set_up_galera()
        elif found.get("wsrep_provider", "none") not in _NO_PROVIDER:
            raise pymysql.err.OperationalError(
                ER.UNKNOWN_COM_ERROR,
                "it is a node of Galera (wsrep_provider) and gives the others nothing, as wsrep_on"
                " is OFF: set that ON, or let it have no provider",
            )

    def _set_up_galera(self) -> None:
        self.kind = f"Galera, {self.kind}"
        self.lease_seconds = LEASE_SECONDS_GALERA
        status = dict(self.rows("SHOW STATUS LIKE 'wsrep_%'"))
        if status.get("wsrep_ready") != "ON" or status.get("wsrep_cluster_status") != "Primary":
            cluster = status.get("wsrep_cluster_status")
            raise pymysql.err.OperationalError(
                ER.UNKNOWN_COM_ERROR, f"the node is not ready, its part of the cluster is {cluster}"
            )
        self.cluster = str(status.get("wsrep_cluster_state_uuid", "")).replace("-", "")
        for statement in _SETTINGS_GALERA:
            self.write(statement)

    def standing(self) -> Standing:
        names = ", ".join(f"'{it}'" for it in (*_WHO, *_READ_ONLY))
        found = dict(self.rows(f"SHOW VARIABLES WHERE variable_name IN ({names})"))
        who = {it: str(found.get(it, "")) for it in _WHO}
        is_writable = all(found.get(it, "OFF") in {"OFF", "0"} for it in _READ_ONLY)
        server, told = _named(who)
        return Standing(server, None, _digits("/".join(who.values()), 24), is_writable, told)

    @staticmethod
    def changed(written: str, here: Standing, known: Standing | None) -> str:
        if written[:1] != here.server[:1] or written == here.server:
            return ""
        was = dict(known.names) if known is not None and known.server == written else {}
        if written.startswith(_MARIADB):
            was |= _numbers(written)
            if written[_HOST_AT:] == here.server[_HOST_AT:]:
                was["hostname"] = dict(here.names)["hostname"]
        return ", ".join(
            f"{name} is {now} and was {was.get(name, 'another one')}"
            for name, now in here.names
            if was.get(name) != now
        )

    def _variables(self, pattern: str) -> dict[str, str]:
        return dict(self.rows(f"SHOW VARIABLES LIKE '{pattern}'"))

    def bound(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def _begin(self) -> None:
        """Bound the next exchange; the driver does so for each read and write of the socket."""
        left = max(0.05, self._deadline - time.monotonic())
        self._connection._read_timeout = left
        self._connection._write_timeout = left

    def write(self, statement: str, values: Values | None = None) -> int:
        self._begin()
        with self._connection.cursor() as cursor:
            return int(cursor.execute(self.text(statement), dict(values) if values else None))

    def rows(self, statement: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        self._begin()
        with self._connection.cursor() as cursor:
            cursor.execute(self.text(statement), dict(values) if values else None)
            return list(cursor.fetchall())

    def append(self, fence: Values, parts: Sequence[Part]) -> bool:
        packets = list(self._packets(parts))
        counts: list[int] = []
        try:
            for number, packet in enumerate(packets):
                texts = [_insert(place) for place in range(len(packet))]
                if number == 0:
                    texts[:0] = ["BEGIN", self.text(statements.ADVANCE)]
                if number == len(packets) - 1:
                    texts += ["COMMIT", _LOOK]
                values = dict(fence)
                for place, part in enumerate(packet):
                    values |= {f"{name}{place}": it for name, it in zip(_NAMES, part, strict=True)}
                counts += self._send("; ".join(texts), values)
        except pymysql.err.IntegrityError as error:
            if self.fault(error) is not Fault.DUPLICATE:
                raise
            # The rows are there already, and the lease says so: an append that is sent again.
            self.give_up()
            return False
        _, found, *inserted, _, there = counts
        if (found, sum(inserted), there) == (1, len(parts), 1):
            return True
        if (found, sum(inserted)) == (0, 0):
            return False
        raise UncertainError(
            f"{found} rows were updated, {sum(inserted)} inserted, and {there} found afterwards"
        )

    def _packets(self, parts: Sequence[Part]) -> Iterator[list[Part]]:
        """As many parts at once as a packet holds."""
        packet: list[Part] = []
        size = 0
        for part in parts:
            if packet and size + len(part.raw) > self._packet_bytes:
                yield packet
                packet, size = [], 0
            packet.append(part)
            size += len(part.raw) + _STATEMENT_BYTES
        yield packet

    def _send(self, text: str, values: dict[str, Any]) -> list[int]:
        """Send several statements at once; give how many rows each found."""
        self._begin()
        with self._connection.cursor() as cursor:
            cursor.execute(text, values)
            counts = [int(cursor.rowcount)]
            while cursor.nextset():
                counts.append(int(cursor.rowcount))
        return counts

    def unsafe_settings(self) -> list[str]:
        found = self._variables("innodb_%") | self._variables("log_bin")
        unsafe = [
            f"{name} is {found.get(name, 'not known')}, and must be {wanted}"
            for name, (safe, wanted) in _SAFE.items()
            if found.get(name) not in safe
        ]
        if found.get("log_bin") == "ON":
            synced = self._variables("sync_binlog").get("sync_binlog")
            if synced != "1":
                unsafe.append(f"sync_binlog is {synced}, and must be 1")
        unsafe += [f"engine of {name} is {kept}, and must be InnoDB" for name, kept in self._odd()]
        return unsafe

    def _odd(self) -> list[tuple[Any, ...]]:
        """Our tables that are kept by an engine without transactions."""
        return self.rows(
            "SELECT table_name, engine FROM information_schema.tables"
            " WHERE table_schema = DATABASE() AND LEFT(table_name, 9) = 'holdfast_'"
            " AND table_type = 'BASE TABLE' AND engine <> 'InnoDB'"
        )

    @staticmethod
    def fault(error: Exception) -> Fault:
        code = error.args[0] if error.args else None
        if isinstance(code, int) and code in _CODES:
            return _CODES[code]
        if isinstance(code, int) and (2000 <= code < 3000 or code == 0):
            return Fault.LOST
        is_lost = isinstance(error, pymysql.err.InterfaceError)
        return Fault.LOST if is_lost else Fault.UNKNOWN

    def lay_out(self, creations: Sequence[str]) -> None:
        """Each by itself: these databases know no transaction of tables."""
        for creation in creations:
            self.write(creation)

    @contextmanager
    def hasty(self) -> Iterator[None]:
        # It counts in seconds, and MySQL from 1 on.
        moment = self._haste
        haste = f"SET SESSION innodb_lock_wait_timeout = {moment}, lock_wait_timeout = {moment}"
        self._send(f"{haste}; BEGIN", {})
        try:
            yield
            self._send(f"COMMIT; {_PATIENCE}", {})
        except pymysql.MySQLError as error:
            if self.fault(error) in {Fault.BUSY, Fault.UNKNOWN}:
                self._send(f"ROLLBACK; {_PATIENCE}", {})
            raise

    def give_up(self) -> None:
        self.write("ROLLBACK")

    def close(self) -> None:
        with suppress(pymysql.MySQLError, OSError):
            self._connection._force_close()


def _named(who: Mapping[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """What names a server for as long as it is the same, in digits and for people."""
    if uuid := who["server_uuid"]:
        return f"{_MYSQL}{_digits(uuid, 23)}", (("server_uuid", uuid),)
    number, port = int(who["server_id"] or 0), int(who["port"] or 0)
    name = who["hostname"]
    names = (("server_id", str(number)), ("hostname", name), ("port", str(port)))
    return f"{_MARIADB}{number:08x}{port:04x}{_digits(name, 11)}", names


def _numbers(server: str) -> dict[str, str]:
    """What the digits of a MariaDB's name say; nothing, if they were changed by hand."""
    try:
        number, port = int(server[1:9], 16), int(server[9:_HOST_AT], 16)
    except ValueError:
        return {}
    return {"server_id": str(number), "port": str(port)}


def _digits(text: str, count: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:count]


def _insert(place: int) -> str:
    """
    The statement that inserts one part, if the lease row is as the append has just made it.

    One for each part: of several that stand in a UNION this database stores parts of a MiB as
    nothing at all, and says that all is well.
    """
    values = ", ".join(f"%({name}{place})s" for name in _NAMES)
    return (
        f"INSERT INTO holdfast_entries ({', '.join(_NAMES)}) SELECT {values} FROM holdfast_lease"
        " WHERE id = 1 AND epoch = %(epoch)s AND holder = %(holder)s AND last_index = %(last)s"
    )
