"""
A client of a port for several protocols, until it is known which one it speaks.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from holdfast.protocols.detect import by_words
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import CLIENT_COMMANDS
from holdfast.sessions.registration import Arrival, Registration
from holdfast.sessions.stomp import StompSession
from holdfast.sessions.undecided import SILENT_SECONDS_MAX, Undecided, begin

CONNECT = b"CONNECT\naccept-version:1.2\n\n\0"


def accept(arrival: Arrival) -> StompSession:
    return StompSession(
        arrival.broker,
        arrival.context,
        StompSettings(),
        arrival.read_message,
        opened_at=arrival.opened_at,
    )


STOMP = Registration("STOMP", by_words(CLIENT_COMMANDS, b"\r\n"), accept)
OTHER = Registration("OTHER", by_words([b"other"], b"\n"), accept)


@pytest.fixture
def arrival(desk) -> Arrival:
    return Arrival(desk.broker, desk.context, desk.read_message, 5.0)


@pytest.fixture
def client(arrival) -> SimpleNamespace:
    session = begin((STOMP, OTHER), arrival)
    assert isinstance(session, Undecided)
    session.room_bytes = 7
    made = SimpleNamespace(session=session, undecided=session)
    session.connection = made
    return made


def test_a_port_for_one_protocol_decides_nothing(arrival) -> None:
    """
    The session is there from the first byte, whatever that is.
    """
    assert isinstance(begin((STOMP,), arrival), StompSession)


def test_the_right_session_takes_its_place_with_all_that_came(client) -> None:
    """
    As if it had been there from the beginning, a byte at a time.
    """
    for at in range(len(CONNECT)):
        client.session.receive(b"\n" * 100 * (at == 0) + CONNECT[at : at + 1])
        assert client.undecided.unfinished_bytes < 10
    session = client.session
    assert isinstance(session, StompSession)
    assert session.is_connected
    assert (session.connection, session.room_bytes) == (client, 7)
    assert b"".join(session.out).startswith(b"CONNECTED\n")
    assert client.undecided.connection is None
    # Its time to connect began with the socket.
    assert accept(client.undecided._arrival).deadline == 5.0 + 30.0


def test_bytes_of_no_protocol_end_with_a_sentence(client, desk) -> None:
    """
    In plain text, once, and the operator is told; what comes behind them is not looked at.
    """
    told: list[tuple[str, str]] = []
    desk.context.refusals.tell = lambda session, code, text: told.append((code, text))
    assert client.session.receive(b"\x16\x03\x01")
    assert client.session.receive(CONNECT)
    assert client.session is client.undecided
    assert client.session.is_closing
    assert desk.context.dirty == [client.session]
    (line,) = client.session.out
    assert line == told[0][1].encode() + b"\n"
    assert b"TLS" in line
    assert told[0][0] == "unknown-protocol"


def test_who_says_nothing_is_dead_when_a_stomp_client_would_be(client) -> None:
    """
    Line ends only are nothing said.
    """
    session = client.session
    session.receive(b"\n")
    session.note_received(20.0)
    assert session.received_at == 20.0
    assert session.deadline == 5.0 + SILENT_SECONDS_MAX
    assert StompSettings().connect_timeout_seconds == SILENT_SECONDS_MAX
    assert session.handle_deadline(34.0) == b""
    assert session.handle_deadline(35.0) is None


def test_who_is_sent_away_reads_why(client) -> None:
    """
    It holds nothing, so nothing is given back.
    """
    session = client.session
    session.farewell("the node ends", "going")
    session.leave()
    session.recount_room()
    assert session.out == [b"the node ends\n"]
    assert session.is_closing
    assert session.held_count == 0
    assert session.protocol_name == "undecided"


def test_nobody_is_given_what_it_did_not_ask_for(client) -> None:
    """
    That would be a mistake of ours.
    """
    for wrong in (
        lambda: client.session.deliver(None, 1, None, redelivered=False),
        lambda: client.session.reply(b"r"),
        lambda: client.session.confirm(b"r"),
    ):
        with pytest.raises(AssertionError):
            wrong()
