"""Which connections of a log are written through, and which are left for another host."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.environment.remote_server import Host
from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.sql import safety as safety_module
from holdfast.sql import statements
from holdfast.sql.faults import Fault
from holdfast.sql.link import UnsafeHostError
from holdfast.sql.log import SqlLog
from holdfast.sql.safety import LOOK_SECONDS, OLDER_SECONDS, SEARCH_SECONDS, Safety
from holdfast.sql.session import Session, Surroundings, Values
from holdfast.sql.sqlite import SqliteSession
from holdfast.sql.url import parse_store_url
from tests.stores.leased_log_suite import SECONDS, Writer
from tests.unit.sql.test_session import WrittenDown

ONE, OTHER = "1" * 32, "2" * 32


class Node(WrittenDown):
    """A connection whose settings and cluster the test says."""

    def __init__(self, cluster: str | None = None, *unsafe: str) -> None:
        super().__init__()
        self.cluster = cluster
        self.unsafe = list(unsafe)
        self.lease: tuple[int, int, int] | None = None
        """Epoch, beat and time of the row there."""
        self.known: str | None = None
        """What is written down there; None: there is no table yet."""

    def unsafe_settings(self) -> list[str]:
        return self.unsafe

    def rows(self, statement: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        if statement == statements.READ_AGE:
            return [self.lease] if self.lease else []
        assert statement == statements.READ_CLUSTER
        if self.known is None:
            raise ValueError("no such table")
        return [(self.known,)] if self.known else []

    def write(self, statement: str, values: Values | None = None) -> int:
        if statement == statements.DROP_CLUSTER:
            self.known = ""
        else:
            assert statement == statements.INSERT_CLUSTER
            assert not self.known, "there is one already"
            assert values is not None
            self.known = values["cluster"]
        return 1

    @staticmethod
    def fault(error: Exception) -> Fault:
        return Fault.NO_TABLE


class World:
    """One log's safety, its link, and its clock."""

    def __init__(self, *, is_overruled: bool = False) -> None:
        self.now = 100.0
        self.left = 0
        self.link = SimpleNamespace(
            place="db (at db1)",
            url=SimpleNamespace(hosts=("db1", "db2")),
            is_trusted=True,
            is_choosy=True,
            may_leave=True,
            has_others=True,
            leave=self.leave,
        )
        self.is_overruled = is_overruled
        self.safety = self.again()

    def leave(self) -> None:
        self.left += 1

    def again(self) -> Safety:
        """The next process: it knows what is written down only."""
        return Safety(self.link, is_overruled=self.is_overruled, clock=lambda: self.now)  # type: ignore[arg-type]


def test_a_database_that_was_never_served_from_is_refused_for_good() -> None:
    """Its operator is there: the settings are named, and what allows them."""
    world = World()
    world.link.is_trusted = world.link.is_choosy = False
    with pytest.raises(StoreError, match=r"db \(at db1\).* would lose .*fsync is off.*allow_unsa"):
        world.safety.greet(Node(None, "fsync is off, and must be on"))


def test_where_it_is_is_judged_apart_from_its_settings() -> None:
    """It ends who begins there, and has who served wait; or is told only, as he wants it."""
    world = World(is_overruled=True)
    found = Surroundings(unsafe=("x is on y",), told=("z is a z",))
    with pytest.raises(UnsafeHostError, match="x is on y; or allow it"):
        world.safety.approach(found)
    world.link.is_trusted = False
    with pytest.raises(StoreError, match="x is on y; or allow it") as raised:
        world.safety.approach(found)
    assert not isinstance(raised.value, UnreachableError)

    safety = Safety(
        world.link,  # type: ignore[arg-type]
        is_overruled=False,
        may_be_anywhere=True,
        clock=lambda: 0.0,
    )
    safety.approach(found)
    assert safety.warnings == ("x is on y", "z is a z")
    safety.approach(Surroundings())
    assert safety.warnings == ()


def test_of_several_hosts_an_unsafe_one_is_left_for_the_next() -> None:
    """It is gone on with if no other one is safe; then nothing is stored through it."""
    world, node = World(), Node(None, "fsync is off")
    with pytest.raises(UnsafeHostError, match=r"db \(at db1\)"):
        world.safety.greet(node)
    world.link.is_choosy = world.link.may_leave = False
    world.safety.greet(node)
    with pytest.raises(AppendRefusedError, match="nothing is stored until") as caught:
        world.safety.require(node)
    assert caught.value.keeps_lease
    assert world.safety.warnings == ("db (at db1): fsync is off",)
    assert not world.left


