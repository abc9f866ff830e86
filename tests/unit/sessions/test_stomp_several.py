"""
SUBSCRIBE to several queues and topics: one subscription, its parts in turns, one order for ACK.
"""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.wildcards import parse_pattern


@pytest.fixture
def desk(desk):
    desk.broker.state.format_level = NEWEST_LEVEL
    return desk


def fill(desk, *names: str, count: int = 3, persistent: str = "true") -> None:
    """Put so many messages on each, one after the other on all."""
    producer = desk.connect()
    for number in range(count):
        for name in names:
            body = f"{name.rpartition('/')[2]}{number}".encode()
            producer.say("SEND", body, destination=name, persistent=persistent)
    desk.turn()
    assert producer.frames() == []


def messages(client) -> list:
    client.desk.turn()
    frames = client.frames()
    assert [frame for frame in frames if frame.command == "ERROR"] == []
    return [frame for frame in frames if frame.command == "MESSAGE"]


def left_on(desk, *names: str) -> dict[str, int]:
    return {name: desk.broker.destinations.existing(name).index.live_count for name in names}


def test_a_wildcard_gets_what_is_on_all_queues_that_match(desk) -> None:
    """
    `*` is one part and `>` the rest, also none; each message says on which queue it was, under the
    one id of the subscription, and comes once.
    """
    fill(desk, "/queue/A", "/queue/A.b", "/queue/A.b.c", "/queue/B.b", "/topic/A.b", count=1)
    client = desk.connect()
    client.subscribe("/queue/A.*", id="one", ack="auto")
    client.subscribe("/queue/>", id="none", ack="client")
    found = [(it.headers["destination"], it.headers["subscription"]) for it in messages(client)]
    assert ("/queue/A.b", "one") in found
    assert {name for name, _ in found} == {"/queue/A", "/queue/A.b", "/queue/A.b.c", "/queue/B.b"}
    assert len(found) == 4
    rest = desk.connect()
    client.leave()
    rest.subscribe("/queue/A.>", ack="client-individual")
    found = sorted(it.headers["destination"] for it in messages(rest))
    assert found == ["/queue/A", "/queue/A.b.c"]


def test_new_queues_and_topics_are_joined_at_once(desk) -> None:
    """
    What is sent to a queue or topic that did not exist comes to those whose wildcard means it.
    """
    client = desk.connect()
    client.subscribe("/queue/N.*", id="q", ack="auto", receipt="r")
    client.subscribe("/topic/N.>", id="t", ack="auto")
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["RECEIPT"]
    producer = desk.connect()
    producer.send(b"1", "/queue/N.x")
    producer.say("SEND", b"2", destination="/topic/N.y.z")
    producer.say("SEND", b"3", destination="/topic/N")
    producer.send(b"4", "/queue/N.x.y")
    found = {
        (it.headers["subscription"], it.body, it.headers["destination"]) for it in messages(client)
    }
    assert found == {
        ("q", b"1", "/queue/N.x"),
        ("t", b"2", "/topic/N.y.z"),
        ("t", b"3", "/topic/N"),
    }


@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
def test_queues_have_their_turns_though_one_is_deep(desk, ack: str) -> None:
    """
    Of a hundred messages on one queue and three on each of two others, those of the others are
    among the first: no queue holds up another.
    """
    fill(desk, "/queue/W.deep", count=100)
    fill(desk, "/queue/W.a", "/queue/W.b", count=3)
    client = desk.connect()
    client.subscribe("/queue/W.*", ack=ack, activemq__prefetchSize="200")
    found = [it.headers["destination"] for it in messages(client)]
    assert Counter(found) == {"/queue/W.deep": 100, "/queue/W.a": 3, "/queue/W.b": 3}
    assert set(found[:40]) == {"/queue/W.deep", "/queue/W.a", "/queue/W.b"}


def test_with_a_prefetch_of_one_queues_take_strict_turns(desk) -> None:
    """
    Each acknowledgement lets that queue go next that was served longest ago; never are two out.
    """
    fill(desk, "/queue/W.a", "/queue/W.b", "/queue/W.c", count=3)
    client = desk.connect()
    client.subscribe("/queue/W.*", ack="client-individual", activemq__prefetchSize="1")
    order = []
    for _ in range(9):
        (frame,) = messages(client)
        order.append(frame.headers["destination"][-1])
        client.say("ACK", id=frame.headers["ack"])
    assert messages(client) == []
    assert [set(order[start : start + 3]) for start in (0, 3, 6)] == [{"a", "b", "c"}] * 3
    assert left_on(desk, "W.a", "W.b", "W.c") == {"W.a": 0, "W.b": 0, "W.c": 0}


