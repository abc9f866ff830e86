"""
One connection at a time has a client-id.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving.access_book import AccessBook
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import RemoteProtocolError
from holdfast.model.access_records import UserRecord
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.security.principal import ANONYMOUS, Principal
from holdfast.sessions.client_ids import (
    introduce,
    let_go,
    own_of,
)


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


def test_where_links_may_be_stolen_the_last_to_connect_has_the_client_id(desk) -> None:
    """
    As ActiveMQ's `allowLinkStealing`: whoever had it is told, and closed; also a client of ours,
    which shows that it is somebody else.
    """
    desk.stomp = StompSettings(allow_link_stealing=True)
    first = desk.connect(client_id="mine")
    second = desk.connect(client_id="mine", holdfast_client="secret")
    third = desk.connect(client_id="mine")
    for client in (first, second):
        (farewell,) = client.frames()
        assert (farewell.command, farewell.headers["code"]) == ("ERROR", "client-id-in-use")
        assert "taken by another connection" in farewell.headers["message"]
        assert client.session.is_closing
        client.leave()
    assert desk.context.client_ids == {"mine": third.session}


def given(desk, client, count: int) -> list[str]:
    """The ids of so many messages that a client has."""
    for number in range(count):
        client.send(b"%d" % number)
    client.subscribe(activemq__prefetchSize="1000")
    desk.turn()
    return [each.headers["message-id"] for each in client.frames() if each.command == "MESSAGE"]


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_client_of_ours_has_what_its_lost_connection_had(desk, is_noticed) -> None:
    """
    Its own late words were refused, "delivered to somebody else", until the old one was gone.

    Whether the node has heard that it is lost, and has not come to give back what it held, or not.
    """
    first = desk.connect(holdfast_client="secret")
    ids = given(desk, first, 200)
    first.say("BEGIN", transaction="t")
    for each in ids[:100]:
        first.say("ACK", id=each, transaction="t")
    if is_noticed:
        let_go(first.session, desk.context)
    second = desk.connect(holdfast_client="secret")
    assert not first.session.subscriptions
    assert not first.session.transactions
    for each in (ids[0], ids[150]):
        assert second.ask("ACK", id=each, receipt="r")[0].command == "RECEIPT"
    second.say("BEGIN", transaction="t")
    second.say("ACK", id=ids[1], transaction="t")
    assert second.ask("COMMIT", transaction="t", receipt="r")[0].command == "RECEIPT"
    assert desk.broker.queue("orders").index.live_count == 197
    first.leave()
    third = desk.connect(holdfast_client="secret")
    assert not third.session.holdings.rollback
    assert second.session.is_closing


def test_what_a_client_of_ours_says_waits_for_what_it_had(desk) -> None:
    """
    It may be much, and is given back in steps.
    """
    first = desk.connect(holdfast_client="secret")
    for number in range(300):
        first.subscribe(f"/queue/{number}", id=str(number))
    second = desk.connect("")
    hello = b"CONNECT\naccept-version:1.2\nhost:h\nholdfast-client:secret\n\n\0"
    assert not second.session.receive(hello + b"ACK\nid:none\n\n\0", lambda: True)
    for _ in range(3):
        assert not second.session.proceed(lambda: True)
    assert first.session.subscriptions
    assert [each.command for each in second.frames()] == ["CONNECTED"]
    assert second.session.proceed(lambda: False)
    assert not first.session.subscriptions
    assert [each.command for each in second.frames()] == ["ERROR"]
    first.leave()
    second.leave()
    assert not desk.context.shown_by


def test_many_connections_without_a_client_id_are_fine(desk) -> None:
    """
    Most clients have none; an empty one is none.
    """
    for _ in range(3):
        assert answer_to(desk, client_id="")[0].command == "CONNECTED"
    for _ in range(2):
        assert answer_to(desk, holdfast_client="same")[0].command == "CONNECTED"


@pytest.mark.parametrize("name", ["client_id", "shown"])
def test_a_client_id_is_kept_and_so_bounded(desk, name) -> None:
    """
    It is kept as long as the connection, and with what it had.
    """
    session = desk.connect("").session
    with pytest.raises(RemoteProtocolError, match="1,025 bytes"):
        introduce(session, desk.context, **{"client_id": "", "shown": "", name: "x" * 1025})
    said = introduce(session, desk.context, **{"client_id": "", "shown": "", name: "x" * 1024})
    assert said.known_by.endswith("x" * 1024)
    assert said.lost == ()


def test_each_user_has_client_ids_of_his_own() -> None:
    """
    Known with his name before them. Who is nobody in particular has them as he gives them, while
    there are users behind a mark where they might be taken for a user's.
    """
    state = BrokerState(BrokerSettings())
    book, ann = AccessBook(state), Principal("ann")
    assert [own_of(it, ANONYMOUS, book) for it in ("c", "ann:c", "")] == ["c", "ann:c", ""]
    state.apply(1, [UserRecord("ann", "{}", 1)], 1)
    assert own_of("c", ann, book) == "ann:c"
    assert own_of("", ann, book) == ""
    told = [own_of(it, ANONYMOUS, book) for it in ("c", "ann:c", "ID:c", ":c", "")]
    assert told == ["c", ":ann:c", ":ID:c", "::c", ""]
    assert own_of("c", Principal("a:n%"), book) == "a%3An%25:c"
