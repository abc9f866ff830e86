"""MariaDB's session without a server: what its errors mean, and how rows are counted."""

from __future__ import annotations

import socket
import time
from typing import Any

import pymysql
import pytest
from pymysql import err

from holdfast.environment.remote_server import Host
from holdfast.errors import StoreError
from holdfast.sql import mariadb
from holdfast.sql.faults import Fault
from holdfast.sql.mariadb import MariadbSession
from holdfast.sql.parts import Part
from holdfast.sql.session import Standing, UncertainError, Values
from holdfast.sql.url import MARIADB, StoreUrl

FENCE = {"last": 3, "chain": "c", "before": 1, "behind": "b", "at": 7, "epoch": 2, "holder": "h"}


class Counted(MariadbSession):
    """Answers each packet with the next counts, or its error."""

    def __init__(self, *answers: list[int] | Exception) -> None:
        super().__init__(None)
        self.answers = list(answers)
        self.texts: list[list[str]] = []
        self.written: list[str] = []
        self.found: dict[str, Any] = {}

    def write(self, statement: str, values: Values | None = None) -> int:
        self.written.append(statement)
        return 0

    def rows(self, statement: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        if statement.startswith("SELECT VERSION()"):
            return [(self.found["version"], self.found["packet"])]
        if statement.startswith("SHOW VARIABLES WHERE"):
            return [(name, it) for name, it in self.found.items() if f"'{name}'" in statement]
        return []

    def _variables(self, pattern: str) -> dict[str, str]:
        stem = pattern.rstrip("%")
        return {name: it for name, it in self.found.items() if name.startswith(stem)}

    def _send(self, text: str, values: dict[str, Any]) -> list[int]:
        self.texts.append([it.partition(" ")[0] for it in text.split("; ")])
        assert text % dict.fromkeys(values, 0), "every name has a value"
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def parts(*sizes: int) -> list[Part]:
    return [Part(n, 0, 2, n, 1, size, 7, bytes(size)) for n, size in enumerate(sizes, start=2)]


@pytest.mark.parametrize(
    ("provider", "is_taken"), [("none", True), ("", True), ("/usr/lib/libgalera_smm.so", False)]
)
def test_a_node_that_gives_the_others_nothing_is_no_server_of_its_own(
    provider: str, is_taken: bool
) -> None:
    """Another broker at another node would confirm as well, and neither hear of the other."""
    session = Counted()
    session.found = {"version": "10.11.19-MariaDB", "packet": 1 << 24}
    session.found |= {"wsrep_on": "OFF", "wsrep_provider": provider}
    if is_taken:
        session._set_up("db")
        assert session.cluster == ""
        return
    with pytest.raises(err.OperationalError, match="wsrep_on") as caught:
        session._set_up("db")
    assert session.fault(caught.value) is Fault.LOST


def test_an_append_is_one_packet() -> None:
    """The lease row first, a statement for each part, the commit, and a look at what came of it."""
    session = Counted([0, 1, 1, 1, 0, 1])

    assert session.append(FENCE, parts(10, 10))
    assert session.texts == [["BEGIN", "UPDATE", "INSERT", "INSERT", "COMMIT", "SELECT"]]


def test_what_no_packet_holds_goes_in_several() -> None:
    """In one transaction still: the first begins it, the last commits it."""
    session = Counted([0, 1, 1], [1], [1, 0, 1])
    session._packet_bytes = 1000

    assert session.append(FENCE, parts(800, 800, 800))
    assert session.texts == [
        ["BEGIN", "UPDATE", "INSERT"],
        ["INSERT"],
        ["INSERT", "COMMIT", "SELECT"],
    ]


@pytest.mark.parametrize(
    "counts", [[0, 1, 1, 0, 0, 1], [0, 0, 1, 1, 0, 1], [0, 1, 0, 0, 0, 1], [0, 1, 1, 1, 0, 0]]
)
def test_counts_that_do_not_agree_are_no_outcome(counts: list[int]) -> None:
    """L48: a commit that answers well proves nothing; what was found does, afterwards too."""
    with pytest.raises(UncertainError, match="rows were updated"):
        Counted(counts).append(FENCE, parts(10, 10))


def test_no_rows_at_all_are_not_stored() -> None:
    """The fence did not let it through."""
    assert not Counted([0, 0, 0, 0, 0, 0]).append(FENCE, parts(10, 10))


def test_rows_that_are_there_are_judged_by_the_lease() -> None:
    """The same append again: what it began is given up, and whoever called looks at the lease."""
    session = Counted(err.IntegrityError(1062, "Duplicate entry"))

    assert not session.append(FENCE, parts(10))
    assert session.written == ["ROLLBACK"]
    with pytest.raises(err.IntegrityError):
        Counted(err.IntegrityError(1048, "cannot be null")).append(FENCE, parts(10))


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (err.OperationalError(2006, "gone away"), Fault.LOST),
        (err.OperationalError(2013, "Lost connection"), Fault.LOST),
        (err.OperationalError(2003, "Can't connect"), Fault.LOST),
        (err.InterfaceError(0, ""), Fault.LOST),
        (err.OperationalError(1040, "Too many connections"), Fault.CROWDED),
        (err.OperationalError(1203, "already has more than 'max_user'"), Fault.CROWDED),
        (err.OperationalError(1226, "has exceeded the 'max_user'"), Fault.CROWDED),
        (err.OperationalError(1047, "WSREP has not yet prepared node"), Fault.LOST),
        (err.OperationalError(1180, "Not connected to Primary Component"), Fault.LOST),
        (err.OperationalError(1205, "Lock wait timeout"), Fault.BUSY),
        (err.OperationalError(1213, "Deadlock"), Fault.BUSY),
        (err.IntegrityError(1062, "Duplicate"), Fault.DUPLICATE),
        (err.OperationalError(1290, "read-only"), Fault.READ_ONLY),
        (err.OperationalError(1114, "The table is full"), Fault.FULL),
        (err.OperationalError(1045, "Access denied"), Fault.CREDENTIALS),
        (err.OperationalError(1142, "INSERT command denied"), Fault.FORBIDDEN),
        (err.OperationalError(1143, "UPDATE command denied"), Fault.FORBIDDEN),
        (err.OperationalError(1044, "Access denied"), Fault.CREDENTIALS),
        (err.OperationalError(1698, "Access denied"), Fault.CREDENTIALS),
        (err.OperationalError(1049, "Unknown database"), Fault.NO_DATABASE),
        (err.ProgrammingError(1146, "doesn't exist"), Fault.NO_TABLE),
        (err.OperationalError(1054, "Unknown column"), Fault.NO_COLUMN),
        (err.ProgrammingError(1064, "syntax"), Fault.UNKNOWN),
        (pymysql.MySQLError(), Fault.UNKNOWN),
    ],
    ids=str,
)
def test_errors_have_their_meaning(error: Exception, fault: Fault) -> None:
    """By their number."""
    assert MariadbSession.fault(error) is fault


