"""
One connection at a time has a client-id.
"""

from __future__ import annotations

import pytest

from holdfast.errors import RemoteProtocolError
from holdfast.sessions.client_ids import introduce


def answer_to(desk, **headers: str):
    """What a CONNECT with these headers gets, and its session."""
    client = desk.connect("")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}:{value}\n" for name, value in named.items())
    client.raw(f"CONNECT\naccept-version:1.2\nhost:h\n{lines}\n\x00".encode())
    (frame,) = client.frames()
    return frame, client.session


def test_a_second_connection_with_the_same_client_id_is_refused(desk) -> None:
    """
    As ActiveMQ does; the first one lives on and keeps it.
    """
    first = desk.connect(client_id="mine")
    error, session = answer_to(desk, client_id="mine")
    assert (error.command, error.headers["code"]) == ("ERROR", "client-id-in-use")
    assert "'mine'" in error.headers["message"]
    assert session.is_closing
    session.leave()
    assert answer_to(desk, client_id="mine")[0].command == "ERROR"
    assert answer_to(desk, client_id="other")[0].command == "CONNECTED"
    assert not first.session.is_closing
    assert first.ask("SEND", destination="/queue/a", receipt="r")[0].command == "RECEIPT"


def test_a_client_id_is_free_once_its_connection_is_gone(desk) -> None:
    """
    Lost, closed by DISCONNECT, or about to be closed for a broken rule.
    """
    desk.connect(client_id="mine").leave()
    client = desk.connect(client_id="mine")
    client.say("DISCONNECT")
    client = desk.connect(client_id="mine")
    client.raw(b"NONSENSE\n\n\x00")
    last = desk.connect(client_id="mine")
    client.leave()
    assert desk.context.client_ids == {"mine": last.session}
    desk.context.forget_sessions()
    assert answer_to(desk, client_id="mine")[0].command == "CONNECTED"


def test_a_client_of_ours_takes_its_client_id_from_its_lost_connection(desk) -> None:
    """
    It shows that it is the same one: a connection that died without a word does not keep it out.
    """
    first = desk.connect(client_id="mine", holdfast_client="secret")
    assert answer_to(desk, client_id="mine", holdfast_client="guess")[0].command == "ERROR"
    assert answer_to(desk, client_id="mine")[0].command == "ERROR"
    assert answer_to(desk, client_id="mine", holdfast_client="secret")[0].command == "CONNECTED"
    (farewell,) = first.frames()
    assert (farewell.command, farewell.headers["code"]) == ("ERROR", "client-id-in-use")
    assert first.session.is_closing


def test_many_connections_without_a_client_id_are_fine(desk) -> None:
    """
    Most clients have none; an empty one is none.
    """
    for _ in range(3):
        assert answer_to(desk, client_id="")[0].command == "CONNECTED"
    for _ in range(2):
        assert answer_to(desk, holdfast_client="same")[0].command == "CONNECTED"


@pytest.mark.parametrize("header", ["client-id", "holdfast-client"])
def test_a_client_id_is_kept_and_so_bounded(desk, header) -> None:
    """
    It is kept as long as the connection, and with what it had.
    """
    session = desk.connect("").session
    with pytest.raises(RemoteProtocolError, match="1,025 bytes"):
        introduce(session, {header: "x" * 1025})
    assert introduce(session, {header: "x" * 1024})
