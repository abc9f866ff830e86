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
from holdfast.security.checking import BUSY, SHUT_OUT, UNKNOWN, WRONG, Checking, Shown
from holdfast.security.principal import ANONYMOUS, Principal
from holdfast.security.tokens import digest_of, make_token
from holdfast.server.logins import IN_CLEAR, Logins, address_of
from holdfast.sessions.credentials import Credential

TOKEN = make_token("ann", b"t" * 32)
ANN = Principal("ann", frozenset({"sales"}))


class Desk:
    """Logins whose passwords and timers the test has in its hands."""

    def __init__(self, *, takes_clear: bool = True, anonymous_role: str = "") -> None:
        self.now = 100.0
        self.state = BrokerState(BrokerSettings())
        self.given_out: list[tuple] = []
        self.timers: list[tuple] = []
        self.told: list[tuple] = []
        self.gone: set[str] = set()
        self.logins = Logins(
            AccessBook(self.state, anonymous_role),
            Checking(self._record, b"k" * 32),
            SimpleNamespace(look=lambda *it: self.given_out.append(it)),
            SimpleNamespace(
                monotonic=lambda: self.now, wall_microseconds=lambda: int(self.now * 1e6)
            ),
            takes_clear=takes_clear,
            tell=lambda connection, answer: self.told.append((connection.peer, str(answer))),
            is_there=lambda connection: connection.peer not in self.gone,
            call_later=lambda *it: self.timers.append(it),
        )

    def _record(self, name: str) -> UserRecord | None:
        return self.state.access.users.get(name)

    def add_user(self, **more: object) -> None:
        values = {"roles": ["sales"], "password": "kept", **more}
        self.state.apply(1, [UserRecord("ann", json.dumps(values), 1)], 1)

    def show(self, name: str, secret: str, peer: str = "10.0.0.1:5", **more: object):
        connection = {"peer": peer, "certificate": None, "is_private": False, **more}
        session = SimpleNamespace(connection=SimpleNamespace(**connection))
        return self.logins.check(session, Credential(name, secret))

    def found(self, *, is_right: bool) -> None:
        waiting, _, done = self.given_out.pop(0)
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
    """Ten thousand who come back after a failover are one look, and are told in slices (S3)."""
    desk.add_user()
    for number in range(10_000):
        assert desk.show("ann", "pw", f"10.0.0.1:{number}") is None
    assert len(desk.given_out) == 1
    desk.found(is_right=True)
    before, slices = 0, 1
    while desk.timers:
        assert 0 < len(desk.told) - before <= 32
        before, slices = len(desk.told), slices + 1
        delay, go_on = desk.timers.pop()
        assert delay == 0.0
        go_on()
    assert len(desk.told) == 10_000
    assert slices == 313
    assert {answer for _, answer in desk.told} == {str(ANN)}
    assert desk.show("ann", "pw") == ANN._replace(kept="kept")


@pytest.mark.parametrize(
    ("change", "later"),
    [
        ({"password": "another"}, WRONG),
        ({"roles": ["stock"]}, str(ANN._replace(roles=frozenset({"stock"})))),
        (None, WRONG),
    ],
)
def test_who_is_told_behind_a_change_is_who_he_is_by_then(desk: Desk, change, later: str) -> None:
    """Whoever was told before is judged again by it; the others come in by nothing older (S5)."""
    desk.add_user()
    for number in range(40):
        desk.show("ann", "pw", f"10.0.0.1:{number}")
    desk.found(is_right=True)
    if change is None:
        desk.state.apply(2, [UserRecord("ann", "", 1)], 2)
    else:
        desk.add_user(**change)
    while desk.timers:
        desk.timers.pop()[1]()
    assert [answer for _, answer in desk.told] == [str(ANN)] * 32 + [later] * 8


def test_from_where_somebody_came_in_is_noted_and_from_where_nobody_did_is_not(desk: Desk) -> None:
    """By a password, or at once by a token; who is refused is a stranger as before."""
    desk.add_user(tokens=[{"sha256": digest_of(TOKEN)}])
    regulars = desk.logins._checking.regulars
    desk.show("ann", "wrong", "10.0.0.1:1")
    desk.found(is_right=False)
    desk.show("ann", "pw", "10.0.0.2:1")
    desk.found(is_right=True)
    desk.show("ann", TOKEN, "10.0.0.3:1")
    assert [regulars.is_one(f"10.0.0.{it}", desk.now) for it in (1, 2, 3)] == [False, True, True]