SAFE = {"innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "ON", "log_bin": "OFF"}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({}, []),
        ({"innodb_doublewrite": "1"}, []),
        ({"log_bin": "ON", "sync_binlog": "1"}, []),
        ({"innodb_flush_log_at_trx_commit": "2"}, ["innodb_flush_log_at_trx_commit is 2"]),
        ({"innodb_doublewrite": "OFF"}, ["innodb_doublewrite is OFF"]),
        ({"log_bin": "ON", "sync_binlog": "0"}, ["sync_binlog is 0"]),
    ],
)
def test_settings_that_lose_commits_are_named(changed: dict[str, str], named: list[str]) -> None:
    """L40: each with what it is and must be."""
    session = Counted()
    session.found = SAFE | changed

    assert [it.partition(",")[0] for it in session.unsafe_settings()] == named


@pytest.mark.parametrize(
    ("version", "kind"),
    [("10.11.19-MariaDB-0+deb12u1", "MariaDB 10.11.19"), ("8.4.3", "MySQL 8.4.3")],
)
def test_it_tells_what_it_is(version: str, kind: str) -> None:
    """MariaDB and MySQL, with their number."""
    session = Counted()
    session.found = {"version": version, "packet": 16 << 20}
    session._set_up("here")

    assert session.kind == kind
    assert session._packet_bytes == mariadb.PACKET_BYTES_MAX


