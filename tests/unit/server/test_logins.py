"""Logins of clients: told at once, or later, and nobody else waits."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving.access_book import AccessBook
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import AuthenticationError
from holdfast.model.access_records import UserRecord
from holdfast.security.checking import SHUT_OUT, WRONG, Checking
from holdfast.security.principal import ANONYMOUS, Principal
from holdfast.security.tokens import digest_of, make_token
from holdfast.server.logins import Logins, address_of
from holdfast.sessions.credentials import Credential

TOKEN = make_token("ann", b"t" * 32)
ANN = Principal("ann", frozenset({"sales"}))


class Desk:
    """Logins whose passwords and timers the test has in its hands."""

    def __init__(self) -> None:
        self.now = 100.0
        self.state = BrokerState(BrokerSettings())
        self.given_out: list[tuple] = []
        self.timers: list[tuple] = []
        self.told: list[tuple] = []
        self.logins = Logins(
            AccessBook(self.state),
            Checking(self._record, b"k" * 32),
            SimpleNamespace(look=lambda *it: self.given_out.append(it)),
            SimpleNamespace(
                monotonic=lambda: self.now, wall_microseconds=lambda: int(self.now * 1e6)
            ),
            tell=lambda connection, answer: self.told.append((connection.peer, str(answer))),
            call_later=lambda *it: self.timers.append(it),
        )

    def _record(self, name: str) -> UserRecord | None:
        return self.state.access.users.get(name)

    def add_user(self, **more: object) -> None:
        values = {"roles": ["sales"], "password": "kept", **more}
        self.state.apply(1, [UserRecord("ann", json.dumps(values), 1)], 1)

    def show(self, name: str, secret: str, peer: str = "10.0.0.1:5"):
        session = SimpleNamespace(connection=SimpleNamespace(peer=peer))
        return self.logins.check(session, Credential(name, secret))

    def found(self, *, is_right: bool) -> None:
        waiting, done = self.given_out.pop(0)
        done(waiting, is_right)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_without_users_nobody_is_asked(desk: Desk) -> None:
    """Whatever is shown is not looked at: so it was before there could be users."""
    assert desk.show("any", "thing") is ANONYMOUS
    assert desk.show("", "") is ANONYMOUS
    desk.add_user()
    assert isinstance(desk.show("", ""), AuthenticationError)


def test_a_token_is_answered_at_once(desk: Desk) -> None:
    """Nothing is given out for it."""
    desk.add_user(tokens=[{"sha256": digest_of(TOKEN)}])
    assert desk.show("ann", TOKEN) == ANN._replace(kept=digest_of(TOKEN))
    assert desk.given_out == []


def test_all_who_show_one_password_are_told_of_one_look_at_it(desk: Desk) -> None:
    """Ten thousand who come back after a failover are one look (S3)."""
    desk.add_user()
    for number in range(10_000):
        assert desk.show("ann", "pw", f"10.0.0.1:{number}") is None
    assert len(desk.given_out) == 1
    desk.found(is_right=True)
    assert len(desk.told) == 10_000
    assert {answer for _, answer in desk.told} == {str(ANN)}
    assert desk.show("ann", "pw") == ANN._replace(kept="kept")


def test_a_refusal_is_told_when_it_is_due(desk: Desk) -> None:
    """Each failure from one address later than the one before; nobody sleeps for it."""
    desk.add_user()
    for expected in (0.1, 0.2):
        desk.show("ann", "wrong")
        desk.found(is_right=False)
        assert desk.told == []
        delay, tell = desk.timers.pop()
        assert delay == pytest.approx(expected)
        tell()
        assert desk.told.pop() == ("10.0.0.1:5", WRONG)
    assert desk.show("nobody", "hf_x", "10.0.0.9:1") is None
    assert desk.timers.pop()[0] == pytest.approx(0.1)


def test_who_is_shut_out_is_told_at_once_and_nobody_elsewhere_is(desk: Desk) -> None:
    """Also who shows what is right."""
    desk.add_user(tokens=[{"sha256": digest_of(TOKEN)}])
    for _ in range(21):
        desk.show("ann", "hf_wrong")
    refused = desk.show("ann", TOKEN)
    assert isinstance(refused, AuthenticationError)
    assert str(refused) == SHUT_OUT
    assert isinstance(desk.show("ann", TOKEN, "10.0.0.2:5"), Principal)


def test_a_refusal_that_is_due_already_is_told_where_the_work_ends(desk: Desk) -> None:
    """The clock went on while it was looked at."""
    desk.add_user()
    desk.show("ann", "wrong")
    monotonic = iter([100.0, 100.0, 200.0])
    desk.logins._clock.monotonic = lambda: next(monotonic)
    desk.found(is_right=False)
    assert desk.told == [("10.0.0.1:5", WRONG)]


@pytest.mark.parametrize(
    ("peer", "address"), [("10.0.0.1:5", "10.0.0.1"), ("::1:5", "::1"), ("?", "")]
)
def test_an_address_is_without_its_port(peer: str, address: str) -> None:
    """As the operator reads it, an address of IPv6 has no brackets."""
    assert address_of(SimpleNamespace(peer=peer)) == address
