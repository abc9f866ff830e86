"""The connection that comes back: hosts in turn, bounds, and what becomes of a driver's errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.environment.remote_server import Host
from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.sql.faults import Fault
from holdfast.sql.link import MISSING_SECONDS, Link, UnsafeHostError
from holdfast.sql.session import Session, UncertainError
from holdfast.sql.url import POSTGRESQL, StoreUrl
from tests.unit.sql.test_session import WrittenDown

HOSTS = (Host("db1", 1), Host("db2", 2), Host("db3", 3))


class DriverError(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(f"the driver says {fault.name}")
        self.fault = fault


class Connection(WrittenDown):
    errors = (DriverError,)

    def __init__(self, host: Host | None, seconds: float) -> None:
        super().__init__()
        self.host, self.seconds = host, seconds
        self.bounds: list[float] = []
        self.is_closed = False

    def bound(self, seconds: float) -> None:
        self.bounds.append(seconds)

    @staticmethod
    def fault(error: Exception) -> Fault:
        assert isinstance(error, DriverError)
        return error.fault

    def close(self) -> None:
        self.is_closed = True


class Network:
    """Hosts that can be away, each in its own way; time goes on by `step` with each attempt."""

    def __init__(self, hosts: tuple[Host, ...] = HOSTS) -> None:
        self.away: dict[str, Exception] = {}
        self.made: list[Connection] = []
        self.tried: list[str] = []
        self.now = 100.0
        self.step = 0.0
        url = StoreUrl(POSTGRESQL, hosts, "holdfast", user="me", password="secret")
        self.greet: Callable[[Session], None] = lambda _: None
        self.link = Link(
            url,
            Connection,
            self.connect,
            greet=self.greeted,
            clock=lambda: self.now,
        )

    def greeted(self, session: Session) -> None:
        self.greet(session)

    def connect(self, url: StoreUrl, host: Host | None, seconds: float) -> Session:
        assert host is not None
        self.tried.append(host.name)
        self.now += self.step
        if host.name in self.away:
            raise self.away[host.name]
        self.made.append(Connection(host, seconds))
        return self.made[-1]

    def host(self) -> str:
        """Where the link is connected to when it is asked for something."""
        return self.link.run(10, lambda _: str(self.made[-1].host).partition(":")[0])


def fail(error: Exception) -> Callable[[Session], None]:
    def action(session: Session) -> None:
        raise error

    return action


def test_one_connection_is_made_and_kept() -> None:
    """At the first host; every call bounds it anew."""
    network = Network()

    assert [network.host() for _ in range(3)] == ["db1"] * 3
    (connection,) = network.made
    assert connection.bounds == [10.0] * 4
    network.link.close()
    network.link.close()
    assert connection.is_closed


def test_hosts_are_tried_in_their_order() -> None:
    """Those that are away, refuse, or are read-only, are passed by; the password is not told."""
    network = Network()
    network.away = {"db1": OSError("no route"), "db2": DriverError(Fault.READ_ONLY)}

    assert network.host() == "db3"
    assert network.tried == ["db1", "db2", "db3"]
    network.away["db3"] = DriverError(Fault.LOST)
    network.link.close()
    with pytest.raises(UnreachableError) as raised:
        network.host()
    for said in ("db1:1", "no route", "db2:2", "db3:3"):
        assert said in str(raised.value)
    assert "secret" not in f"{raised.value} {raised.value!r}"


def test_time_that_is_over_ends_the_search() -> None:
    """What is left is for one host each, and no host is begun with when there is nothing."""
    network = Network()
    network.away = {it.name: OSError("away") for it in HOSTS}
    network.step = 6.0
    with pytest.raises(UnreachableError):
        network.host()
    assert network.tried == ["db1", "db2"]


def test_who_greets_a_connection_knows_what_is_left_of_the_call() -> None:
    """What was lost on the hosts before it is gone."""
    network = Network()
    network.away = {"db1": OSError("away")}
    network.step = 3.0
    left = []
    network.greet = lambda _: left.append(network.link.seconds_left)
    assert network.host() == "db2"
    assert left == [4.0]


@pytest.mark.parametrize(
    ("fault", "following"),
    [
        (Fault.LOST, "db2"),
        (Fault.READ_ONLY, "db2"),
        (Fault.BUSY, "db1"),
        (Fault.FULL, "db1"),
        (Fault.UNKNOWN, "db1"),
    ],
)
def test_after_an_error_another_connection_is_made(fault: Fault, following: str) -> None:
    """At the next host, where that may help; what was in the old one is let go of."""
    network = Network()
    network.host()
    expected = AppendRefusedError if fault is Fault.FULL else UnreachableError
    with pytest.raises(expected, match=f"the driver says {fault.name}"):
        network.link.run(10, fail(DriverError(fault)))

    assert network.made[0].is_closed
    assert network.host() == following


@pytest.mark.parametrize("error", [TimeoutError("timed out"), UncertainError("cancelled")])
def test_what_is_not_known_is_unreachable(error: Exception) -> None:
    """A bound that was reached, and a commit of which the database itself is not sure."""
    network = Network()
    with pytest.raises(UnreachableError):
        network.link.run(10, fail(error))
    assert network.made[0].is_closed


def test_what_is_final_is_told_at_once() -> None:
    """Wrong credentials are wrong at every host: none is tried further."""
    network = Network()
    network.away = {"db1": DriverError(Fault.CREDENTIALS)}
    with pytest.raises(StoreError, match="does not let this user in") as raised:
        network.host()
    assert type(raised.value) is StoreError
    assert network.tried == ["db1"]


def test_a_connection_that_is_not_greeted_is_not_kept() -> None:
    """Whatever the judgement of it raises, ours or the driver's; the next host gets its turn."""
    network = Network()
    network.greet = fail(StoreError("unsafe"))
    with pytest.raises(StoreError, match="unsafe"):
        network.host()
    assert [it.is_closed for it in network.made] == [True]

    def greet(session: Session) -> None:
        assert isinstance(session, Connection)
        assert session.host is not None
        if session.host.name == "db1":
            raise UnreachableError("not ready")

    network.greet = greet
    assert network.host() == "db2"
    assert [it.is_closed for it in network.made] == [True, True, False]


