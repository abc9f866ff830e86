"""
PostgreSQL: the append is one statement, so no lock is held while a client is paused.

Its commit may wait for a synchronous standby, and nothing cancels that wait but a cancel, after
which the database says "stored" with a warning: that warning is taken for what it is, an unknown
outcome. So nothing is ever cancelled here; what takes too long is let go of by its socket, and may
appear later.

Source: PostgreSQL's documentation, "synchronous_commit", "Error Codes"; "Stores and fenced leases",
sections 3 and 7.3.
"""

from __future__ import annotations

import codecs
import hashlib
import math
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg import waiting
from psycopg.pq import TransactionStatus
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from holdfast.environment.kept_errors import without_frames
from holdfast.sql import statements
from holdfast.sql.faults import Fault
from holdfast.sql.session import HASTE_SECONDS, Session, Standing, UncertainError, Values

if TYPE_CHECKING:
    from psycopg.abc import PQGen

    from holdfast.environment.remote_server import Host
    from holdfast.sql.parts import Part
    from holdfast.sql.url import StoreUrl

Result = TypeVar("Result")

LEASE_SECONDS: Final = 5.0
_LOCK_MILLISECONDS: Final = int(LEASE_SECONDS * 1000 / 5)
_LAYOUT_LOCK: Final = 0x486F6C64
_LAYOUT_SECONDS: Final = 20
"""Another broker that makes the tables is waited for so long."""
_SETTINGS: Final = {
    # A role or a database may have others by default.
    "client_min_messages": "warning",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "statement_timeout": "0",
    "lock_timeout": f"{_LOCK_MILLISECONDS}ms",
    "idle_in_transaction_session_timeout": f"{_LOCK_MILLISECONDS}ms",
}
_NO_WAIT: Final = "synchronous_commit = off"
_CODES: Final = {
    "23505": Fault.DUPLICATE,
    "25006": Fault.READ_ONLY,
    "25P03": Fault.BUSY,
    "3D000": Fault.NO_DATABASE,
    "40001": Fault.BUSY,
    "40P01": Fault.BUSY,
    "42501": Fault.FORBIDDEN,
    "42703": Fault.NO_COLUMN,
    "42P01": Fault.NO_TABLE,
    "42P07": Fault.DUPLICATE,
    "53100": Fault.FULL,
    "53200": Fault.FULL,
    "53300": Fault.CROWDED,
    "54000": Fault.FULL,
    "55P03": Fault.BUSY,
    "58030": Fault.FAILING,
    # Of damage it has codes; this one is whatever has none, a quota that is used up as well.
    "XX000": Fault.UNKNOWN,
}
_CLASSES: Final = {
    "08": Fault.LOST,
    "28": Fault.CREDENTIALS,
    "57": Fault.LOST,
    "58": Fault.DAMAGED,
    "XX": Fault.DAMAGED,
}
_OF_FILES: Final = frozenset({"bufmgr.c", "copydir.c", "fd.c", "md.c", "smgr.c", "xlog.c"})
"""Of its source: there a missing right is one of its own user, to its own files."""
_REFUSALS: Final = {
    # While it connects libpq gives no code, only what the server says, in its own language.
    # First of all: it names a role or a database as well.
    "too many c": Fault.CROWDED,
    "remaining connection slots": Fault.CROWDED,
    "authentication failed": Fault.CREDENTIALS,
    "no password supplied": Fault.CREDENTIALS,
    r"pg_hba\.conf": Fault.CREDENTIALS,
    "is not permitted to log in": Fault.CREDENTIALS,
    'role ".*" does not exist': Fault.CREDENTIALS,
    'database ".*" does not exist': Fault.NO_DATABASE,
}
_APPEND: Final = (
    f"WITH held AS ({statements.ADVANCE} RETURNING epoch)"
    " INSERT INTO holdfast_entries"
    " (idx, part, term, first_record, record_count, bytes, stored_at, raw)"
    " SELECT it.idx, it.part, it.term, it.first_record, it.record_count, it.bytes,"
    " it.stored_at, it.raw FROM held,"
    " unnest(%(idx)b::bigint[], %(part)b::int[], %(term)b::bigint[], %(first)b::bigint[],"
    " %(count)b::int[], %(size)b::int[], %(stored_at)b::bigint[], %(raw)b::bytea[])"
    " AS it(idx, part, term, first_record, record_count, bytes, stored_at, raw)"
)


