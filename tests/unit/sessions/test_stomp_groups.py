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


def test_a_group_goes_to_who_selects_what_comes_next(desk) -> None:
    """
    Q6: to nobody else while somebody has something of it, who is told that it is a first one for
    him whenever somebody else had it since; a browser selects beside that.
    """
    one, other, producer = desk.connect(), desk.connect(), desk.connect()
    one.subscribe(selector="kind = 'a'", ack="client-individual")
    other.subscribe(selector="kind = 'b'", ack="client-individual")
    for body, kind in ((b"1", "a"), (b"2", "a"), (b"3", "b"), (b"4", "a")):
        producer.send(body, JMSXGroupID="g", kind=kind)
    said = []
    for client in (one, other, one):
        desk.turn()
        frames = [it for it in client.frames() if it.command == "MESSAGE"]
        said.append([(it.body, FIRST in it.headers) for it in frames])
        browser = desk.connect()
        browser.subscribe(selector="JMSXGroupID = 'g'", browser="true")
        assert len(browser.bodies()) == 5 - sum(map(len, said[:-1]))
        browser.leave()
        for it in frames:
            client.say("ACK", id=it.headers["ack"])
    assert said == [[(b"1", True), (b"2", False)], [(b"3", True)], [(b"4", True)]]


def test_who_alone_gets_messages_is_told_of_first_ones(desk) -> None:
    """Of groups that others had before, and of those that are new."""
    one, only, producer = desk.connect(), desk.connect(), desk.connect()
    one.subscribe(ack="auto")
    producer.send(b"1", JMSXGroupID="a")
    assert taken(one) == [("1", True)]
    only.subscribe(activemq__exclusive="true")
    producer.send(b"2", JMSXGroupID="a")
    producer.send(b"3", JMSXGroupID="b")
    producer.send(b"4", JMSXGroupID="a")
    assert taken(only) == [("2", True), ("3", True), ("4", False)]


@pytest.mark.parametrize("is_held", [False, True])
def test_groups_are_whose_they_were_when_all_who_select_have_left(desk, is_held: bool) -> None:
    """Each is one consumer's, from the first message on; also where somebody has some of one."""
    producer, *clients = (desk.connect() for _ in range(4))
    clients[0].subscribe(selector="a = 'b'")
    desk.turn()
    for number in range(6):
        producer.send(b"%d" % number, JMSXGroupID="g")
    clients[1].subscribe(activemq__prefetchSize="1" if is_held else "2")
    if is_held:
        assert clients[1].bodies() == ["0"]
    clients[2].subscribe(activemq__prefetchSize="2")
    clients[0].say("UNSUBSCRIBE", id="s")
    got = [client.bodies() for client in clients[1:]]
    assert sorted(got) == ([[], []] if is_held else [[], ["0", "1"]])
    assert desk.broker.queue("orders").sifting is None
    clients[1].leave()
    clients[2].leave()
    desk.broker.errands.finish()
    desk.turn()
    last = desk.connect()
    last.subscribe()
    assert last.bodies() == [f"{number}" for number in range(6)]


def test_who_takes_from_many_and_acknowledges_nothing_gets_groups_too(desk) -> None:
    """
    To ask such a one for room is to give it one: it may have been its last of this turn.
    """
    client = desk.connect()
    client.subscribe("/queue/a.*", ack="auto")
    desk.turn()
    for number in range(400):
        for name in ("a.1", "a.2"):
            client.send(b"x", f"/queue/{name}", JMSXGroupID=f"{name}-{number}")
    assert len(client.bodies()) == 800
    assert not desk.broker.broken
