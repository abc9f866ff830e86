"""
A login that takes its time: what comes meanwhile waits in its order, bounded, and then goes on.
"""

from __future__ import annotations

import pytest

from holdfast.errors import AuthenticationError
from holdfast.protocols.stomp.frames import Frame
from holdfast.security.principal import Principal
from holdfast.sessions.credentials import ANONYMOUS, Credential
from holdfast.sessions.stomp_connecting import Login, login_by, read_credential

CONNECT = b"CONNECT\naccept-version:1.2\nlogin:me\npasscode:secret\nreceipt:c\n\n\0"
SENDS = b"".join(
    b"SEND\ndestination:/queue/a\npersistent:true\nreceipt:%d\n\n%d\0" % (it, it)
    for it in range(20)
)
GOODBYE = b"DISCONNECT\nreceipt:bye\n\n\0"


@pytest.fixture
def asked(desk) -> list[Credential]:
    """What was asked for, and is not answered yet."""
    credentials: list[Credential] = []

    def later(session, credential: Credential) -> None:
        credentials.append(credential)

    desk.context.check = later
    return credentials


def test_a_connect_shows_a_name_and_a_secret() -> None:
    """
    Or neither: many clients have none.
    """
    assert read_credential({"login": "a", "passcode": "b"}) == Credential("a", "b")
    assert read_credential({}) == Credential("", "")
    login = Login(Frame("CONNECT", {}), 5.0)
    assert (login.deadline, login.unread) == (5.0, b"")


@pytest.mark.parametrize("cut", [0, 1, len(SENDS) // 2, len(SENDS)])
def test_what_came_meanwhile_is_done_in_its_order(desk, asked, cut) -> None:
    """
    Whether it came with the CONNECT or later: the answers are those of a login without delay.
    """
    client = desk.connect("")
    client.raw(CONNECT + SENDS[:cut])
    client.raw(SENDS[cut:])
    client.raw(GOODBYE)
    desk.turn()
    assert asked == [Credential("me", "secret")]
    session = client.session
    assert client.bytes() == b""
    assert not session.is_connected
    assert session.is_full
    assert not session.is_idle
    assert not session.go_on()
    session.authenticated(Principal("me"))
    assert session.principal == Principal("me")
    while session.is_left_off:
        session.proceed(lambda: False)
    desk.turn()
    frames = client.frames()
    receipts = [frame.headers["receipt-id"] for frame in frames]
    assert receipts == ["c", *map(str, range(20)), "bye"]
    assert frames[0].command == "CONNECTED"
    assert session.is_closing
    assert not session.is_full


def test_who_is_not_let_in_is_told_and_closed(desk, asked) -> None:
    """
    Nothing of what it sent is done.
    """
    client = desk.connect("")
    client.raw(CONNECT + SENDS)
    client.session.authenticated(AuthenticationError("there is no such user"))
    desk.turn()
    (error,) = client.frames()
    assert error.command == "ERROR"
    assert error.headers["code"] == "not-authenticated"
    assert error.headers["receipt-id"] == "c"
    assert error.body == b"there is no such user"
    assert client.session.is_closing
    assert desk.broker.state.live_count() == 0
    assert desk.context.refusals.by_code["not-authenticated"] == 1


def test_who_is_refused_at_once_is_told_the_same(desk) -> None:
    """
    The answer may come in the same call.
    """
    desk.context.check = lambda session, credential: AuthenticationError("no")
    client = desk.connect("")
    client.raw(CONNECT)
    (error,) = client.frames()
    assert error.headers["code"] == "not-authenticated"


def test_an_answer_that_comes_too_late_is_for_nobody(desk, asked) -> None:
    """
    The client is gone, or was sent away meanwhile.
    """
    for end in (
        lambda session: session.leave(),
        lambda session: session.give_up(),
        lambda session: session.farewell("too much is held", "too-much-held"),
    ):
        client = desk.connect("")
        client.raw(CONNECT + SENDS)
        end(client.session)
        client.bytes()
        client.session.authenticated(ANONYMOUS)
        assert client.bytes() == b""
        assert not client.session.is_connected


def test_the_time_to_connect_stands_still_while_a_login_is_looked_at(desk, asked) -> None:
    """
    It is our work that takes it; bounded, as nobody may hang here for ever. What came is counted as
    a frame that is not whole.
    """
    session = desk.connect("").session
    assert session.deadline == 30.0
    desk.context.now = 25.0
    session.receive(CONNECT)
    session.receive(b"x" * 1000)
    assert session.unfinished_bytes == 1000
    assert session.deadline == 55.0
    assert session.handle_deadline(54.0) == b""
    assert session.handle_deadline(55.0) is None
    assert login_by(None, 25.0) is None
    assert login_by(100.0, 25.0) == 100.0


def test_a_lease_that_is_awaited_as_well_is_waited_for_first(desk, asked) -> None:
    """
    An acknowledgement of who was let in is held as anybody's.
    """
    desk.context.is_lease_awaited = True
    client = desk.connect("")
    client.raw(CONNECT + b"ACK\nid:1-1\n\n\0" + SENDS)
    client.session.authenticated(ANONYMOUS)
    client.session.proceed(lambda: False)
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["CONNECTED"]
    assert client.session.is_full
    desk.context.is_lease_awaited = False
    assert client.session.go_on()
    client.session.proceed(lambda: False)
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["ERROR", *["RECEIPT"] * 20]


def test_what_came_with_the_connect_stays_bytes(desk, asked) -> None:
    """
    Frames take many times as much, and ten thousand strangers may wait for their answers at once.
    """
    client = desk.connect("")
    flood = b"ACK\nid:1\n\n\0" * 5000
    client.raw(b"\n\n" + CONNECT + flood)
    session = client.session
    assert asked
    assert not session.held
    assert session.unfinished_bytes == len(flood)
    client.raw(flood)
    assert session.unfinished_bytes == 2 * len(flood)
    session.give_up()
    assert session.unfinished_bytes == 0
    assert session.protocol.unparsed_bytes == 0


def test_a_refusal_without_a_word_is_told_by_its_code(desk, asked) -> None:
    """
    Whoever checks may have nothing to say.
    """
    client = desk.connect("")
    client.raw(CONNECT)
    client.session.authenticated(AuthenticationError(""))
    desk.turn()
    (error,) = client.frames()
    assert (error.headers["message"], error.body) == ("not-authenticated", b"")
    assert client.session.is_closing