def test_an_unsafe_first_host_is_left_before_anything_was_served() -> None:
    """A broker that is started again goes to the good node that stands next in its URL."""
    world = World()
    world.link.is_trusted = False
    with pytest.raises(UnsafeHostError):
        world.safety.greet(Node(None, "fsync is off"))


@pytest.mark.parametrize("has_others", [True, False])
def test_where_none_was_safe_another_is_looked_for_now_and_then(*, has_others: bool) -> None:
    """A good one that was away at that moment comes back, and nothing else would show it."""
    world, node = World(), Node(None, "fsync is off")
    world.link.is_choosy = world.link.may_leave = False
    world.link.has_others = has_others
    world.safety.greet(node)
    for _ in range(2):
        world.now += SEARCH_SECONDS - 0.1
        with pytest.raises(AppendRefusedError):
            world.safety.require(node)
        world.now += 0.1
        with pytest.raises(UnsafeHostError if has_others else AppendRefusedError):
            world.safety.require(node)
    assert world.left == (2 if has_others else 0)


def test_settings_that_change_under_a_connection_are_seen_within_seconds() -> None:
    """Then another host is looked for, and where there is none nothing is stored."""
    world, node = World(), Node()
    world.safety.greet(node)
    node.unsafe.append("fsync is off")
    world.safety.require(node)
    world.now += LOOK_SECONDS
    with pytest.raises(UnsafeHostError):
        world.safety.require(node)
    assert world.left == 1
    world.link.may_leave = False
    with pytest.raises(AppendRefusedError):
        world.safety.require(node)
    node.unsafe.clear()
    world.safety.require(node)


def test_what_is_allowed_is_told_and_taken() -> None:
    """An operator takes it upon himself."""
    world, node = World(is_overruled=True), Node(None, "fsync is off")
    world.safety.greet(node)
    world.safety.require(node)
    assert world.safety.warnings


@pytest.mark.parametrize("elsewhere", ["", OTHER])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_log_of_a_cluster_is_written_through_that_cluster_only(
    elsewhere: str, *, is_restarted: bool
) -> None:
    """A node that is by itself, or in another one, has the rows of then and nobody's since."""
    world, node = World(), Node(ONE)
    world.safety.greet(node)
    assert node.known is None
    node.known = ""
    world.safety.write_down(node, "log")
    assert node.known == ONE
    left = Node(elsewhere)
    left.known = ONE
    safety = world.again() if is_restarted else world.safety
    with pytest.raises(UnsafeHostError, match=rf"Galera cluster {ONE}.*join again"):
        safety.greet(left)
    safety.greet(node)
    safety.write_down(node, "log")


@pytest.mark.parametrize("elsewhere", ["", OTHER])
def test_a_log_that_has_left_its_cluster_is_allowed_once(
    elsewhere: str, caplog: pytest.LogCaptureFixture
) -> None:
    """After that it is known to be where it is; who only reads it, as for a copy, is told."""
    world, node = World(is_overruled=True), Node(elsewhere)
    node.known = ONE
    world.safety.greet(node)
    assert f"its log is in the Galera cluster {ONE}: it may lack what was" in caplog.text
    world.safety.write_down(node, "log")
    assert node.known == elsewhere
    world.is_overruled = False
    world.again().greet(node)


@pytest.mark.parametrize("cluster", [None, ""])
def test_where_there_is_no_cluster_nothing_is_written_down(cluster: str | None) -> None:
    """Also where the table is not there yet."""
    world, node = World(), Node(cluster)
    world.safety.greet(node)
    world.safety.write_down(node, "log")
    assert node.known is None