def test_a_refusal_is_told_when_it_is_due(desk: Desk) -> None:
    """Each failure from one address later than the one before; nobody sleeps for it."""
    desk.add_user()
    for expected in (0.1, 0.2):
        desk.show("ann", f"wrong {expected}")
        desk.found(is_right=False)
        assert desk.told == []
        delay, tell = desk.timers.pop()
        assert delay == pytest.approx(expected)
        tell()
        assert desk.told.pop() == ("10.0.0.1:5", WRONG)
    assert desk.show("nobody", "hf_x", "10.0.0.9:1") is None
    assert desk.timers.pop()[0] == pytest.approx(0.1)


def test_who_is_shut_out_is_told_at_once_and_nobody_elsewhere_is(desk: Desk) -> None:
    """But who shows a token, which nobody guesses."""
    desk.add_user(tokens=[{"sha256": digest_of(TOKEN)}])
    for number in range(21):
        desk.show("ann", f"wrong {number}")
        desk.found(is_right=False)
    refused = desk.show("ann", "right")
    assert isinstance(refused, AuthenticationError)
    assert str(refused) == SHUT_OUT
    assert desk.show("ann", "right", "10.0.0.2:5") is None
    assert isinstance(desk.show("ann", TOKEN), Principal)


def test_a_refusal_that_is_due_already_is_told_where_the_work_ends(desk: Desk) -> None:
    """The clock went on while it was looked at."""
    desk.add_user()
    desk.show("ann", "wrong")
    monotonic = iter([100.0, 100.0, 200.0])
    desk.logins._clock.monotonic = lambda: next(monotonic)
    desk.found(is_right=False)
    assert desk.told == [("10.0.0.1:5", WRONG)]


def test_a_verified_certificate_is_a_login_where_nothing_else_is_shown(desk: Desk) -> None:
    """Its name is that of a user; with a wrong password beside it nobody is let in by it."""
    shown = {"subject": ((("commonName", "ann"),),)}
    assert desk.show("", "", certificate=shown) is ANONYMOUS
    desk.add_user()
    assert desk.show("", "", certificate=shown) == ANN
    assert desk.show("ann", "wrong", certificate=shown) is None
    found = desk.show("", "", certificate={"subject": ((("commonName", "eve"),),)})
    assert str(found) == UNKNOWN


def test_what_others_could_read_on_the_way_is_not_looked_at() -> None:
    """Unless it is by TLS, on this machine, or wanted; it counts as no failure."""
    desk = Desk(takes_clear=False)
    assert desk.show("ann", "pw") is ANONYMOUS
    desk.add_user(tokens=[{"sha256": digest_of(TOKEN)}])
    for secret in ("pw", TOKEN):
        for _ in range(30):
            assert str(desk.show("ann", secret)) == IN_CLEAR
    assert isinstance(desk.show("ann", TOKEN, is_private=True), Principal)
    assert str(desk.show("ann", TOKEN, "?")) == IN_CLEAR
    assert isinstance(Desk().show("ann", TOKEN), Principal)


def test_who_shows_nothing_has_the_role_that_is_said_for_him() -> None:
    """And whoever shows something that is wrong has not."""
    desk = Desk(anonymous_role="guest")
    desk.add_user()
    assert desk.show("", "") == Principal("", frozenset({"guest"}))
    assert desk.show("nobody", "") is None


@pytest.mark.parametrize(
    ("peer", "address"), [("10.0.0.1:5", "10.0.0.1"), ("::1:5", "::1"), ("?", "")]
)
def test_an_address_is_without_its_port(peer: str, address: str) -> None:
    """As the operator reads it, an address of IPv6 has no brackets."""
    assert address_of(SimpleNamespace(peer=peer)) == address


def test_what_nobody_waits_for_any_more_is_not_looked_at(desk: Desk) -> None:
    """When its turn comes; nor what comes from where much was guessed meanwhile (S13)."""
    desk.add_user()
    desk.show("ann", "pw", "10.0.0.1:5")
    desk.show("ann", "pw", "10.0.0.1:6")
    waiting, reason_to_skip, _ = desk.given_out[0]
    assert reason_to_skip(waiting) == ""
    desk.gone = {"10.0.0.1:5"}
    assert reason_to_skip(waiting) == ""
    desk.gone = {"10.0.0.1:5", "10.0.0.1:6"}
    assert reason_to_skip(waiting) == BUSY
    desk.gone = set()
    for number in range(21):
        desk.logins._checking.refused(Shown("ann", f"wrong {number}", address="10.0.0.1"), desk.now)
    assert reason_to_skip(waiting) == SHUT_OUT
