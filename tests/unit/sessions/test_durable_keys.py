"""
By what a client's words mean a durable subscription, where some are nobody's yet.
"""

from __future__ import annotations

import pytest

from holdfast.model.access_records import AuditRecord
from holdfast.model.format_level import ACCESS_LEVEL, NEWEST_LEVEL
from holdfast.security.principal import Principal
from holdfast.store.record_codec import decode_records
from tests.unit.sessions.guarded import Guarded
from tests.unit.sessions.test_foreign_client_ids import (
    NAMED,
    bodies,
    keys,
    owners,
    published,
    subscribed,
)


@pytest.fixture
def upgraded(desk):
    """What was made before there were users, by this client-id, with a message that waits."""

    def make(client_id: str, **life: int) -> Guarded:
        guarded = Guarded(desk)
        guarded.remove("root")
        before = subscribed(guarded, "", NAMED, client_id)
        before.leave()
        desk.turn()
        published(guarded, "waits since before")
        guarded.add("root", ["root"])
        for name in ("ann", "eve"):
            guarded.add(name, ["sales"], life=life.get(name, 0))
        guarded.grant("sales", "read,write", "topic://>")
        return guarded

    return make


def noted(guarded: Guarded) -> list[tuple[str, str, str]]:
    """Who is told to have done what in the log."""
    records = [it for _, _, body in guarded.desk.log for it in decode_records(body)]
    return [(it.who, it.action, it.object) for it in records if isinstance(it, AuditRecord)]


@pytest.mark.parametrize("client_id", ["shop", "ID:host-1-2", "app:1"])
@pytest.mark.parametrize("has_authorities", [False, True])
def test_who_comes_first_has_it_from_then_on_and_nobody_else(
    upgraded, client_id, has_authorities
) -> None:
    """
    Whatever its client-id looks like, also where anybody's name may be somebody's.
    """
    guarded = upgraded(client_id, ann=7)
    guarded.desk.broker.access_book.has_authorities = has_authorities
    ann = subscribed(guarded, "ann", NAMED, client_id)
    assert bodies(ann) == ["waits since before"]
    assert owners(guarded) == {(client_id, "s"): ("ann", 7)}
    assert noted(guarded) == [("ann", "take up subscription", f"{client_id} s")]
    eve = subscribed(guarded, "eve", NAMED, client_id)
    assert bodies(eve) == []
    assert keys(guarded) == {(client_id, "s"), (f"eve:{client_id}", "s")}
    ann.leave()
    guarded.desk.turn()
    guarded.desk.fail_over()
    guarded.clients.clear()
    guarded.desk.broker.state.format_level = NEWEST_LEVEL
    published(guarded, "later")
    assert bodies(subscribed(guarded, "ann", NAMED, client_id))[-1] == "later"
    assert len(noted(guarded)) == 1


def test_what_may_be_another_users_waits_for_him_or_an_operators_word(upgraded) -> None:
    """
    Its client-id begins with his name: it may be of a version that had no other way to say it.
    """
    guarded = upgraded("ann:c", ann=7)
    eve = guarded.connect("eve", **{"client-id": "ann:c"})
    refused = eve.refusal("SUBSCRIBE", id="s", destination="/topic/t", receipt="r", **NAMED)
    assert refused.headers["code"] == "forbidden"
    assert "holdfast subscriptions give" in refused.headers["message"]
    refused = eve.refusal("UNSUBSCRIBE", id="s", receipt="r", **NAMED)
    assert refused.headers["code"] == "forbidden"
    assert owners(guarded) == {("ann:c", "s"): ("", 0)}
    assert bodies(subscribed(guarded, "ann", NAMED)) == ["waits since before"]
    assert owners(guarded) == {("ann:c", "s"): ("ann", 7)}


def test_nobody_takes_up_what_its_topic_may_not_be_read_of(upgraded) -> None:
    """
    To subscribe to something else by its names would end it.
    """
    guarded = upgraded("shop")
    guarded.grant("sales", "-", "topic://>")
    guarded.grant("sales", "read", "topic://other")
    ann = guarded.connect("ann", **{"client-id": "shop"})
    refused = ann.refusal("SUBSCRIBE", id="s", destination="/topic/other", receipt="r", **NAMED)
    assert "may not read /topic/t" in refused.headers["message"]
    assert owners(guarded) == {("shop", "s"): ("", 0)}


def test_a_name_that_is_given_again_has_nothing_of_the_one_before(upgraded) -> None:
    """
    It is told so, and gets what an operator gives.
    """
    guarded = upgraded("shop", ann=7)
    subscribed(guarded, "ann", NAMED, "shop")
    guarded.remove("ann")
    guarded.add("ann", ["sales"], life=8)
    again = guarded.connect("ann", **{"client-id": "shop"})
    refused = again.refusal("SUBSCRIBE", id="s", destination="/topic/t", receipt="r", **NAMED)
    assert "left by an earlier user 'ann'" in refused.headers["message"]
    assert owners(guarded) == {("shop", "s"): ("ann", 7)}


def test_before_every_member_can_read_it_nothing_is_said_of_owners(upgraded) -> None:
    """
    A user's own is known by its client-id until then, and is his when he comes after that.
    """
    guarded = upgraded("shop", ann=7)
    guarded.desk.broker.state.format_level = ACCESS_LEVEL
    subscribed(guarded, "ann", NAMED, "shop").leave()
    subscribed(guarded, "eve", NAMED, "new").leave()
    guarded.desk.turn()
    nobodys = ("", 0)
    assert owners(guarded) == {("shop", "s"): nobodys, ("eve:new", "s"): nobodys}
    guarded.desk.broker.state.format_level = NEWEST_LEVEL
    assert bodies(subscribed(guarded, "ann", NAMED, "shop")) == ["waits since before"]
    subscribed(guarded, "eve", NAMED, "new")
    assert owners(guarded) == {("shop", "s"): ("ann", 7), ("eve:new", "s"): ("eve", 0)}


def test_who_is_nobody_in_particular_takes_up_nothing_for_himself(upgraded, desk) -> None:
    """
    What is nobody's he shares with everybody; what is somebody's he is refused.
    """
    guarded = upgraded("ID:host-1", ann=7)
    guest = Principal("", frozenset({"sales"}))
    desk.context.check = lambda session, said: guarded._check(session, said) if said[0] else guest
    client = subscribed(guarded, "", NAMED, "ID:host-1")
    assert bodies(client) == ["waits since before"]
    assert owners(guarded) == {("ID:host-1", "s"): ("", 0)}
    client.leave()
    desk.turn()
    subscribed(guarded, "ann", NAMED, "ID:host-1").leave()
    client = guarded.connect("", **{"client-id": "ID:host-1"})
    refused = client.refusal("SUBSCRIBE", id="s", destination="/topic/t", receipt="r", **NAMED)
    assert "belongs to another user, and who is not logged in" in refused.headers["message"]