def test_a_store_error_of_the_action_closes_the_connection() -> None:
    """It may have left a transaction open."""
    network = Network()
    with pytest.raises(StoreError, match="no sense"):
        network.link.run(10, fail(StoreError("no sense")))
    assert network.made[0].is_closed


def test_what_is_in_the_way_of_a_connection_may_pass_for_who_was_let_in() -> None:
    """A folder that is not mounted, a pool in front of it: what a start is refused for."""
    network = Network((HOSTS[0],))
    network.away[HOSTS[0].name] = StoreError("its folder is no directory")
    with pytest.raises(StoreError) as raised:
        network.host()
    assert not isinstance(raised.value, UnreachableError)
    network.link.is_trusted = True
    with pytest.raises(UnreachableError, match="no directory; it is tried again"):
        network.host()


@pytest.mark.parametrize("fault", [Fault.CREDENTIALS, Fault.FORBIDDEN, Fault.NO_DATABASE])
def test_who_was_let_in_before_waits_to_be_let_in_again(fault: Fault) -> None:
    """A password that is being changed, a database that is being brought back: no reason to end."""
    network = Network()
    network.away["db1"] = DriverError(fault)
    with pytest.raises(StoreError) as first:
        network.host()
    assert type(first.value) is StoreError
    network.link.is_trusted = True
    network.away = dict.fromkeys(("db1", "db2", "db3"), DriverError(fault))
    with pytest.raises(UnreachableError, match=f"the driver says {fault.name}"):
        network.host()