_EMPTIED_BY_A_CRASH: Final = (
    "SELECT CAST(relname AS text) FROM pg_class WHERE relpersistence <> 'p' AND oid IN ("
    "to_regclass('holdfast_meta'), to_regclass('holdfast_lease'), to_regclass('holdfast_entries'))"
    " ORDER BY relname"
)
_STANDING: Final = (
    "SELECT CAST((SELECT system_identifier FROM pg_control_system()) AS text),"
    " (SELECT CAST(oid AS text) FROM pg_database WHERE datname = current_database()),"
    " pg_is_in_recovery(),"
    " CASE WHEN pg_is_in_recovery()"
    " THEN (SELECT CAST(timeline_id AS text) FROM pg_control_checkpoint()) END,"
    " CASE WHEN NOT pg_is_in_recovery()"
    " THEN pg_walfile_name(pg_current_wal_insert_lsn()) END,"
    " CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) AS text)"
)


def python_encoding(name: str) -> str:
    """Return how Python calls an encoding of a server; nothing for one that has all signs."""
    if name in {"", "UTF8", "SQL_ASCII"}:
        return ""
    try:
        return codecs.lookup(re.sub("^WIN", "cp", name.replace("KOI8", "koi8-"))).name
    except LookupError:
        return ""


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """Waits for its server until `deadline`, by the monotonic clock, and cancels nothing."""

    deadline: float = math.inf

    def wait(
        self, gen: PQGen[Result], interval: float = 0.1, timeout: float | None = None
    ) -> Result:
        left = self.deadline - time.monotonic()
        bound = None if math.isinf(left) else max(0.0, left)
        if timeout is not None:
            bound = timeout if bound is None else min(bound, timeout)
        return waiting.wait(gen, self.pgconn.socket, interval=interval, timeout=bound)