def test_what_cannot_be_read_is_not_taken_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a table that is not there says that nothing was written down."""
    world, node = World(), Node(ONE)
    monkeypatch.setattr(Node, "fault", staticmethod(lambda _: Fault.LOST))
    with pytest.raises(ValueError, match="no such table"):
        world.safety.greet(node)


def test_a_node_whose_lease_is_older_than_it_was_is_gone_past() -> None:
    """It began the cluster anew by itself, under the same name, and has the rows of then."""
    world, node = World(), Node()
    node.lease = (2, 5, 1000)
    world.safety.greet(node)
    world.safety.saw(2, 6)
    world.safety.saw(2, 3)
    for older in ((2, 5, 9999), (1, 99, 9999)):
        node.lease = older
        with pytest.raises(UnsafeHostError, match=r"went back in time.*epoch 2, beat 6 was read"):
            world.safety.greet(node)
    for fresh in ((2, 6, 0), (3, 1, 0), None):
        node.lease = fresh
        world.safety.greet(node)


def test_what_this_broker_wrote_itself_is_known_to_the_last_write() -> None:
    """Whatever was written under its lease, an append or a queue that is shown, and never read."""
    world, node = World(), Node()
    world.safety.saw(2, 6)
    world.safety.wrote(2, 5000)
    node.lease = (2, 60, 4999)
    with pytest.raises(UnsafeHostError, match=r"and 1 ms later it was written"):
        world.safety.greet(node)
    for fresh in ((2, 60, 5000), (2, 61, 5001), (3, 7, 100)):
        node.lease = fresh
        world.safety.greet(node)


def test_a_state_that_is_older_wherever_there_is_one_is_gone_on_with_in_the_end() -> None:
    """A backup was brought back: what was seen of the log says then whether anything is lost."""
    world, node = World(), Node("")
    world.safety.saw(2, 6)
    world.safety.wrote(2, 5000)
    node.lease = (2, 5, 4000)

    def is_refused(place: str) -> bool:
        world.link.place = place
        try:
            world.safety.greet(node)
        except UnsafeHostError:
            return True
        return False

    assert is_refused("at db1")
    world.now += OLDER_SECONDS - 1
    assert is_refused("at db1"), "the other one may have it, and is tried each time"
    node.lease = (2, 6, 5000)
    assert not is_refused("at db2")
    node.lease = (2, 5, 4000)
    assert is_refused("at db1")
    world.now += OLDER_SECONDS - 1
    assert is_refused("at db2")
    world.now += 2
    assert not is_refused("at db1"), "also where the other one is away for good"
    assert not is_refused("at db2"), "it is the state from now on"


def test_in_a_cluster_an_older_state_is_never_gone_on_with() -> None:
    """Another broker may use a node that this one does not reach; the sentence says a way out."""
    world, node = World(), Node(ONE)
    world.safety.saw(2, 6)
    node.lease = (2, 5, 4000)
    node.known = ONE
    for place in ("at db1", "at db2", "at db1"):
        world.link.place = place
        world.now += 10 * OLDER_SECONDS
        with pytest.raises(UnsafeHostError, match="no newer one any more, restart all brokers"):
            world.safety.greet(node)


class TwoStates:
    """One URL that leads to a database, and once that is away to an older state of it."""

    def __init__(self, folder: Path) -> None:
        self.newest, self.older = folder / "newest.db", folder / "older.db"
        self.is_away: set[str] = set()
        """Names of brokers that reach the older one only."""
        self.logs: list[SqlLog] = []

    def log(self, name: str) -> SqlLog:
        """The way of the broker of this name."""
        url = parse_store_url(f"sqlite:///{self.newest}", own_directory=self.newest.parent)

        def connect(_: object, host: Host | None, seconds: float) -> Session:
            path = self.older if name in self.is_away else self.newest
            return SqliteSession.connect(replace(url, database=str(path)), host, seconds)

        log = SqlLog(url, SqliteSession, connect)
        self.logs.append(log)
        return log

    def back_up(self) -> None:
        """From now on the older one is as the database is now."""
        with closing(sqlite3.connect(self.newest)) as source:
            with closing(sqlite3.connect(self.older)) as copy:
                source.backup(copy)


@pytest.fixture
def states(tmp_path: Path) -> Iterator[TwoStates]:
    states = TwoStates(tmp_path)
    yield states
    for log in states.logs:
        log.close()


@pytest.mark.parametrize("missing", ["nothing", "the look at its age", "the wait for a newer one"])
def test_whoever_knows_a_newer_state_does_not_take_the_lease_of_an_older_one(
    states: TwoStates, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """
    As of a node that began its cluster anew, or a standby that lags: two would confirm. Without
    either safeguard two do.
    """
    if missing == "the look at its age":
        monkeypatch.setattr(Safety, "_require_newest", lambda *_: None)
    elif missing == "the wait for a newer one":
        monkeypatch.setattr(safety_module, "OLDER_SECONDS", 0.0)
    # Two hosts, each of which has a file here; it is not the files that are held together.
    monkeypatch.setattr(SqliteSession, "is_in_file", False)
    holder = Writer(states.log("a"))
    holder.log.open()
    states.back_up()
    holder.take()
    holder.append(b"one")
    other = Writer(states.log("b"), "b")
    other.log.open()
    other.log.observe(SECONDS)
    states.is_away.add("b")
    other.log._link.close()  # type: ignore[attr-defined]
    if missing == "nothing":
        with pytest.raises(UnreachableError, match=r"went back in time.*waited for"):
            other.take()
    else:
        other.take()
        assert other.append(b"another one")
    assert holder.append(b"two")
