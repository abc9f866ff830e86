"""Client-ids of users: nobody else resumes, steals or deletes what is one's own (S7)."""

from __future__ import annotations

import pytest

from tests.unit.sessions.guarded import Guarded

NAMED = {"activemq.subscriptionName": "s"}
RABBIT = {"durable": "true"}


@pytest.fixture
def guarded(desk) -> Guarded:
    made = Guarded(desk)
    for name in ("ann", "eve"):
        made.add(name, ["sales"])
    made.grant("sales", "read,write", "topic://>")
    return made


def subscribed(guarded: Guarded, name: str, headers: dict[str, str], client_id: str = "c"):
    client = guarded.connect(name, **{"client-id": client_id})
    client.subscribe("/topic/t", id="s", receipt="r", **headers)
    guarded.desk.turn()
    return client


def published(guarded: Guarded, *bodies: str) -> None:
    root = guarded.connect("root")
    for body in bodies:
        root.send(body.encode(), "/topic/t")
    guarded.desk.turn()


def bodies(client) -> list[str]:
    return [it.body.decode() for it in client.frames() if it.command == "MESSAGE"]


def keys(guarded: Guarded) -> set[tuple[str, str]]:
    return set(guarded.desk.broker.state.subscriptions)


def owners(guarded: Guarded) -> dict[tuple[str, str], tuple[str, int]]:
    return {key: tuple(it.owner) for key, it in guarded.desk.broker.state.subscriptions.items()}


@pytest.mark.parametrize(
    ("headers", "key"),
    [(NAMED, ("ann:c", "s")), (RABBIT, ("ann:", "t:s"))],
    ids=["named", "by topic and id"],
)
def test_a_durable_subscription_is_its_users(guarded, headers, key) -> None:
    """Another user with the same names has one of his own, and ends that and no other."""
    ann = subscribed(guarded, "ann", headers)
    assert keys(guarded) == {key}
    ann.leave()
    guarded.desk.turn()
    published(guarded, "1")
    eve = subscribed(guarded, "eve", headers)
    assert bodies(eve) == []
    assert len(keys(guarded)) == 2
    published(guarded, "2")
    assert bodies(eve) == ["2"]
    eve.say("UNSUBSCRIBE", id="s", destination="/topic/t", **headers)
    guarded.desk.turn()
    assert keys(guarded) == {key}
    again = subscribed(guarded, "ann", headers)
    assert bodies(again) == ["1", "2"]


def test_two_users_with_one_client_id_are_not_in_each_others_way(guarded) -> None:
    """Nor does one take over the other's where links may be stolen; of one user it is one."""
    guarded.desk.context.check = guarded._check
    ann, eve = (guarded.connect(it, **{"client-id": "c"}) for it in ("ann", "eve"))
    assert ann.session.client_id == ann.session.sent_as == "ann:c"
    assert eve.session.client_id == "eve:c"
    assert ann.session.address != eve.session.address
    other = guarded.desk.connect("", login="ann")
    other.raw(b"CONNECT\naccept-version:1.2\nlogin:ann\nclient-id:c\n\n\0")
    assert b"client-id-in-use" in other.bytes()
    assert not ann.session.is_closing


def test_nobody_in_particular_has_a_client_id_that_is_a_users(guarded) -> None:
    """Though it looks like one of his own: none is in the other's way."""
    ann = guarded.connect("ann", **{"client-id": "c"})
    client = guarded.connect("", **{"client-id": "ann:c"})
    assert (client.session.client_id, client.session.given_client_id) == (":ann:c", "ann:c")
    assert not (ann.session.is_closing or client.session.is_closing)
    assert guarded.connect("", **{"client-id": "ID:host-1"}).session.client_id == ":ID:host-1"
    assert guarded.connect("eve", **{"client-id": "ann:c"}).session.client_id == "eve:ann:c"


@pytest.mark.parametrize("headers", [NAMED, RABBIT])
def test_what_was_made_before_there_were_users_goes_on(desk, headers) -> None:
    """Whoever logs in from now on finds what waits for him, under the name that it had."""
    guarded = Guarded(desk)
    guarded.remove("root")
    before = subscribed(guarded, "", headers)
    (key,) = keys(guarded)
    assert owners(guarded) == {key: ("", 0)}
    before.leave()
    desk.turn()
    published(guarded, "1")
    for name in ("root", "ann"):
        guarded.add(name, ["root"], life=8)
    ann = subscribed(guarded, "ann", headers)
    assert bodies(ann) == ["1"]
    assert owners(guarded) == {key: ("ann", 8)}
    ann.say("UNSUBSCRIBE", id="s", destination="/topic/t", **headers)
    desk.turn()
    assert keys(guarded) == set()


def test_what_is_a_users_is_not_found_by_who_writes_it_as_it_is_kept(guarded) -> None:
    """As if it had been made before there were users."""
    ann = subscribed(guarded, "ann", NAMED)
    ann.leave()
    guarded.desk.turn()
    published(guarded, "1")
    eve = subscribed(guarded, "eve", NAMED, client_id="ann:c")
    assert bodies(eve) == []
    assert keys(guarded) == {("ann:c", "s"), ("eve:ann:c", "s")}


def test_a_late_word_on_anothers_durable_subscription_is_not_taken(guarded) -> None:
    """Though its topic may be read: the id of a message can be guessed."""
    ann = subscribed(guarded, "ann", NAMED)
    published(guarded, "1")
    (message,) = [it for it in ann.frames() if it.command == "MESSAGE"]
    guarded.desk.fail_over()
    guarded.clients.clear()
    eve = guarded.connect("eve")
    refused = eve.refusal("ACK", id=message.headers["message-id"], receipt="r")
    assert refused.headers["code"] == "forbidden"
    assert "belongs to another user" in refused.headers["message"]
    ann = guarded.connect("ann")
    (answer,) = ann.ask("ACK", id=message.headers["message-id"], receipt="r")
    assert answer.command == "RECEIPT"


@pytest.mark.parametrize("topic", ["t", "t.>"])
def test_a_durable_subscription_needs_to_read_its_topic_save_to_be_ended(guarded, topic) -> None:
    """A wildcard as a whole; where the right is gone its consumer is, and it stays until ended."""
    ann = guarded.connect("ann", **{"client-id": "c"})
    ann.subscribe(f"/topic/{topic}", **NAMED)
    guarded.desk.turn()
    assert len(keys(guarded)) == 1
    guarded.grant("sales", "write", "topic://>")
    (error,) = ann.frames()
    assert (error.headers["code"], error.headers["subscription"]) == ("forbidden", "s")
    assert ann.session.subscriptions == {}
    error = ann.refusal("SUBSCRIBE", id="s", destination=f"/topic/{topic}", **NAMED)
    assert error.headers["code"] == "forbidden"
    assert error.headers["message"].startswith(f"user 'ann' may not read /topic/{topic}")
    guarded.grant("sales", "read", f"topic://{topic}")
    ann.subscribe(f"/topic/{topic}", **NAMED)
    guarded.desk.turn()
    assert ann.frames() == []
    assert len(keys(guarded)) == 1
    guarded.grant("sales", "-", f"topic://{topic}")
    ann.frames()
    answers = ann.ask("UNSUBSCRIBE", id="s", receipt="r", **NAMED)
    assert [it.command for it in answers] == ["RECEIPT"]
    assert len(keys(guarded)) == 0