def test_all_parts_share_the_prefetch(desk) -> None:
    """
    No more than the prefetch is out, over all queues and topics together.
    """
    fill(desk, *(f"/queue/P.{number}" for number in range(20)), count=5)
    client = desk.connect()
    client.subscribe("/queue/P.>,/topic/p", ack="client", activemq__prefetchSize="7")
    assert len(messages(client)) == 7
    fill(desk, "/topic/p", "/queue/P.new", count=2, persistent="false")
    assert messages(client) == []


def test_a_cumulative_ack_settles_in_the_order_of_delivery_over_all_queues(desk) -> None:
    """
    Everything that was delivered before the named one is settled, on whichever queue it was, and
    nothing that was delivered after it.
    """
    names = [f"C.{name}" for name in "abc"]
    fill(desk, *(f"/queue/{name}" for name in names), count=40)
    client = desk.connect()
    client.subscribe("/queue/C.*", ack="client", activemq__prefetchSize="90")
    found = messages(client)
    assert len(found) == 90
    before = found[:50]
    client.say("ACK", id=before[-1].headers["ack"])
    settled = Counter(it.headers["destination"].removeprefix("/queue/") for it in before)
    assert len(settled) > 1
    more = messages(client)
    assert left_on(desk, *names) == {name: 40 - settled[name] for name in names}
    assert len(more) == 30
    client.say("ACK", id=(found + more)[-1].headers["ack"])
    desk.turn()
    assert left_on(desk, *names) == dict.fromkeys(names, 0)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_messages_are_acknowledged_by_their_ids_before_1_2(desk, version: str) -> None:
    """
    A message id has its queue's number: what was delivered before it is settled on all queues.
    """
    fill(desk, "/queue/V.a", "/queue/V.b", count=2)
    client = desk.connect(version)
    client.subscribe("/queue/V.*", ack="client")
    found = messages(client)
    assert len(found) == 4
    client.say("ACK", message_id=found[2].headers["message-id"], subscription="s")
    assert messages(client) == []
    left = left_on(desk, "V.a", "V.b")
    assert sum(left.values()) == 1
    assert left[found[3].headers["destination"].removeprefix("/queue/")] == 1


def test_a_rolled_back_transaction_keeps_the_order_over_queues(desk) -> None:
    """
    After ABORT the deliveries stand where they stood: a cumulative ACK of the first settles the
    first alone, though a later one of another queue was in the transaction as well.
    """
    fill(desk, "/queue/T.a", "/queue/T.b", count=40)
    client = desk.connect()
    client.subscribe("/queue/T.*", ack="client", activemq__prefetchSize="100")
    found = messages(client)
    assert len({it.headers["destination"] for it in found[:40]}) == 2
    client.say("BEGIN", transaction="t")
    client.say("ACK", id=found[39].headers["ack"], transaction="t")
    client.say("ABORT", transaction="t")
    assert messages(client) == []
    client.say("ACK", id=found[0].headers["ack"])
    assert messages(client) == []
    assert sum(left_on(desk, "T.a", "T.b").values()) == 79
    client.say("ACK", id=found[39].headers["ack"])
    assert messages(client) == []
    assert sum(left_on(desk, "T.a", "T.b").values()) == 40


def test_a_committed_transaction_settles_over_queues(desk) -> None:
    """
    A cumulative ACK in a transaction takes all before it along, and COMMIT settles them.
    """
    fill(desk, "/queue/T.a", "/queue/T.b", count=20)
    client = desk.connect()
    client.subscribe("/queue/T.*", ack="client", activemq__prefetchSize="100")
    found = messages(client)
    client.say("BEGIN", transaction="t")
    client.say("ACK", id=found[-1].headers["ack"], transaction="t")
    client.say("COMMIT", transaction="t", receipt="r")
    desk.turn()
    assert [it.command for it in client.frames()] == ["RECEIPT"]
    assert left_on(desk, "T.a", "T.b") == {"T.a": 0, "T.b": 0}


