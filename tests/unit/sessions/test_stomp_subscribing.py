"""
SUBSCRIBE and UNSUBSCRIBE: what a destination is written like, what is wished, who is ended.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.serving.consumer import Claim
from holdfast.broker.settings import BrokerSettings
from holdfast.model.records import PolicyRecord

# How a destination is written ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "written", [" /queue/orders", "/queue/orders ", "\t/queue/ orders ", "/queue/orders?", "orders"]
)
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_spaces_and_options_make_no_other_queue(desk, version, written) -> None:
    """
    Sent one way and consumed another it is the same queue, and it is shown by its whole name.
    """
    client = desk.connect(version)
    client.send(b"one", written)
    client.send(b"two")
    client.subscribe(written)
    desk.turn()
    frames = client.frames()
    assert [frame.body for frame in frames] == [b"one", b"two"]
    assert {frame.headers["destination"] for frame in frames} == {"/queue/orders"}
    assert set(desk.broker.destinations.queue_names()) == {"orders"}


def test_options_of_a_send_are_cut_off(desk) -> None:
    """
    They were for ActiveMQ's own client: here they name no queue, and a comma in them no second one.
    """
    client = desk.connect()
    client.send(b"x", "/queue/orders?producer.windowSize=1024&a=b,c")
    client.subscribe()
    assert client.bodies() == ["x"]


def test_a_remote_queue_is_nobody_elses_however_it_is_written(desk) -> None:
    """
    A space before it does not open what belongs to another connection.
    """
    client, other = desk.connect(), desk.connect()
    client.subscribe("/temp-queue/a")
    name = f" /remote-temp-queue/{client.session.id}.a?x=y"
    error = other.refusal("SUBSCRIBE", destination=name, id="1")
    assert error.headers["code"] == "destination"


@pytest.mark.parametrize("written", ["/queue/ ", "?a=b", "/queue/?consumer.prefetchSize=1", " "])
def test_a_name_of_nothing_but_spaces_and_options_is_none(desk, written) -> None:
    """
    Refused with a sentence, not a queue without a name.
    """
    client = desk.connect()
    assert client.refusal("SEND", destination=written).headers["code"] == "destination"


def test_more_options_than_anybody_writes_are_refused(desk) -> None:
    """
    A header line has room for thousands: to read them all takes longer than a frame may.
    """
    client = desk.connect()
    for command in ("SEND", "SUBSCRIBE"):
        error = client.refusal(command, destination="/queue/a?" + "a&" * 4000, id="1")
        assert error.headers["code"] == "destination"
    client.send(b"x", "/queue/a?" + "&".join(f"o{number}=1" for number in range(64)))
    assert set(desk.broker.destinations.queue_names()) == {"a"}


# What is wished -----------------------------------------------------------------------------------


def test_a_prefetch_may_stand_behind_the_name(desk) -> None:
    """
    As ActiveMQ's documentation writes it; a header goes before it.
    """
    client = desk.connect()
    for _ in range(9):
        client.send(b"x")
    client.subscribe("/queue/orders?consumer.prefetchSize=2&consumer.dispatchAsync=false", "1")
    client.subscribe("/queue/orders?consumer.prefetchSize=5", "2", prefetch_count="3")
    assert client.bodies() == ["x"] * 5
    prefetches = [each.prefetch for each in client.session.subscriptions.values()]
    assert prefetches == [2, 3]


@pytest.mark.parametrize("blanks", [" ", "\t", " \t "])
def test_a_prefetch_may_have_blanks_around_it(desk, blanks: str) -> None:
    """
    At the end of an option of the destination, and in a header, as in other numbers of headers.
    """
    client = desk.connect()
    client.subscribe(f"/queue/orders?consumer.prefetchSize=2{blanks}", "1")
    client.subscribe("/queue/orders", "2", prefetch_count=f"{blanks}3{blanks}")
    assert [each.prefetch for each in client.session.subscriptions.values()] == [2, 3]


@pytest.mark.parametrize(
    "option",
    [
        *("exclusive=yes", "noLocal=true", "retroactive=true", "priority=128", "selector=a%3D"),
        *("browser=maybe", "maximumPendingMessageLimit=x", "nonsense=1"),
        "prefetchSize=many",
    ],
)
def test_options_that_cannot_be_obeyed_are_refused(desk, option) -> None:
    """
    As the headers of the same name are: ignoring them would change what is delivered.
    """
    client = desk.connect()
    error = client.refusal(
        "SUBSCRIBE", destination=f"/queue/orders?consumer.{option}", id="1", receipt="r"
    )
    assert error.headers["code"] in {"destination", "refused", "invalid-selector"}
    assert error.headers["receipt-id"] == "r"
    assert option.split("=")[0].replace("prefetchSize", "prefetch") in error.headers["message"]
    assert client.session.subscriptions == {}


def test_options_that_ask_for_what_is_done_anyway_are_fine(desk) -> None:
    """
    Programs that write every option with its default are not refused; nor are their headers.
    """
    client = desk.connect()
    options = "exclusive=false&consumer.noLocal=false&consumer.priority=0"
    client.subscribe(
        f"/queue/orders?consumer.{options}&consumer.maximumPendingMessageLimit=-1",
        activemq__priority="0",
        activemq__retroactive="false",
    )
    client.send(b"x")
    assert client.bodies() == ["x"]
    error = client.refusal(
        "SUBSCRIBE", destination="/queue/a", id="2", activemq__retroactive="true", receipt="r"
    )
    assert "activemq.retroactive" in error.headers["message"]


# What is claimed before others --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "option", "claim"),
    [
        ({}, "", Claim()),
        ({"activemq.exclusive": "true"}, "", Claim(is_exclusive=True)),
        ({"x-single-active-consumer": " true "}, "", Claim(is_exclusive=True)),
        ({}, "?consumer.exclusive=true&consumer.priority=9", Claim(9, is_exclusive=True)),
        ({"activemq.exclusive": "false"}, "?consumer.exclusive=true", Claim()),
        ({"activemq.priority": "127"}, "", Claim(127)),
        ({"consumer-priority": "-128"}, "", Claim(-128)),
        ({"x-priority": " +7 "}, "", Claim(7)),
        ({"x-priority": "3", "activemq.priority": "2"}, "?consumer.priority=1", Claim(2)),
    ],
)
def test_a_claim_is_read_whoever_wrote_it(desk, headers, option, claim) -> None:
    """
    By ActiveMQ's names and RabbitMQ's, in a header or an option; ActiveMQ's header counts first.
    """
    client = desk.connect()
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    client.raw(f"SUBSCRIBE\nid:1\ndestination:/queue/a{option}\n{lines}\n\0".encode())
    assert client.frames() == []
    assert client.session.subscriptions["1"].claim == claim


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("activemq.priority", each) for each in ("128", "-129", "high", "", "1.5", "9" * 5_000)),
        *(("activemq.exclusive", each) for each in ("1", "TRUE", "")),
        ("x-priority", "1000"),
        ("consumer-priority", "-"),
        ("x-single-active-consumer", "maybe"),
    ],
)
def test_a_claim_that_makes_no_sense_is_refused(desk, name, value) -> None:
    """
    By the header's name; nothing is left of it.
    """
    client = desk.connect()
    client.raw(f"SUBSCRIBE\nid:1\ndestination:/queue/a\n{name}:{value}\nreceipt:r\n\n\0".encode())
    (error,) = client.frames()
    assert error.headers["code"] == "refused"
    assert name in error.headers["message"]
    assert len(error.headers["message"]) < 200
    assert client.session.subscriptions == {}
    assert desk.broker.destinations.queue_names() == []


def test_on_a_topic_a_priority_changes_nothing_and_nobody_is_the_only_one(desk) -> None:
    """
    Each gets all messages: a priority is taken, the other wish is refused.
    """
    client = desk.connect()
    client.subscribe("/topic/t", activemq__priority="9")
    error = client.refusal(
        "SUBSCRIBE", destination="/topic/t", id="2", activemq__exclusive="true", receipt="r"
    )
    assert error.headers["code"] == "destination"
    client.send(b"x", "/topic/t")
    assert client.bodies() == ["x"]


def test_claims_are_heeded(desk) -> None:
    """
    From the frame to the delivery: the only one, then the one of the highest priority.
    """
    low, high, sole = desk.connect(), desk.connect(), desk.connect()
    low.subscribe("/queue/a", ack="auto")
    high.subscribe("/queue/a", ack="auto", activemq__priority="1")
    sole.subscribe("/queue/a", ack="auto", activemq__exclusive="true")
    low.send(b"1", "/queue/a")
    desk.turn()
    sole.say("UNSUBSCRIBE", id="s")
    low.send(b"2", "/queue/a")
    desk.turn()
    assert (low.bodies(), high.bodies(), sole.bodies()) == ([], ["2"], ["1"])


# Browsers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_a_browser_is_shown_what_is_there_and_then_the_end(desk, version) -> None:
    """
    In every version; it acknowledges as it must to be shown more, and everything stays.
    """
    client, browser = desk.connect(), desk.connect(version)
    for number in range(3):
        client.send(b"%d" % number, "/queue/a", persistent="true")
    desk.turn()
    browser.subscribe("/queue/a", browser="true", activemq__prefetchSize="2")
    shown = []
    for _ in range(2):
        desk.turn()
        for frame in browser.frames():
            shown.append(frame)
            named = {
                "1.0": {"message-id": frame.headers["message-id"]},
                "1.1": {"message-id": frame.headers["message-id"], "subscription": "s"},
                "1.2": {"id": frame.headers.get("ack", "")},
            }[version]
            lines = "".join(f"{name}:{value}\n" for name, value in named.items())
            browser.raw(f"ACK\n{lines}\n\0".encode())
    desk.turn()
    assert [frame.body for frame in shown] == [b"0", b"1", b"2", b""]
    assert [frame.headers.get("browser") for frame in shown] == [None] * 3 + ["end"]
    assert len({frame.headers["message-id"] for frame in shown}) == 4
    assert browser.frames() == []
    client.subscribe("/queue/a")
    assert client.bodies() == ["0", "1", "2"]


def test_a_browser_rejects_nothing_and_ends_as_any_subscription(desk) -> None:
    """
    NACK is an ERROR, and a topic keeps nothing to be looked through.
    """
    client = desk.connect()
    client.send(b"x", "/queue/a", persistent="true")
    desk.turn()
    client.subscribe("/queue/a?consumer.browser=true", ack="client", activemq__exclusive="true")
    desk.turn()
    shown = client.frames()[0]
    error = client.refusal("NACK", id=shown.headers["ack"], receipt="r")
    assert error.headers["code"] == "destination"
    client.say("UNSUBSCRIBE", id="s")
    error = client.refusal("ACK", id=shown.headers["ack"], receipt="r")
    assert error.headers["code"] == "unknown-delivery"
    for name in ("browser", "activemq.browser"):
        client.raw(f"SUBSCRIBE\nid:2\ndestination:/topic/t\n{name}:true\nreceipt:r\n\n\0".encode())
        (error,) = client.frames()
        assert error.headers["code"] == "destination"
    assert desk.broker.state.live_count() == 1


def test_a_browser_has_a_prefetch_of_its_own(desk) -> None:
    """
    500, or as a policy says; one that it asks for counts first.
    """
    client = desk.connect()
    client.subscribe("/queue/a", "1", browser="true")
    client.subscribe("/queue/a", "2", browser="true", activemq__prefetchSize="7")
    desk.broker.state.policies.apply(PolicyRecord("queue://a", '{"queueBrowserPrefetch":9}'), 1)
    client.subscribe("/queue/a", "3", browser="true")
    client.subscribe("/queue/a", "4")
    windows = [each.prefetch for each in client.session.subscriptions.values()]
    assert windows == [500, 7, 9, 1000]


# Selectors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_a_topic_gives_each_what_it_selects(desk, version) -> None:
    """
    Whatever version it speaks; who has no selector gets all.
    """
    producer, choosy, everything = desk.connect(), desk.connect(version), desk.connect()
    choosy.subscribe("/topic/t", selector="price > 2 AND region IN ('north')")
    everything.subscribe("/topic/t", selector=" ")
    for price, region in ("1", "north"), ("2.5", "north"), ("9", "south"), ("10", "north"):
        producer.send(price.encode(), "/topic/t", price=price, region=region)
    producer.send(b"none", "/topic/t")
    desk.turn()
    assert choosy.bodies() == ["2.5", "10"]
    assert everything.bodies() == ["1", "2.5", "9", "10", "none"]


@pytest.mark.parametrize(
    ("option", "headers"),
    [
        ("", {"selector": "a = 1"}),
        ("", {"activemq__selector": "a = 1"}),
        ("?consumer.selector=a%20%3D%201", {}),
        ("?consumer.selector=a%3D2", {"selector": "a = 1", "activemq__selector": "a = 2"}),
        ("", {"selector": "convert_string_expressions:a = 1"}),
    ],
)
def test_a_selector_stands_where_activemq_takes_it(desk, option, headers) -> None:
    """
    As a header, which goes first, and behind the destination.
    """
    client = desk.connect()
    client.subscribe(f"/topic/t{option}", **headers)
    for number in ("1", "2"):
        client.send(number.encode(), "/topic/t", a=number)
    desk.turn()
    assert client.bodies() == ["1"]


def test_what_the_broker_says_of_a_message_can_be_selected(desk) -> None:
    """
    What its MESSAGE frame will say, by the names of JMS: nobody else knows all of it.
    """
    client = desk.connect()
    text = (
        "JMSDestination = 'temp-topic://n1-1-1.t' AND JMSMessageID LIKE 'ID:c0ffee-0-t1.%' AND"
        " JMSPriority = 4 AND JMSDeliveryMode = 'PERSISTENT' AND JMSTimestamp IS NOT NULL"
    )
    client.subscribe("/temp-topic/t", selector=text)
    client.send(b"x", "/temp-topic/t")
    desk.turn()
    (frame,) = client.frames()
    assert frame.headers["message-id"].startswith("ID:c0ffee-0-t1.")


def test_a_selector_that_cannot_be_read_is_refused_with_its_column(desk) -> None:
    """
    The connection lives, nothing is left behind, and the receipt is answered.
    """
    client = desk.connect()
    error = client.refusal(
        "SUBSCRIBE", destination="/topic/t", id="1", selector="a = 1 AN b = 2", receipt="r"
    )
    assert error.headers["code"] == "invalid-selector"
    assert error.headers["receipt-id"] == "r"
    assert "selector, column 7: unexpected 'AN'; expected AND, OR" in error.headers["message"]
    assert not client.session.subscriptions
    assert not desk.broker.destinations.topics
    assert not client.session.is_closing


@pytest.mark.parametrize("queue", ["/queue/q", "q", "/temp-queue/q"])
def test_a_queue_gives_each_what_it_selects(desk, queue) -> None:
    """
    Stored messages and others, in their order; what nobody selects waits for who does.
    """
    client = desk.connect()
    client.subscribe(queue, "few", selector="kind = 'few'")
    client.subscribe(queue, "many", selector="number > 2")
    for number in range(1, 6):
        kind = "few" if number % 2 else "other"
        persistent = "true" if number != 4 else "false"
        client.send(b"%d" % number, queue, kind=kind, number=str(number), persistent=persistent)
    desk.turn()
    got = [(frame.headers["subscription"], frame.body.decode()) for frame in client.frames()]
    # What both want goes to either in turns.
    stored = [("few", "1"), ("many", "3"), ("many", "4"), ("few", "5")]
    assert sorted(got, key=lambda each: each[1]) == stored
    client.subscribe(queue, "rest")
    assert client.bodies() == ["2"]


def test_what_a_selector_on_a_queue_is_told(desk) -> None:
    """
    Its id, where it stands, whether it lasts, and which delivery this is; that of each return.
    """
    client = desk.connect()
    client.send(b"x", "/queue/q", correlation_id="c")
    desk.turn()
    queue = desk.broker.queue("q")
    number, first = queue.number, queue.index.first()
    told = (
        f"JMSMessageID = 'ID:c0ffee-{number}-{first}' AND JMSDestination = 'queue://q'"
        f" AND JMSDeliveryMode = 'PERSISTENT' AND \"correlation-id\" = JMSCorrelationID"
    )
    client.subscribe("/queue/q", "1", selector=f"{told} AND JMSXDeliveryCount = 1")
    again = desk.connect()
    again.subscribe("/queue/q", "1", selector=f"{told} AND JMSRedelivered AND JMSXDeliveryCount=2")
    assert client.bodies() == ["x"]
    assert again.bodies() == []
    client.leave()
    assert again.bodies() == ["x"]


def test_a_browser_is_shown_what_it_selects(desk) -> None:
    """
    And then the end; what it does not select takes none of its room.
    """
    client = desk.connect()
    for number in range(6):
        client.send(b"%d" % number, "/queue/q", number=str(number))
    desk.turn()
    headers = {"browser": "true", "activemq.prefetchSize": "2", "ack": "auto"}
    client.subscribe("/queue/q", selector="number IN ('1', '4', '5')", **headers)
    assert client.bodies() == ["1", "4", "5", ""]


def test_selectors_take_of_the_memory_for_subscriptions(new_desk) -> None:
    """
    A long one becomes a hundred times its bytes: they are charged before there is one too many.
    """
    desk = new_desk(BrokerSettings(subscriptions_bytes_max=500_000))
    client = desk.connect()
    text = " OR ".join(["a = 1"] * 125)
    for id in ("1", "2"):
        client.subscribe("/topic/t", id, selector=text)
    error = client.refusal("SUBSCRIBE", destination="/topic/t", id="3", selector=text)
    assert "subscriptions of all connections take" in error.headers["message"]
    client.say("UNSUBSCRIBE", id="1")
    client.subscribe("/topic/t", "3", selector=text)
    assert set(client.session.subscriptions) == {"2", "3"}
    for id in ("2", "3"):
        client.say("UNSUBSCRIBE", id=id)
    assert desk.broker.flow.subscription_bytes == 0


def test_after_a_selector_was_read_the_clock_is_looked_at(desk) -> None:
    """
    A thousand of them come in one read of a socket, and each takes up to some milliseconds.
    """
    client = desk.connect()
    frames = b"".join(
        b"SUBSCRIBE\nid:%d\ndestination:/topic/t\nselector:a=%d\n\n\0" % (number, number)
        for number in range(5)
    )
    client.session.receive(frames, lambda: True)
    assert len(client.session.subscriptions) == 1
    while client.session.is_left_off:
        client.session.proceed(lambda: True)
    assert len(client.session.subscriptions) == 5


# STOMP 1.0 ----------------------------------------------------------------------------------------


def test_1_0_unsubscribe_by_destination_ends_one_with_an_id(desk) -> None:
    """
    STOMP 1.0, UNSUBSCRIBE: a destination or an id; the client chooses anew which.
    """
    client = desk.connect("1.0")
    client.subscribe("/queue/orders", "7")
    (receipt,) = client.ask("UNSUBSCRIBE", destination="/queue/orders ", receipt="r")
    assert receipt.command == "RECEIPT"
    assert client.session.subscriptions == {}
    error = client.refusal("UNSUBSCRIBE", destination="/queue/orders")
    assert error.headers["code"] == "destination"


def test_1_0_serves_two_subscriptions_without_an_id(desk) -> None:
    """
    Of one destination: each gets its part, says nothing of an id, and is ended for itself.
    """
    client = desk.connect("1.0")
    for _ in range(2):
        client.say("SUBSCRIBE", destination="/queue/orders", ack="client", prefetch_count="1")
    for body in (b"1", b"2", b"3"):
        client.send(body)
    desk.turn()
    frames = client.frames()
    assert [frame.body for frame in frames] == [b"1", b"2"]
    assert not any("subscription" in frame.headers for frame in frames)
    for frame in reversed(frames):
        client.say("ACK", message_id=frame.headers["message-id"])
    assert client.bodies() == ["3"]
    for _ in range(2):
        client.ask("UNSUBSCRIBE", destination="/queue/orders")
    assert client.session.subscriptions == {}


def test_1_0_an_unsubscribe_by_destination_spares_those_with_an_id_while_it_can(desk) -> None:
    """
    Who has an id can be named by it; who has none cannot be named otherwise.
    """
    client = desk.connect("1.0")
    client.subscribe("/queue/orders", "named")
    client.say("SUBSCRIBE", destination="/queue/orders", ack="client")
    client.subscribe("/queue/other", "other")
    client.ask("UNSUBSCRIBE", destination="/queue/orders")
    assert set(client.session.subscriptions) == {"named", "other"}
    client.ask("UNSUBSCRIBE", destination="/queue/orders")
    assert set(client.session.subscriptions) == {"other"}


def test_an_id_may_look_like_a_destination(desk) -> None:
    """
    An id and a destination of another subscription do not meet.
    """
    client = desk.connect("1.0")
    client.say("SUBSCRIBE", destination="/queue/a", ack="client")
    client.subscribe("/queue/b", "/queue/a")
    client.ask("UNSUBSCRIBE", id="/queue/a")
    client.send(b"x", "/queue/a")
    assert client.bodies() == ["x"]


def test_1_0_a_search_for_a_destination_counts_as_the_work_it_is(new_desk) -> None:
    """
    It looks at every subscription of the connection: a burst of these must not hold up others.
    """
    desk = new_desk(BrokerSettings(step_count_max=10))
    client = desk.connect("1.0")
    for _ in range(30):
        client.say("SUBSCRIBE", destination="/queue/a")
    asked = []
    frames = b"UNSUBSCRIBE\ndestination:/queue/a\n\n\x00" * 5
    client.session.receive(frames, lambda: bool(asked.append(None)))
    assert len(asked) >= 5
    assert len(client.session.subscriptions) == 25


# What a policy says -------------------------------------------------------------------------------


def test_a_policy_says_the_prefetch_of_who_says_nothing(desk) -> None:
    """
    One that asks for more, or less, gets that; who has subscribed keeps what it got.
    """
    client = desk.connect()
    client.subscribe("/queue/a.b", "before")
    desk.broker.state.policies.apply(PolicyRecord("queue://a.>", '{"queuePrefetch":2}'), 1)
    desk.broker.state.policies.apply(PolicyRecord("topic://a.>", '{"topicPrefetch":3}'), 1)
    client.subscribe("/queue/a.b", "after")
    client.subscribe("/queue/a.b", "own", prefetch_count="5")
    client.subscribe("/topic/a.b", "topic")
    found = {name: it.prefetch for name, it in client.session.subscriptions.items()}
    assert found == {"before": 1_000, "after": 2, "own": 5, "topic": 3}


def test_how_many_messages_may_wait_is_said_by_the_consumer_or_by_policies(desk) -> None:
    """
    A number, or a multiple of the prefetch; 0 and -1 of the consumer mean what policies say.
    """
    client = desk.connect()
    client.subscribe("/topic/a", "1")
    values = {"constantPendingMessageLimitStrategy": 7}
    desk.broker.receipts.record(PolicyRecord("topic://b", json.dumps(values)))
    values = {"prefetchRatePendingMessageLimitStrategy": 1.5}
    desk.broker.receipts.record(PolicyRecord("topic://c", json.dumps(values)))
    desk.turn()
    client.subscribe("/topic/b", "2")
    client.subscribe("/topic/b", "3", activemq__maximumPendingMessageLimit="5")
    client.subscribe("/topic/b", "4", activemq__maximumPendingMessageLimit="-1")
    client.subscribe("/topic/c?consumer.maximumPendingMessageLimit=0", "5", prefetch_count="10")
    found = [each.pending_max for each in client.session.subscriptions.values()]
    assert found == [-1, 7, 5, 7, 15]


def test_who_subscribes_where_nobody_is_waited_for_loses_the_oldest(desk) -> None:
    """
    By wildcards, too, and with a limit of one's own.
    """
    client = desk.connect()
    client.subscribe("/topic/a", "before")
    values = {"producerFlowControl": "false"}
    desk.broker.receipts.record(PolicyRecord("topic://a", json.dumps(values)))
    desk.turn()
    client.subscribe("/topic/a", "after", activemq__maximumPendingMessageLimit="5")
    client.subscribe("/topic/*", "wild")
    client.subscribe("/topic/b", "other")
    desk.turn()
    live = [*desk.broker.topic("a").subscriptions, *desk.broker.topic("b").subscriptions]
    found = {(each.id, each.topic.name): each.drops_oldest for each in live}
    assert found == {
        ("before", "a"): False,
        ("after", "a"): True,
        ("wild", "a"): True,
        ("wild", "b"): False,
        ("other", "b"): False,
    }


@pytest.mark.parametrize(
    ("place", "text", "why"),
    [
        ("/topic/a", "many", "maximumPendingMessageLimit: 'many' is not a number"),
        ("/topic/a", "-2", "maximumPendingMessageLimit: '-2' is not a number"),
        ("/queue/a", "5", "maximumPendingMessageLimit is of topics only, not of '/queue/a'"),
    ],
)
def test_a_limit_of_what_waits_that_makes_no_sense_is_refused(
    desk, place: str, text: str, why: str
) -> None:
    """
    On a queue messages wait for all.
    """
    client = desk.connect()
    error = client.refusal(
        "SUBSCRIBE", destination=place, id="1", activemq__maximumPendingMessageLimit=text
    )
    assert why in error.headers["message"]
    assert client.session.subscriptions == {}


def test_many_at_once_are_done_as_the_time_goes(desk) -> None:
    """
    Each is more than a message: the clock is looked at behind each of them.
    """
    client = desk.connect()
    asked = b"SUBSCRIBE\nid:%d\ndestination:/queue/%d\n\n\0"
    data = b"".join(asked % (number, number) for number in range(5))
    assert not client.session.receive(data, lambda: True)
    assert len(client.session.subscriptions) == 1
    assert client.session.proceed(lambda: False)
    assert len(client.session.subscriptions) == 5