class PostgresqlSession(Session):
    """One connection to a server."""

    dialect = PGDialect_psycopg()  # type: ignore[no-untyped-call] # SQLAlchemy's own
    errors = (psycopg.Error,)
    lease_seconds = LEASE_SECONDS

    def __init__(self, connection: BoundedConnection) -> None:
        """Take a connection that was made."""
        self._connection = connection
        self._warning = ""
        self._is_pooled = False
        self._encoding = ""
        """Of the server, as Python calls it; empty where it has all signs."""
        connection.add_notice_handler(self._notice)
        self.kind = "PostgreSQL"

    @classmethod
    def connect(cls, url: StoreUrl, host: Host | None, seconds: float) -> PostgresqlSession:
        """
        Connect to this host, if it is one that writes, and set up the session.

        Raises:
            psycopg.Error: It does not answer in time, or refuses.
        """
        assert host is not None, "a server has a host"
        deadline = time.monotonic() + seconds
        where: dict[str, Any] = {
            "host": host.name,
            "port": host.port,
            "dbname": url.database,
            "user": url.user or None,
            "password": url.password or None,
            "application_name": "holdfast",
            "connect_timeout": max(2, math.ceil(seconds)),
            "target_session_attrs": "any" if url.is_glanced_at else "read-write",
            "tcp_user_timeout": int(LEASE_SECONDS * 1000),
            **url.options,
            "client_encoding": "UTF8",
        }
        try:
            connection = BoundedConnection.connect(autocommit=True, **where)
        except psycopg.Error as error:
            without_frames(error)  # They have the descriptor of who did not answer.
            raise
        session = cls(connection)
        try:
            connection.deadline = max(deadline, time.monotonic() + 0.5)
            session._set_up()
        except BaseException:
            session.close()
            raise
        return session

    def _set_up(self) -> None:
        chosen = dict(_SETTINGS)
        ((level, version),) = self.rows(
            "SELECT current_setting('synchronous_commit'), current_setting('server_version')"
        )
        if level != "remote_apply":
            chosen["synchronous_commit"] = "on"
        ((server_pid,),) = self.rows("SELECT pg_backend_pid()")
        info = self._connection.info
        self._is_pooled = server_pid != info.backend_pid
        self._encoding = python_encoding(info.parameter_status("server_encoding") or "")
        if self._is_pooled:
            # What is prepared or set stays with a connection that the pooler gives to somebody
            # else, and may not hold for our next statement.
            self._connection.prepare_threshold = None
            chosen.clear()
        for name, value in chosen.items():
            self.rows("SELECT set_config(:name, :value, false)", {"name": name, "value": value})
        self.kind = f"PostgreSQL {version.partition(' ')[0]}"

    def _notice(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.sqlstate == "01000":
            self._warning = diagnostic.message_primary or "a warning"

    def _require_certain(self) -> None:
        """A commit whose wait for a standby was cancelled is told as a success with a warning."""
        if self._warning:
            warning, self._warning = self._warning, ""
            raise UncertainError(warning)

    def bound(self, seconds: float) -> None:
        self._connection.deadline = time.monotonic() + seconds

    def write(self, statement: str, values: Values | None = None) -> int:
        count = self._connection.execute(self.text(statement), values or None).rowcount
        self._require_certain()
        return count

    def shown(self, text: str) -> str:
        codec = self._encoding
        return text if not codec else text.encode(codec, "replace").decode(codec)

    def rows(self, statement: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        with self._connection.cursor(binary=True) as cursor:
            cursor.execute(self.text(statement), values or None)
            return cursor.fetchall()

    def append(self, fence: Values, parts: Sequence[Part]) -> bool:
        columns = list(zip(*parts, strict=True))
        idx, part, term, first, count, size, stored_at, raw = map(list, columns)
        values = {
            **fence,
            "idx": idx,
            "part": part,
            "term": term,
            "first": first,
            "count": count,
            "size": size,
            "stored_at": stored_at,
            "raw": raw,
        }
        stored = self._connection.execute(self._append_text(), values).rowcount
        self._require_certain()
        if stored not in {0, len(parts)}:
            raise UncertainError(f"{stored} of {len(parts)} rows were inserted")
        return stored != 0

    def _append_text(self) -> str:
        known = self._texts.get(_APPEND)
        if known is None:
            fence = self.text(statements.ADVANCE)
            known = _APPEND.replace(statements.ADVANCE, fence)
            self._texts[_APPEND] = known
        return known

    def unsafe_settings(self) -> list[str]:
        unsafe = []
        if self._is_pooled:
            unsafe.append(
                "a pooler of connections (as PgBouncer) stands before it, and what a session sets"
                " may not hold for its next statement: connect to the server itself"
            )
        for name in ("fsync", "full_page_writes"):
            ((value,),) = self.rows(f"SELECT current_setting('{name}')")
            if value != "on":
                unsafe.append(f"{name} is {value}, and must be on")
        ((value,),) = self.rows("SELECT current_setting('synchronous_commit')")
        if value not in {"on", "remote_apply"}:
            unsafe.append(f"synchronous_commit is {value}, and must be on")
        for (table,) in self.rows(_EMPTIED_BY_A_CRASH):
            unsafe.append(
                f"{table} is UNLOGGED, and a crash of the server empties it: ALTER TABLE {table}"
                f" SET LOGGED"
            )
        return unsafe

    def standing(self) -> Standing:
        ((system, database, is_standby, replayed, written, started),) = self.rows(_STANDING)
        # The file of the log that is written has the timeline in front; a promotion begins one.
        timeline = int(replayed) if is_standby else int(written[:8], 16)
        server = hashlib.sha256(f"{system}/{database}".encode()).hexdigest()[:24]
        return Standing(server, timeline, str(started), not is_standby)

    @staticmethod
    def said(error: Exception) -> str:
        """Without the statement, and the place in it, that come with it."""
        diagnostic = getattr(error, "diag", None)
        return (diagnostic and diagnostic.message_primary) or str(error)

    @staticmethod
    def fault(error: Exception) -> Fault:
        code = getattr(error, "sqlstate", None)
        is_files = isinstance(error, psycopg.Error) and error.diag.source_file in _OF_FILES
        if code == "42501" and is_files:
            return Fault.UNWRITABLE
        if code is not None:
            return _CODES.get(code) or _CLASSES.get(code[:2], Fault.UNKNOWN)
        if not isinstance(error, psycopg.OperationalError):
            return Fault.UNKNOWN
        said = str(error)
        if "FATAL" in said:
            for words, fault in _REFUSALS.items():
                if re.search(words, said):
                    return fault
        return Fault.LOST

    def lay_out(self, creations: Sequence[str]) -> None:
        with self.transaction():
            self.write(f"SET LOCAL lock_timeout = '{_LAYOUT_SECONDS}s'")
            self.rows(f"SELECT pg_advisory_xact_lock({_LAYOUT_LOCK})")
            for creation in creations:
                self.write(creation)
            # Entries are no text to be compressed, and are read whole.
            self.write("ALTER TABLE holdfast_entries ALTER COLUMN raw SET STORAGE EXTERNAL")
            self.write("ALTER TABLE holdfast_entries SET (autovacuum_vacuum_scale_factor = 0.01)")

    @contextmanager
    def hasty(self) -> Iterator[None]:
        milliseconds = int(HASTE_SECONDS * 1000)
        # Several at once: such a text cannot be prepared. What stands in it need not last, so
        # nobody waits for a disk or a standby with the lease row locked.
        text = f"BEGIN; SET LOCAL lock_timeout = '{milliseconds}ms'; SET LOCAL {_NO_WAIT}"
        self._connection.execute(text, prepare=False)
        try:
            yield
            self.write("COMMIT")
        except psycopg.Error as error:
            if self.fault(error) in {Fault.BUSY, Fault.UNKNOWN}:
                self.give_up()
            raise

    def give_up(self) -> None:
        if self._connection.info.transaction_status is not TransactionStatus.IDLE:
            self.write("ROLLBACK")

    def close(self) -> None:
        with suppress(psycopg.Error):
            self._connection.close()
