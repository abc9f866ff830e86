"""
A client that can be known again keeps the addresses at which it awaits answers.
"""

from __future__ import annotations

import pytest

from holdfast.sessions.client_ids import address_of

SECRETS = {"shown": {"holdfast_client": "secret"}, "named": {"client_id": "ann"}}


def asked(desk, **known: str):
    """A client that awaits answers, and the address that others see."""
    asker = desk.connect(**known)
    asker.subscribe("/temp-queue/answers", "a", ack="client-individual")
    asker.ask("SEND", b"?", destination="/queue/questions", reply_to="/temp-queue/answers")
    server = desk.connect()
    server.subscribe("/queue/questions", "q", ack="auto")
    desk.turn()
    (question,) = server.frames()
    return asker, server, question.headers["reply-to"]


@pytest.mark.parametrize("known", list(SECRETS.values()), ids=list(SECRETS))
def test_answers_wait_for_who_lost_its_connection(desk, known) -> None:
    """
    What it had and did not acknowledge comes again, flagged, and what came meanwhile behind it.
    """
    asker, server, address = asked(desk, **known)
    assert server.ask("SEND", b"1", destination=address, receipt="r")[0].command == "RECEIPT"
    desk.turn()
    (first,) = asker.frames()
    asker.leave()
    assert server.ask("SEND", b"2", destination=address, receipt="r")[0].command == "RECEIPT"

    again = desk.connect(**known)
    again.subscribe("/temp-queue/answers", "a", ack="client-individual")
    desk.turn()
    came = again.frames()
    assert [(it.body, it.headers.get("redelivered")) for it in came] == [
        (b"1", "true"),
        (b"2", None),
    ]
    assert {it.headers["destination"] for it in came} == {"/temp-queue/answers"}
    assert first.body == b"1"


def test_who_says_goodbye_or_cannot_be_known_again_leaves_nothing(desk) -> None:
    """
    As before: an answer is refused, with the code that says it is gone.
    """
    for known, ends in (({"client_id": "ann"}, "say"), ({}, "leave")):
        asker, server, address = asked(desk, **known)
        if ends == "say":
            asker.say("DISCONNECT")
        asker.leave()
        # In its first minute a leader takes it for one that is on its way from another.
        desk.broker.destinations.leadership.look(0, 61_000_000)
        error = server.refusal("SEND", b"!", destination=address)
        assert error.headers["code"] == "destination"
        assert "does not exist any more" in error.headers["message"]
        server.leave()


def test_after_a_failover_an_answer_may_come_before_who_asked(desk) -> None:
    """
    Under a new leader the address is the same, and is kept for who is on its way.
    """
    _, _, address = asked(desk, client_id="ann")
    desk.fail_over()
    desk.context.forget_sessions()
    server = desk.connect()
    assert server.ask("SEND", b"!", destination=address, receipt="r")[0].command == "RECEIPT"
    asker = desk.connect(client_id="ann")
    asker.subscribe("/temp-queue/answers", "a", ack="auto")
    desk.turn()
    (answer,) = asker.frames()
    assert (answer.body, answer.headers["destination"]) == (b"!", "/temp-queue/answers")


def test_nobody_else_gets_what_waits_for_a_client_that_shows_a_secret(desk) -> None:
    """
    Its name alone is no proof.
    """
    asker, _, _ = asked(desk, client_id="ann", holdfast_client="secret")
    asker.leave()
    thief = desk.connect(client_id="ann")
    error = thief.refusal("SUBSCRIBE", destination="/temp-queue/answers", id="1")
    assert "belongs to another client" in error.headers["message"]


@pytest.mark.parametrize(
    ("client_id", "address"),
    [
        ("ann", "ann"),
        ("ID:ann.1", "ID%3Aann%2E1"),
        ("a b/*>,?", "a%20b%2F%2A%3E%2C%3F"),
        ("50%", "50%25"),
        ("~x", "%7Ex"),
        ("é", "%C3%A9"),
        ("n1-2-3", "n1%2D2-3"),
        ("n1-2-3b", "n1-2-3b"),
    ],
)
def test_an_address_begins_with_the_client_id_and_is_no_connections(client_id, address) -> None:
    """
    Whatever it contains, it ends at the first dot, and is a name that may be sent to.
    """
    assert address_of(client_id, "secret") == address


def test_who_has_no_name_is_known_by_a_digest_of_its_secret() -> None:
    """
    Others see it, and do not learn the secret; a very long name is cut so, too.
    """
    shown = address_of("", "secret")
    assert (shown[0], len(shown), "secret" in shown) == ("~", 33, False)
    assert address_of("", "secret2") != shown
    assert len(address_of("x" * 300, "secret")) == 33


def test_no_client_id_gets_at_addresses_of_connections_of_any_node(desk) -> None:
    """
    A node may have dots in its name; what stands before the first is no client-id then.
    """
    desk.context.node = "db.example"
    stranger = desk.connect(client_id="db")
    stranger.subscribe("/temp-queue/example-1-2.answers", ack="auto")
    asker, server, address = asked(desk)
    assert asker.session.id == "db.example-1-2"
    assert server.ask("SEND", b"1", destination=address, receipt="r")[0].command == "RECEIPT"
    desk.turn()
    assert [it.body for it in asker.frames()] == [b"1"]
    assert stranger.frames() == []
    asker.leave()
    list(asker.session.leaving())
    (error,) = server.ask("SEND", b"2", destination=address)
    assert error.headers["code"] == "destination"


@pytest.mark.parametrize("step_count", range(1, 16))
def test_who_is_back_while_its_old_connection_is_given_back_has_all(desk, step_count) -> None:
    """
    Those that are waited for by then, and those that are still the old connection's.
    """
    names = [f"/temp-queue/a{number}" for number in range(6)]
    lost = desk.connect(client_id="ann")
    for name in names:
        lost.subscribe(name, name)
    server = desk.connect()
    for number in range(6):
        server.say("SEND", b"%d" % number, destination=f"/remote-temp-queue/ann.a{number}")
    steps = lost.session.leaving()
    for _ in range(step_count):
        next(steps, None)
    again = desk.connect(client_id="ann")
    for name in names:
        again.subscribe(name, name)
    desk.turn()
    list(steps)
    assert sorted(again.bodies()) == [str(number) for number in range(6)]
    again.leave()
    list(again.session.leaving())
    assert desk.broker.temporaries.count_of(again.session) == 0