def test_what_a_lost_subscription_had_comes_again_in_its_order(desk) -> None:
    """
    Flagged, from the queues' heads, to whoever comes next.
    """
    fill(desk, "/queue/L.a", "/queue/L.b", count=3)
    client = desk.connect()
    client.subscribe("/queue/L.*", ack="client")
    assert len(messages(client)) == 6
    client.leave()
    other = desk.connect()
    other.subscribe("/queue/L.a", ack="client")
    found = messages(other)
    assert [it.body for it in found] == [b"L.a0", b"L.a1", b"L.a2"]
    assert {it.headers["redelivered"] for it in found} == {"true"}


def test_unsubscribe_ends_all_parts(desk) -> None:
    """
    By the id; nothing comes any more, also not from what would be joined, and nothing is kept.
    """
    fill(desk, "/queue/U.a", "/topic/U.a", count=1)
    client = desk.connect()
    client.subscribe("/queue/U.*,/topic/U.>", ack="client")
    assert len(messages(client)) == 1
    client.say("UNSUBSCRIBE", id="s", receipt="r")
    desk.turn()
    assert [it.command for it in client.frames()] == ["RECEIPT"]
    fill(desk, "/queue/U.a", "/queue/U.b", "/topic/U.a", count=1)
    assert messages(client) == []
    assert client.session.holdings.by_ordinal == {}
    assert desk.broker.flow.subscription_count == desk.broker.flow.subscription_bytes == 0
    assert not desk.broker.destinations.leadership.wildcards
    client.subscribe("/queue/U.a", id="s", ack="auto")
    assert len(messages(client)) == 2


def test_in_stomp_1_0_it_is_ended_by_its_destination(desk) -> None:
    """
    As it was written, spaces aside.
    """
    client = desk.connect("1.0")
    client.say("SUBSCRIBE", destination="/queue/a, /queue/b.*")
    desk.turn()
    client.say("UNSUBSCRIBE", destination="/queue/a,/queue/b.*")
    desk.turn()
    assert client.frames() == []
    assert client.session.subscriptions == {}


def test_a_deleted_queue_is_left_and_its_messages_acknowledged_in_vain(desk) -> None:
    """
    Who came by a wildcard does not keep an operator from deleting it; what he has of it he may
    acknowledge as ever, and when it is made again he is there.
    """
    fill(desk, "/queue/D.a", "/queue/D.b", count=2)
    client = desk.connect()
    client.subscribe("/queue/D.*", ack="client-individual", activemq__prefetchSize="4")
    found = {it.body: it for it in messages(client)}
    assert len(found) == 4
    desk.broker.operating.delete("D.a", client.session, b"deleted")
    desk.turn()
    client.frames()
    for frame in found.values():
        client.say("ACK", id=frame.headers["ack"])
    assert messages(client) == []
    fill(desk, "/queue/D.a", "/queue/D.b", count=2)
    assert len(messages(client)) == 4
    assert left_on(desk, "D.a", "D.b") == {"D.a": 2, "D.b": 2}


def test_a_nack_is_about_its_own_queue(desk) -> None:
    """
    Each queue's policies hold for what is rejected of it: here it goes to the dead-letter queue.
    """
    fill(desk, "/queue/K.a", "/queue/K.b", count=1)
    client = desk.connect()
    client.subscribe("/queue/K.*", ack="client-individual")
    for frame in messages(client):
        client.say("NACK", id=frame.headers["ack"])
    assert messages(client) == []
    client.subscribe("/queue/ActiveMQ.DLQ", id="dead", ack="auto")
    origins = {it.headers["original-destination"] for it in messages(client)}
    assert origins == {"/queue/K.a", "/queue/K.b"}


def test_several_are_named_one_by_one(desk) -> None:
    """
    Queues and topics with commas between, doubles once; queues are declared.
    """
    client = desk.connect()
    client.subscribe("/queue/a, topic://b,queue://c,/queue/a,/queue/d.>", ack="auto", receipt="r")
    desk.turn()
    assert [it.command for it in client.frames()] == ["RECEIPT"]
    assert {"a", "c"} <= desk.broker.state.by_name.keys()
    fill(desk, "/queue/a", "/topic/b", "/queue/c", "/queue/d.e", count=1)
    found = sorted(it.headers["destination"] for it in messages(client))
    assert found == ["/queue/a", "/queue/c", "/queue/d.e", "/topic/b"]


