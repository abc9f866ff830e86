"""
Message groups as a STOMP client sees them.
"""

from __future__ import annotations

import pytest

from holdfast.model.format_level import GROUPS_LEVEL

FIRST = "JMSXGroupFirstForConsumer"


@pytest.fixture
def desk(desk):
    """A leader at the level of groups."""
    desk.broker.state.format_level = GROUPS_LEVEL
    return desk


def taken(client) -> list[tuple[str, bool]]:
    """Body, and whether it is said to be the first of its group, of the messages that came."""
    client.desk.turn()
    found = [it for it in client.frames() if it.command == "MESSAGE"]
    assert all(it.headers.get(FIRST, "true") == "true" for it in found)
    return [(it.body.decode(), FIRST in it.headers) for it in found]


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_the_first_of_a_group_says_so(desk, persistent) -> None:
    """Of each group once, stored or not; what is in none says nothing, and no producer says it."""
    client = desk.connect()
    client.subscribe()
    for body, group in ((b"1", "a"), (b"2", "b"), (b"3", "a"), (b"4", "a"), (b"5", "b")):
        client.send(body, JMSXGroupID=group, persistent=persistent, **{FIRST: "true"})
    client.send(b"6", persistent=persistent, **{FIRST: "true"})
    said = {"1": True, "2": True, "3": False, "4": False, "5": False, "6": False}
    assert taken(client) == list(said.items())


def test_a_number_below_zero_ends_a_group(desk) -> None:
    """The next of its name is a first again; 0 and no number say nothing."""
    client = desk.connect()
    client.subscribe()
    for body, number in ((b"1", "1"), (b"2", "-0"), (b"3", "-1"), (b"4", "1"), (b"5", "2")):
        client.send(body, JMSXGroupID="a", JMSXGroupSeq=number)
    assert taken(client) == [("1", True), ("2", False), ("3", False), ("4", True), ("5", False)]


def test_a_group_that_was_somebody_elses_says_so(desk) -> None:
    """Also to who had it before, and read back from the log; a browser is told nothing of it."""
    one, other, producer = desk.connect(), desk.connect(), desk.connect()
    one.subscribe()
    producer.send(b"1", JMSXGroupID="a")
    assert taken(one) == [("1", True)]
    other.subscribe()
    desk.turn()
    one.say("UNSUBSCRIBE", id="s")
    assert taken(other) == [("1", True)]
    producer.send(b"2", JMSXGroupID="a")
    assert taken(other) == [("2", False)]
    one.subscribe(browser="true")
    assert [first for _, first in taken(one)] == [False, False, False]
    one.say("UNSUBSCRIBE", id="s")
    one.subscribe()
    other.leave()
    assert [body for body, _ in taken(one)] == ["1", "2"]
    producer.send(b"3", JMSXGroupID="a")
    assert taken(one) == [("3", False)]


def test_a_number_that_is_none_is_refused(desk) -> None:
    """With a sentence that names it, and the connection lives."""
    client = desk.connect()
    error = client.refusal("SEND", destination="/queue/orders", JMSXGroupID="a", JMSXGroupSeq="x")
    assert "JMSXGroupSeq: 'x' is not a number" in error.headers["message"]
    client.send(b"1", JMSXGroupID="a")
    client.subscribe()
    assert taken(client) == [("1", True)]


def test_groups_and_selectors_do_not_meet_on_a_queue_yet(desk) -> None:
    """
    Whoever came first stays: a selector is refused, or nobody has a group for himself, until all
    who select have left. A browser may select.
    """
    client = desk.connect()
    client.say("SEND", b"x", destination="/queue/a", persistent="true", JMSXGroupID="g")
    desk.turn()
    error = client.refusal("SUBSCRIBE", destination="/queue/a", id="1", selector="a = 1")
    assert error.headers["code"] == "destination"
    assert "message groups" in error.headers["message"]
    client.subscribe("/queue/a", "2", selector="JMSXGroupID = 'g'", browser="true")
    assert client.bodies() == ["x", ""]
    client.subscribe("/queue/b", "3", selector="JMSXGroupID = 'g'")
    client.say("SEND", b"y", destination="/queue/b", persistent="true", JMSXGroupID="g")
    client.say("SEND", b"z", destination="/queue/b", persistent="true", JMSXGroupID="h")
    assert client.bodies() == ["y"]
    assert desk.broker.queue("b").grouping is None
    client.subscribe("/queue/b", "4", selector="JMSXGroupID = 'h'")
    assert client.bodies() == ["z"]
    client.leave()
    other = desk.connect()
    other.subscribe("/queue/b", "1")
    assert other.bodies() == ["y", "z"]
    desk.turn()
    assert desk.broker.queue("b").grouping is None
    other.say("UNSUBSCRIBE", id="1")
    desk.broker.errands.finish()
    other.subscribe("/queue/b", "1")
    assert other.bodies() == ["y", "z"]
    assert desk.broker.queue("b").grouping is not None
