"""Which of several hosts is the database: not a replica, nor a primary that comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.environment.remote_server import Host
from holdfast.errors import UnreachableError
from holdfast.sql import statements
from holdfast.sql.faults import Fault
from holdfast.sql.hosts import Hosts
from holdfast.sql.link import Link
from holdfast.sql.session import Session, Standing, Values
from holdfast.sql.url import POSTGRESQL, StoreUrl
from tests.unit.sql.test_session import WrittenDown

A, B = "a" * 24, "b" * 24
LOG = "1" * 32


@dataclass
class Server:
    """One host, and what stands in its tables."""

    server: str
    timeline: int | None = None
    instance: str = ""
    is_writable: bool = True
    written: str = ""
    is_away: bool = False
    is_off: bool = False
    """It takes what comes and says nothing, or nothing comes to it."""
    cluster: str | None = None
    is_of_cluster: bool = False


class Connection(WrittenDown):
    errors = (ValueError,)

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server, self.cluster = server, server.cluster
        self.given_up = 0

    def standing(self) -> Standing:
        it = self.server
        return Standing(it.server, it.timeline, it.instance or it.server, it.is_writable)

    def rows(self, statement: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        if statement == statements.READ_CLUSTER:
            return [("c" * 32,)] if self.server.is_of_cluster else []
        assert statement == statements.READ_SERVER
        if self.server.written == "no table":
            raise ValueError
        return [(self.server.written,)] if self.server.written else []

    def write(self, statement: str, values: Values | None = None) -> int:
        if statement == statements.INSERT_SERVER:
            assert values is not None and values["store_id"] == LOG
            self.server.written = values["server"]
        return super().write(statement, values)

    def give_up(self) -> None:
        self.given_up += 1

    @staticmethod
    def fault(error: Exception) -> Fault:
        return Fault.NO_TABLE if not error.args else Fault.DUPLICATE


class World:
    """Two hosts, and the brokers that come to them."""

    def __init__(self, **servers: Server) -> None:
        self.servers = servers
        self.asked: list[str] = []
        self.end = threading.Event()
        self.connection: type[Connection] = Connection

    def answers_late(self) -> None:
        """Let those that are off say what they were asked, though nobody waits for it any more."""
        self.end.set()
        for it in threading.enumerate():
            if it.name == "holdfast-other-host":
                it.join(30)
        self.end.clear()

    def broker(self, *, is_overruled: bool = False, is_holder: bool = True) -> Broker:
        return Broker(self, is_overruled=is_overruled, is_holder=is_holder)


class Broker:
    """One process: connects to the first host that will do; who holds the lease writes it down."""

    def __init__(self, world: World, *, is_overruled: bool, is_holder: bool) -> None:
        self.world = world
        self.is_holder = is_holder
        url = StoreUrl(POSTGRESQL, tuple(Host(it, 1) for it in world.servers), "holdfast")
        self.link = Link(url, Connection, self.connect, greet=self.greet, clock=time.monotonic)
        self.hosts = Hosts(self.link, is_overruled=is_overruled, clock=time.monotonic)

    def connect(self, url: StoreUrl, host: Host | None, seconds: float) -> Session:
        assert host is not None
        server = self.world.servers[host.name]
        if url.is_glanced_at:
            self.world.asked.append(host.name)
        if server.is_away:
            raise OSError("no route")
        if url.is_glanced_at and server.is_off:
            assert self.world.end.wait(30)
        return self.world.connection(server)

    def greet(self, session: Session) -> None:
        self.hosts.greet(session)

    def comes(self, seconds_max: float = 10) -> str:
        """Where it serves after a new connection; or why it does not."""

        def serve(session: Session) -> str:
            self.link.is_trusted = True
            if self.is_holder:
                self.hosts.write_down(session, LOG)
            assert self.link.host is not None
            return self.link.host.name

        self.link.close()
        try:
            return self.link.run(seconds_max, serve)
        except UnreachableError as error:
            return str(error)


def mariadb(**changes: Any) -> World:
    """A primary, and its replica, that lets itself be written as it does by default."""
    return World(db1=Server(A), db2=Server(B, **changes))


def replicate(world: World) -> None:
    world.servers["db2"].written = world.servers["db1"].written


def test_two_servers_that_take_writes_are_refused_at_the_first_start() -> None:
    """Both by name; one that is read-only is a replica, and nothing is written through it."""
    world = mariadb()
    said = world.broker().comes()
    for words in (
        "(at db1:1) and db2:1 both take writes",
        "(at db2:1) and db1:1 both",
        "read_only",
    ):
        assert words in said

    world.servers["db2"].is_writable = False
    assert world.broker().comes() == "db1"
    world.servers["db1"].is_away = True
    assert "(at db2:1) is read-only" in world.broker().comes()


def test_a_holder_never_goes_on_in_a_replica() -> None:
    """Its rows name another server: whoever comes there, and whatever is allowed as it runs."""
    world = mariadb(is_writable=False)
    holder = world.broker(is_overruled=True)
    assert holder.comes() == "db1"
    replicate(world)
    world.servers["db2"].is_writable = True
    world.servers["db1"].is_away = True

    for broker in (holder, world.broker()):
        assert "(at db2:1) is another server than the one that its rows name" in broker.comes()
    world.servers["db1"].is_away = False
    assert [holder.comes(), world.broker().comes()] == ["db1", "db1"]


class Renamed(Connection):
    """Knows what makes it another one."""

    @staticmethod
    def changed(written: str, here: Standing, known: Standing | None) -> str:
        return f"it is {here.server[0]} and was {written[0]}, {known and known.server[0]}"


def test_a_server_that_was_renamed_says_what_changed() -> None:
    """To who used it and to who begins; as it was before it is served again."""
    world = mariadb(is_writable=False)
    world.connection = Renamed
    holder = world.broker()
    assert holder.comes() == "db1"
    world.servers["db1"].server = "c" * 24
    for broker, known in ((holder, "a"), (world.broker(), None)):
        said = broker.comes()
        assert f"name (it is c and was a, {known}: if it is the same server, let it be" in said
    written, world.servers["db1"].written = world.servers["db1"].written, ""
    assert "that was used (it is c and was a, a: if it is the same" in holder.comes()
    world.servers["db1"].server, world.servers["db1"].written = A, written
    assert holder.comes() == "db1"


def test_a_server_of_the_same_name_that_is_there_as_well_is_another_one() -> None:
    """A copy of its whole directory: two that take writes are refused; nobody changes to it."""
    world = World(db1=Server(A, instance="x"), db2=Server(A, instance="y", is_writable=False))
    holder = world.broker()
    assert holder.comes() == "db1"
    replicate(world)
    world.servers["db2"].is_writable = True
    assert world.broker().comes().count("both take writes") == 2
    world.servers["db1"].is_away = True
    for broker in (holder, world.broker()):
        assert "not all answer" in broker.comes()
    # The same server after an upgrade: nobody else is asked for it.
    world.servers["db1"].is_away, world.servers["db2"].is_away = False, True
    world.servers["db1"].instance = "z"
    assert holder.comes() == "db1"


def test_a_replica_that_has_not_the_row_yet_is_refused_as_well() -> None:
    """By what the process used before, and by one that cannot ask whether it is one."""
    world = mariadb(is_writable=False)
    holder = world.broker()
    assert holder.comes() == "db1"
    world.servers["db2"].is_writable = True
    world.servers["db1"].is_away = True
    assert "is another server than the one that was used" in holder.comes()
    assert "not all answer" in world.broker().comes()


def test_an_operator_lets_it_go_on_with_a_replica_once() -> None:
    """After that all know it, those that run too; the old primary is older then."""
    world = mariadb(is_writable=False)
    running, bystander = world.broker(), world.broker(is_holder=False)
    assert [running.comes(), bystander.comes()] == ["db1", "db1"]
    replicate(world)
    world.servers["db1"].is_away, world.servers["db2"].is_writable = True, True

    assert world.broker(is_overruled=True).comes() == "db2"
    assert world.servers["db2"].written == f"{B}{1:08x}"
    assert [running.comes(), bystander.comes()] == ["db2", "db2"]
    world.servers["db1"].is_away = False
    assert [it.comes() for it in (running, world.broker())] == ["db2", "db2"]
    world.servers["db2"].is_away = True
    assert "is another server than the one that was used" in running.comes()
    assert "not all answer" in world.broker().comes()


def test_two_that_name_themselves_alike_are_both_refused() -> None:
    """Nothing tells which one counts."""
    world = World(db1=Server(A, written=f"{A}{0:08x}"), db2=Server(B, written=f"{B}{0:08x}"))
    assert world.broker().comes().count("both take writes") == 2


@pytest.fixture
def failed_over() -> World:
    """PostgreSQL: db1 was the primary, db2 was promoted and has everything; db1 is away."""
    world = World(db1=Server(A, 1, "x"), db2=Server(A, 1, "y", is_writable=False))
    assert world.broker().comes() == "db1"
    replicate(world)
    world.servers["db1"].is_away = True
    world.servers["db2"] = Server(A, 2, "y", written=world.servers["db1"].written)
    return world


def test_whoever_was_promoted_is_followed(failed_over: World) -> None:
    """Though the old primary does not answer: its timeline is newer than the one in the log."""
    assert failed_over.broker().comes() == "db2"
    assert failed_over.servers["db2"].written == f"{A}{2:08x}"
    # And the same process comes back to where it was, with nobody else there.
    running = failed_over.broker
    failed_over.servers["db1"].is_away = False
    broker = running()
    assert broker.comes() == "db2"
    failed_over.servers["db1"].is_away = True
    assert broker.comes() == "db2"


def test_an_old_primary_that_comes_back_is_served_by_nobody(failed_over: World) -> None:
    """Who was there knows, who is new asks; who cannot ask does not serve."""
    holder = failed_over.broker()
    assert holder.comes() == "db2"
    failed_over.servers["db1"].is_away = False
    fresh = failed_over.broker()
    assert fresh.comes() == "db2"
    assert "db1" not in [fresh.comes(), holder.comes()]

    failed_over.servers["db2"].is_away = True
    assert "before another host took over (timeline 1, and 2 was seen)" in holder.comes()
    said = failed_over.broker().comes()
    assert "(at db1:1) may be one that another host has taken over from" in said
    assert "db2:1: no route" in said and "take what is gone for good out of the URL" in said


def test_a_waiter_that_saw_nothing_of_the_failover_asks_when_it_comes_back(
    failed_over: World,
) -> None:
    """The old primary was back before its connection was missed; where nobody answers it stays."""
    old, new = failed_over.servers["db1"], failed_over.servers["db2"]
    old.is_away, new.is_away = False, True
    waiter = failed_over.broker(is_overruled=True)
    assert waiter.comes() == "db1"
    assert waiter.comes() == "db1"
    new.is_away = False
    assert waiter.comes() == "db2"


def test_standbys_that_are_off_leave_a_holder_the_time_for_what_it_came_for() -> None:
    """However many: a third of what is left of its call, once; the next time nothing at all."""
    world = World(db1=Server(A, 1, "x"))
    world.servers |= {f"db{it}": Server(A, 1, f"{it}", is_writable=False) for it in range(2, 5)}
    holder = world.broker()
    assert holder.comes() == "db1"
    for name in ("db2", "db3", "db4"):
        world.servers[name].is_off = True
    world.asked.clear()
    began = time.monotonic()
    assert holder.comes(0.9) == "db1"
    assert 0.29 < time.monotonic() - began < 0.85
    world.answers_late()
    assert holder.comes(0.9) == "db1"
    assert sorted(world.asked) == ["db2", "db3", "db4"]
    # Who knows nothing waits for them, as long as its call may take.
    began = time.monotonic()
    said = world.broker().comes(0.3)
    assert time.monotonic() - began < 10
    assert all(f"db{it}:1: no answer in time" in said for it in range(2, 5))
    world.answers_late()


def test_a_standby_of_the_new_primary_gives_the_old_one_away(failed_over: World) -> None:
    """It takes no writes, and is of the later timeline."""
    failed_over.servers["db1"].is_away = False
    failed_over.servers["db2"].is_writable = False
    assert "(at db1:1) is older than db2:1" in failed_over.broker().comes()


def test_two_that_were_promoted_apart_are_refused(failed_over: World) -> None:
    """Both are of the next timeline, and two processes."""
    failed_over.servers["db1"] = Server(A, 2, "x", written=failed_over.servers["db2"].written)
    assert failed_over.broker().comes().count("both take writes") == 2


def test_names_of_one_server_are_one() -> None:
    """Two ways to the same process: either may be used, also while the other is away."""
    for timeline in (None, 3):
        server = Server(A, timeline, "x")
        world = World(db1=server, db2=server)
        broker = world.broker()
        assert broker.comes() == "db1"
        broker.link.leave()
        assert broker.comes() == "db2"


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it.servers.pop("db2"),
        lambda it: setattr(it.servers["db1"], "cluster", "c" * 32),
        lambda it: vars(it.servers["db1"]).update(cluster="", is_of_cluster=True),
    ],
)
def test_one_host_and_a_cluster_are_not_asked(change: Callable[[World], object]) -> None:
    """Of one there is nothing to compare, and nodes of a cluster are known by that."""
    world = mariadb()
    change(world)
    assert world.broker().comes() == "db1"
    assert world.asked == [] and world.servers["db1"].written == ""


def test_a_log_that_is_not_there_yet_names_nobody() -> None:
    """Its tables are made afterwards."""
    world = World(db1=Server(A, 1, written="no table"), db2=Server(A, 1, is_writable=False))
    assert world.broker(is_holder=False).comes() == "db1"


def test_a_row_that_was_changed_by_hand_names_no_server() -> None:
    """It is no crash, and nobody's word."""
    world = mariadb(is_writable=False)
    world.servers["db1"].written = "nonsense"
    assert "than the one that its rows name" in world.broker().comes()


class Raced(Connection):
    """Another broker is quicker."""

    def write(self, statement: str, values: Values | None = None) -> int:
        if statement == statements.INSERT_SERVER:
            raise ValueError("there is one")
        return super().write(statement, values)


def test_two_that_write_it_down_at_once_have_both_done_it() -> None:
    """The other one's row says the same; nothing is left open, and nothing tried again."""
    world = World(db1=Server(A, 1), db2=Server(A, 1, is_writable=False))
    broker = world.broker(is_holder=False)
    assert broker.comes() == "db1"
    session = Raced(world.servers["db1"])
    for _ in range(2):
        broker.hosts.write_down(session, LOG)
    assert session.given_up == 1
    assert session.written == ["BEGIN", statements.DROP_SERVER]