def test_a_selector_is_asked_on_each_queue(desk) -> None:
    """
    Also on one that comes later; what it does not select stays.
    """
    producer = desk.connect()
    for name in ("S.a", "S.b"):
        for colour in ("red", "blue"):
            producer.send(colour.encode(), f"/queue/{name}", colour=colour)
    client = desk.connect()
    client.subscribe("/queue/S.*,/topic/S", ack="auto", selector="colour = 'red'")
    assert [it.body for it in messages(client)] == [b"red", b"red"]
    for colour in ("red", "blue"):
        producer.send(colour.encode(), "/queue/S.c", colour=colour)
        producer.say("SEND", colour.encode(), destination="/topic/S", colour=colour)
    assert [it.body for it in messages(client)] == [b"red", b"red"]
    assert left_on(desk, "S.a", "S.b", "S.c") == {"S.a": 1, "S.b": 1, "S.c": 1}


def test_an_exclusive_wildcard_is_the_only_one_on_each_queue(desk) -> None:
    """
    It claims before others on every queue for itself, as ActiveMQ has it.
    """
    client, other = desk.connect(), desk.connect()
    client.subscribe("/queue/X.*", ack="auto", activemq__exclusive="true")
    other.subscribe("/queue/X.a", ack="auto")
    fill(desk, "/queue/X.a", "/queue/X.b", count=5)
    assert len(messages(client)) == 10
    assert messages(other) == []


def test_groups_stay_with_one_consumer_on_each_queue(desk) -> None:
    """
    Two who subscribe to all queues share the groups of each; the order within one holds, though
    the prefetch is small and shared with other queues.
    """
    clients = [desk.connect(client_id=f"c{number}") for number in range(2)]
    for client in clients:
        client.subscribe("/queue/G.*", ack="client-individual", activemq__prefetchSize="3")
    desk.turn()
    producer = desk.connect()
    for number in range(20):
        for name in ("G.a", "G.b"):
            for group in "xyz":
                producer.send(b"%d" % number, f"/queue/{name}", JMSXGroupID=group)
    got: dict[tuple[str, str], list[tuple[int, bytes]]] = {}
    for _ in range(200):
        some = [(place, frame) for place, it in enumerate(clients) for frame in messages(it)]
        for place, frame in some:
            key = (frame.headers["destination"], frame.headers["JMSXGroupID"])
            got.setdefault(key, []).append((place, frame.body))
            clients[place].say("ACK", id=frame.headers["ack"])
        if not some:
            break
    assert len(got) == 6
    for found in got.values():
        assert len({place for place, _ in found}) == 1
        assert [body for _, body in found] == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"destination": "/queue/a.>.*"}, "stands at the end"),
        ({"destination": "/queue/a,/queue/b>"}, "stands at the end"),
        ({"destination": "/temp-queue/a.*"}, "not for temporary ones"),
        ({"destination": "/queue/a.*", "browser": "true"}, "looks through one queue"),
        ({"destination": "/queue/a,/queue/b", "browser": "true"}, "looks through one queue"),
        ({"destination": "/queue/a,/topic/b", "activemq.exclusive": "true"}, "is a topic"),
        ({"destination": "/queue/a,/remote-temp-queue/x"}, "belongs to another connection"),
        ({"destination": "/queue/a,/queue/b", "selector": "="}, "column"),
        ({"destination": ",".join(f"/queue/{it}" for it in range(65))}, "more than 64"),
        ({"destination": ", ,"}, "nothing but commas"),
        ({"destination": "/topic/ActiveMQ.Advisory.>,/topic/a"}, "broker's own"),
    ],
)
def test_what_cannot_be_is_refused_whole(desk, headers: dict[str, str], told: str) -> None:
    """
    With the reason; nothing is declared or joined, and the connection lives.
    """
    client = desk.connect()
    named = {name.replace(".", "__"): value for name, value in headers.items()}
    error = client.refusal("SUBSCRIBE", id="s", receipt="r", **named)
    assert told in error.headers["message"] + error.body.decode()
    assert error.headers["receipt-id"] == "r"
    assert client.session.subscriptions == {}
    assert desk.broker.flow.subscription_count == 0
    client.subscribe("/queue/fine", id="s", ack="auto")
    fill(desk, "/queue/fine", count=1)
    assert len(messages(client)) == 1