@pytest.mark.parametrize("fault", [Fault.CREDENTIALS, Fault.FORBIDDEN, Fault.NO_DATABASE])
def test_a_right_that_is_taken_for_a_moment_ends_nobody(fault: Fault) -> None:
    """On a connection that was there all the time as well; who was never let in is told at once."""
    network = Network()
    network.host()
    with pytest.raises(StoreError) as first:
        network.link.run(10, fail(DriverError(fault)))
    assert type(first.value) is StoreError
    network.link.is_trusted = True
    network.host()
    with pytest.raises(UnreachableError, match=fault.value):
        network.link.run(10, fail(DriverError(fault)))
    assert network.made[-1].is_closed


@pytest.mark.parametrize("fault", [Fault.NO_TABLE, Fault.NO_COLUMN])
def test_what_is_not_found_any_more_is_where_the_address_leads(fault: Fault) -> None:
    """By a new connection, or one that a pool led elsewhere; who never served is told."""
    network = Network()
    network.link.is_trusted = True
    network.host()
    with pytest.raises(UnreachableError, match="leads to a database that has not the tables"):
        network.link.run(10, fail(DriverError(fault)))
    assert network.made[-1].is_closed
    network.greet = fail(DriverError(fault))
    for _ in range(2):
        with pytest.raises(UnreachableError, match="leads to a database that has not the tables"):
            network.host()
    network.link.is_trusted = False
    with pytest.raises(StoreError, match=fault.value) as first:
        network.host()
    assert type(first.value) is StoreError


@pytest.mark.parametrize("fault", [Fault.NO_TABLE, Fault.NO_COLUMN])
def test_what_the_next_connection_lacks_too_is_lost(fault: Fault) -> None:
    """It was greeted well, so it leads to the right database; much later it may be a pool again."""
    network = Network()
    network.link.is_trusted = True
    missing = fail(DriverError(fault))
    with pytest.raises(UnreachableError):
        network.link.run(10, missing)
    network.host()  # What it has is used meanwhile.
    with pytest.raises(StoreError, match=fault.value) as lost:
        network.link.run(10, missing)
    assert type(lost.value) is StoreError
    network.now += MISSING_SECONDS
    with pytest.raises(UnreachableError):
        network.link.run(10, missing)


def unsafe(network: Network, *names: str) -> Callable[[Session], None]:
    """Greets as a log does whose operator allows nothing unsafe."""

    def greet(session: Session) -> None:
        assert isinstance(session, Connection)
        assert session.host is not None
        assert network.link.place.endswith(f"(at {session.host})")
        if session.host.name in names and network.link.is_choosy:
            raise UnsafeHostError(f"{session.host.name} is unsafe")

    return greet


def test_a_host_that_may_lose_something_is_passed_by() -> None:
    """As long as there is another one."""
    network = Network()
    network.greet = unsafe(network, "db1")
    assert network.host() == "db2"
    assert network.link.may_leave


def test_where_none_is_safe_the_first_that_answers_has_to_do() -> None:
    """Whoever asks knows that it may not be left for another one."""
    network = Network()
    network.greet = unsafe(network, "db1", "db2", "db3")
    network.away = {"db1": OSError("no route")}
    assert network.host() == "db2"
    assert not network.link.may_leave


def test_a_host_that_is_left_is_the_last_one_afterwards() -> None:
    """Its connection is closed."""
    network = Network()
    assert network.host() == "db1"
    network.link.leave()
    assert network.made[0].is_closed
    assert network.host() == "db2"


@pytest.mark.parametrize(
    ("error", "is_answer"),
    [
        (DriverError(Fault.UNKNOWN), True),
        (DriverError(Fault.LOST), False),
        (DriverError(Fault.BUSY), False),
        (UncertainError("counts do not agree"), False),
        (OSError("cut"), False),
    ],
)
def test_what_the_database_itself_answered_is_told_apart(error: Exception, is_answer: bool) -> None:
    """From what may have been done, and from what passes by itself."""
    network = Network()
    with pytest.raises(UnreachableError) as caught:
        network.link.run(10, fail(error))
    assert network.link.was_answered(caught.value) is is_answer