MARIA = {"server_id": "1", "hostname": "db1", "port": "3306", "read_only": "OFF"}
MYSQL = MARIA | {"server_uuid": "6c1b"}


def standing(found: dict[str, str]) -> Standing:
    session = Counted()
    session.found = dict(found)
    return session.standing()


@pytest.mark.parametrize(
    ("found", "changes", "said"),
    [
        (MARIA, {"server_uid": "4QGyfX1b"}, ""),
        (MARIA | {"server_uid": "4QGyfX1b"}, {"server_uid": "AAAAfX1b"}, ""),
        (MARIA, {"hostname": "9f86"}, "hostname is 9f86 and was another one"),
        (MARIA, {"port": "3307"}, "port is 3307 and was 3306"),
        (
            MARIA,
            {"server_id": "4294967295", "hostname": "db2"},
            "server_id is 4294967295 and was 1, hostname is db2 and was another one",
        ),
        (MYSQL, {"server_id": "2", "hostname": "9f86", "port": "3307"}, ""),
        (MYSQL, {"server_uuid": "7d2c"}, "server_uuid is 7d2c and was another one"),
    ],
)
def test_a_server_is_the_same_one_by_what_lasts(
    found: dict[str, str], changes: dict[str, str], said: str
) -> None:
    """An upgrade and a network card make it no other; two that are there at once are two still."""
    before, after = standing(found), standing(found | changes)
    assert (before.server == after.server) == (said == "")
    assert before.instance != after.instance
    assert len(after.server) == 24 and int(after.server, 16)
    assert MariadbSession.changed(before.server, after, None) == said
    was = dict(before.names).get("server_uuid", "db1")
    known = MariadbSession.changed(before.server, after, before)
    assert known == said.replace("another one", was), "who runs knows it all"


def test_what_is_no_name_of_such_a_server_is_not_told_of() -> None:
    """Of another kind, or changed by hand; what was used before may be another one still."""
    here = standing(MARIA)
    for written in (standing(MYSQL).server, "", "0" * 24):
        assert MariadbSession.changed(written, here, None) == ""
    said = MariadbSession.changed("f" + "x" * 23, here, standing(MARIA | {"hostname": "db9"}))
    assert said.count("was another one") == 3


@pytest.mark.parametrize(
    ("packet", "is_enough"), [(1 << 20, False), (2 << 20, False), (4 << 20, True)]
)
def test_a_packet_must_hold_a_part(packet: int, is_enough: bool) -> None:
    """L41: half of it, as each byte may take two; what is too small is named."""
    session = Counted()
    session.found = {"version": "8.4.3", "packet": packet}
    if is_enough:
        session._set_up("here")
        assert session._packet_bytes < packet / 2
        return
    with pytest.raises(StoreError, match=f"max_allowed_packet of here is {packet:,}"):
        session._set_up("here")


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_not_waited_for_long() -> None:
    """L36: its port is open and nothing comes: that is a lost connection, within its bound."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = Host("127.0.0.1", silent.getsockname()[1])
        url = StoreUrl(MARIADB, (host,), "holdfast", password="secret")
        began = time.monotonic()
        with pytest.raises(pymysql.OperationalError) as raised:
            MariadbSession.connect(url, host, 1.0)
    assert time.monotonic() - began < 10
    assert MariadbSession.fault(raised.value) is Fault.LOST
    assert "secret" not in str(raised.value)