def test_a_wildcard_is_not_sent_to(desk) -> None:
    """
    Nobody knows where that should go.
    """
    client = desk.connect()
    error = client.refusal("SEND", b"x", destination="/queue/a.*")
    assert "wildcards are for who subscribes" in error.headers["message"]


def test_an_id_in_use_is_refused(desk) -> None:
    """
    Whichever kind of subscription has it.
    """
    client = desk.connect()
    client.subscribe("/queue/a.*")
    assert "in use" in client.refusal("SUBSCRIBE", id="s", destination="/queue/b").body.decode()
    assert "in use" in client.refusal("SUBSCRIBE", id="s", destination="/queue/c.*").body.decode()


def test_where_there_is_no_room_for_all_parts_there_is_none(new_desk) -> None:
    """
    A wildcard over more queues than there may be subscriptions is refused, and what it had joined
    is left; where one cannot join a new queue its connection ends with an ERROR that says why.
    """
    desk = new_desk(BrokerSettings(subscriptions_count_max=5))
    fill(desk, *(f"/queue/R.{number}" for number in range(5)), count=1)
    client = desk.connect()
    error = client.refusal("SUBSCRIBE", id="s", destination="/queue/R.*", receipt="r")
    assert "at most 5 subscriptions" in error.headers["message"]
    assert error.headers["receipt-id"] == "r"
    assert client.session.subscriptions == {}
    assert desk.broker.flow.subscription_count == 0
    client.subscribe("/queue/Q.*", ack="auto")
    fill(desk, *(f"/queue/Q.{number}" for number in range(4)), count=1)
    assert len(messages(client)) == 4
    fill(desk, "/queue/Q.more", count=1)
    (error,) = client.frames()
    assert "at most 5 subscriptions" in error.headers["message"]
    assert "receipt-id" not in error.headers
    assert client.session.is_closing
    assert client.session.subscriptions == {}
    assert desk.broker.flow.subscription_count == 0


def test_idle_topics_may_be_forgotten_though_a_wildcard_means_them(new_desk) -> None:
    """
    Whoever sends to ever new topics is not refused because somebody listens to all of them.
    """
    desk = new_desk(BrokerSettings(topic_count_max=5))
    client = desk.connect()
    client.subscribe("/topic/>", ack="auto")
    for number in range(20):
        fill(desk, f"/topic/I.{number}", count=1)
    assert len(messages(client)) == 20
    assert len(desk.broker.destinations.topics) == 5
    assert len(client.session.holdings.by_ordinal) == 5
    fill(desk, "/topic/I.0", count=1)
    assert len(messages(client)) == 1


def test_the_connections_room_is_shared_in_turns(desk) -> None:
    """
    Where the connection takes little at a time, no queue of an `auto` subscription starves.
    """
    fill(desk, "/queue/F.a", "/queue/F.b", count=60)
    client = desk.connect()
    client.session.room_bytes = 0
    client.subscribe("/queue/F.*", ack="auto")
    found = []
    for _ in range(30):
        client.session.room_bytes = 1
        desk.broker.resume(client.session)
        found += [it.headers["destination"] for it in messages(client)]
    assert len(found) == 30
    assert abs(found.count("/queue/F.a") - found.count("/queue/F.b")) <= 2


def test_what_kills_its_consumers_is_sent_alone_over_all_queues(desk) -> None:
    """
    A subscription with several queues that is to have a suspect alone has nothing of any other
    queue beside it; so of twelve only the poison is dead in the end, and all others are there.
    """
    desk.broker.policy_changes.say(
        parse_pattern("queue://Z.>"), {"maximumRedeliveries": 1}, desk.connect().session, b"r"
    )
    desk.turn()
    fill(desk, "/queue/Z.a", "/queue/Z.b", count=6)
    for _ in range(12):
        client = desk.connect()
        client.subscribe("/queue/Z.*", ack="client-individual", activemq__prefetchSize="5")
        while found := messages(client):
            bodies = [it.body for it in found]
            if b"Z.a3" in bodies:
                break
            for frame in found:
                client.say("ACK", id=frame.headers["ack"])
        client.leave()
        desk.turn()
        if not found:
            break
    assert left_on(desk, "Z.a", "Z.b", "ActiveMQ.DLQ") == {"Z.a": 0, "Z.b": 0, "ActiveMQ.DLQ": 1}
