"""
What durable wildcards need on many topics is given in steps, and where it cannot be, whom it stops.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from holdfast.broker import parts
from holdfast.broker.durables import WILD_SELECTOR_BYTES_MAX, Durables
from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import WILD_DURABLES_LEVEL
from holdfast.model.policies import as_text
from holdfast.model.records import FormatRecord, PolicyRecord
from holdfast.protocols.stomp.codec import encode_frame
from holdfast.server.waking import Waking

WILD_COUNT = 3
NAMES = [f"a.t{number}" for number in range(8)]
LIST = ",".join(f"/topic/{name}" for name in NAMES)


@pytest.fixture
def desk(new_desk):
    desk = new_desk(BrokerSettings())
    desk.broker.receipts.record(FormatRecord(WILD_DURABLES_LEVEL))
    desk.turn()
    return desk


@pytest.fixture
def given(monkeypatch) -> list[int]:
    """How many parts were given in each turn: the caller begins them; up to six may be."""
    monkeypatch.setattr(parts, "PARTS_PER_STEP", 2 * WILD_COUNT)
    counts = [0]
    give = Durables.give_part

    def counted(durables, durable, topic):
        counts[-1] += 1
        give(durables, durable, topic)

    monkeypatch.setattr(Durables, "give_part", counted)
    return counts


def say(desk, pattern: str, **values: object) -> None:
    desk.broker.receipts.record(PolicyRecord(pattern, as_text(values)))
    desk.turn()


def wild(desk, number: int, place: str = "/topic/a.>", **headers: str):
    client = desk.connect(client_id=f"c{number}")
    client.subscribe(place, ack="auto", activemq__subscriptionName="n", **headers)
    desk.turn()
    return client


def wilds(desk) -> list:
    return [wild(desk, number) for number in range(WILD_COUNT)]


def go_on(desk, client, counts: list[int]) -> None:
    while client.session.is_left_off:
        counts.append(0)
        client.session.proceed(lambda: False)
        desk.turn()


def places(client) -> list[str]:
    client.desk.turn()
    return sorted(it.headers["destination"] for it in client.frames() if it.command == "MESSAGE")


def receipts(client) -> list[str]:
    client.desk.turn()
    return [it.headers.get("receipt-id", it.command) for it in client.frames()]


def expected() -> list[str]:
    return sorted(f"/topic/{name}" for name in NAMES)


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_list_of_topics_is_given_parts_in_several_turns(desk, given, persistent) -> None:
    """
    The SEND waits, what is behind it too, and each wildcard gets it from every topic.
    """
    clients = wilds(desk)
    producer = desk.connect()
    producer.say("SEND", b"x", destination=LIST, persistent=persistent, receipt="1")
    assert producer.session.is_left_off and receipts(producer) == []
    assert all(places(client) == [] for client in clients)
    go_on(desk, producer, given)
    assert max(given) == 2 * WILD_COUNT and sum(given) == WILD_COUNT * len(NAMES)
    assert receipts(producer) == ["1"]
    assert all(places(client) == expected() for client in clients)
    producer.say("SEND", b"x", destination=LIST, persistent=persistent, receipt="2")
    assert not producer.session.is_left_off, "they are there"


def test_what_a_policy_forwards_is_given_them_in_several_turns(desk, given) -> None:
    """
    To how many topics one name leads is for others to say.
    """
    clients = wilds(desk)
    say(desk, "queue://fan", forwardTo=",".join(f"topic://{name}" for name in NAMES))
    producer = desk.connect()
    producer.say("SEND", b"x", destination="/queue/fan", persistent="true", receipt="1")
    go_on(desk, producer, given)
    assert max(given) == 2 * WILD_COUNT and receipts(producer) == ["1"]
    assert all(places(client) == expected() for client in clients)


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_commit_waits_for_wildcards_that_came_since_it_was_sent_to(
    desk, given, persistent
) -> None:
    """
    Nothing of it is done before, and a failover meanwhile leaves nothing of it.
    """
    producer = desk.connect()
    producer.say("BEGIN", transaction="t")
    for name in NAMES:
        said = {"destination": f"/topic/{name}", "persistent": persistent, "transaction": "t"}
        producer.say("SEND", b"x", **said)
    clients = wilds(desk)
    producer.say("COMMIT", transaction="t", receipt="1")
    assert producer.session.is_left_off and receipts(producer) == []
    assert all(places(client) == [] for client in clients)
    go_on(desk, producer, given)
    assert max(given) == 2 * WILD_COUNT and sum(given) == WILD_COUNT * len(NAMES)
    assert receipts(producer) == ["1"]
    assert all(places(client) == expected() for client in clients)


def test_who_is_gone_while_a_commit_waits_has_committed_nothing(desk, given) -> None:
    """
    Parts that were given stay: nobody can tell.
    """
    producer = desk.connect()
    producer.say("BEGIN", transaction="t")
    for name in NAMES:
        said = {"destination": f"/topic/{name}", "persistent": "true", "transaction": "t"}
        producer.say("SEND", b"x", **said)
    clients = wilds(desk)
    producer.say("COMMIT", transaction="t", receipt="1")
    assert producer.session.is_left_off
    producer.leave()
    desk.turn()
    assert all(places(client) == [] for client in clients)
    assert desk.broker.state.live_count() == 0 and given == [2 * WILD_COUNT]


def test_what_is_due_is_sent_when_all_have_their_parts(desk, given) -> None:
    """
    It is put back until then, with what is due behind it.
    """
    clients = wilds(desk)
    producer = desk.connect()
    said = {"persistent": "true", "AMQ_SCHEDULED_DELAY": "1000"}
    producer.say("SEND", b"x", destination=LIST, **said)
    desk.turn()
    desk.broker.sending.now_microseconds += 2_000_000
    waking = Waking(desk.broker, desk, lambda error: None)
    while waking.step(lambda: False):
        desk.turn()
        given.append(0)
    desk.turn()
    assert max(given) == 2 * WILD_COUNT and sum(given) == WILD_COUNT * len(NAMES)
    assert all(places(client) == expected() for client in clients)


def test_the_clock_is_looked_at_behind_what_gives_many_parts(desk) -> None:
    """
    Of SENDs that come together, each to a topic that is new.
    """
    wilds(desk)
    producer = desk.connect()
    frames = b"".join(
        b"SEND\ndestination:/topic/%b\npersistent:true\n\nx\0" % name.encode() for name in NAMES
    )
    producer.session.receive(frames, lambda: True)
    most = desk.broker.settings.step_count_max // parts.PART_EFFORT + WILD_COUNT
    assert 0 < desk.broker.durables.given_total <= most < WILD_COUNT * len(NAMES)
    assert producer.session.is_left_off


def test_a_transaction_that_is_refused_for_them_can_be_tried_again(desk, given) -> None:
    """
    As there is room again; then it commits as a whole.
    """
    producer = desk.connect()
    producer.say("BEGIN", transaction="t")
    for name in NAMES:
        said = {"destination": f"/topic/{name}", "persistent": "true", "transaction": "t"}
        producer.say("SEND", b"x", **said)
    clients = wilds(desk)
    desk.broker.durables.count_max = 4 * WILD_COUNT
    producer.say("COMMIT", transaction="t", receipt="1")
    go_on(desk, producer, given)
    desk.turn()
    (error,) = producer.frames()
    assert "durable subscriptions, with one for each topic" in error.headers["message"]
    assert all(places(client) == [] for client in clients)
    desk.broker.durables.count_max = 99
    given.append(0)
    producer.say("COMMIT", transaction="t", receipt="2")
    go_on(desk, producer, given)
    assert receipts(producer) == ["2"]
    assert max(given) == 2 * WILD_COUNT, "also of the second COMMIT, in steps"
    assert all(places(client) == expected() for client in clients)


def test_what_came_into_it_since_it_was_refused_is_given_parts_in_steps_too(desk, given) -> None:
    """
    It was refused in a later turn than that in which it began to be given them.
    """
    producer = desk.connect()
    producer.say("BEGIN", transaction="t")

    def hold(names: list[str]) -> None:
        for name in names:
            said = {"destination": f"/topic/{name}", "persistent": "true", "transaction": "t"}
            producer.say("SEND", b"x", **said)

    hold(NAMES)
    wilds(desk)
    producer.say("COMMIT", transaction="t", receipt="1")
    assert producer.session.is_left_off
    desk.context.refusal = "no room on the disk"
    go_on(desk, producer, given)
    desk.turn()
    assert [frame.command for frame in producer.frames()] == ["ERROR"]
    desk.context.refusal = None
    hold([f"b.t{number}" for number in range(8)])
    late = [wild(desk, number, "/topic/b.>") for number in (7, 8, 9)]
    given.append(0)
    producer.say("COMMIT", transaction="t", receipt="2")
    go_on(desk, producer, given)
    assert receipts(producer) == ["2"]
    assert max(given) == 2 * WILD_COUNT and sum(given) == 16 * WILD_COUNT
    assert all(len(places(client)) == 8 for client in late)


@pytest.fixture
def full(desk):
    """There is no room for one part more."""
    client = wild(desk, 0, "/topic/>")
    say(desk, "queue://m", mirrored="true")
    producer = desk.connect()
    producer.say("SEND", b"x", destination="/topic/known", persistent="true")
    assert places(client) == ["/topic/known"]
    desk.broker.durables.count_max = 2
    desk.wildcard = client
    return desk


def sent(desk, place: str, **headers: str) -> str:
    producer = desk.connect()
    producer.say("SEND", b"x", destination=place, receipt="r", **headers)
    desk.turn()
    (frame,) = producer.frames()
    return frame.headers["message"] if frame.command == "ERROR" else frame.command


def test_what_is_not_persistent_needs_no_part(full) -> None:
    """
    Who subscribes to the topic has it; what is persistent is refused, and where there is one not.
    """
    reader = full.connect()
    reader.subscribe("/topic/t", ack="auto")
    assert sent(full, "/topic/t", persistent="false") == "RECEIPT"
    assert reader.bodies() == ["x"]
    assert "at most 2" in sent(full, "/topic/t", persistent="true")
    assert sent(full, "/topic/known", persistent="true") == "RECEIPT"
    producer = full.connect()
    said = {"destination": "/topic/t", "persistent": "false"}
    full.broker.topic("t").note_stored(False)
    for count_max in (2, 3, 2):
        full.broker.durables.count_max = count_max
        producer.say("SEND", b"seldom", **said)
    assert reader.bodies() == ["seldom"] * 3
    assert places(full.wildcard) == ["/topic/known", "/topic/t", "/topic/t"], "since there was room"
    full.broker.durables.count_max = 3
    said["destination"] = "/topic/u"
    reader.subscribe("/topic/u", ack="auto", id="u")
    producer.say("BEGIN", transaction="t")
    said["transaction"] = "t"
    producer.say("SEND", b"y", **said)
    producer.say("COMMIT", transaction="t", receipt="c")
    assert receipts(producer) == ["c"]
    assert reader.bodies() == ["y"]


@pytest.mark.parametrize("is_listened_to", [True, False])
def test_a_mirror_stops_nobody(full, is_listened_to) -> None:
    """
    It is left out for the wildcard, and counted; others have it, and the queue has its message.
    """
    name = "VirtualTopic.Mirror.m"
    durables = full.broker.durables
    other = full.connect(client_id="other")
    if is_listened_to:
        durables.count_max += 1
        other.subscribe(f"/topic/{name}", ack="auto", activemq__subscriptionName="n")
    else:
        other.subscribe(f"/topic/{name}", ack="auto")
    full.turn()
    backlogs = full.broker.publishing.backlogs
    assert sent(full, "/queue/m", persistent="true") == "RECEIPT"
    assert backlogs.evicted_total == 1 and other.bodies() == ["x"]
    producer = full.connect()
    producer.say("BEGIN", transaction="t")
    said = {"destination": "/queue/m", "persistent": "true", "transaction": "t"}
    for _ in range(2):
        producer.say("SEND", b"y", **said)
    producer.say("COMMIT", transaction="t", receipt="c")
    assert receipts(producer) == ["c"]
    assert backlogs.evicted_total == 3 and other.bodies() == ["y", "y"]
    assert sent(full, "/queue/m", persistent="true", AMQ_SCHEDULED_DELAY="1000") == "RECEIPT"
    full.broker.sending.now_microseconds += 2_000_000
    waking = Waking(full.broker, full, lambda error: None)
    while waking.step(lambda: False):
        full.turn()
    full.turn()
    assert backlogs.evicted_total == 4 and other.bodies() == ["x"]
    assert full.broker.state.by_name["m"].index.live_count == 4
    assert "at most" in sent(full, f"/topic/{name}", persistent="true"), "it is no mirror's"
    durables.count_max += 1
    assert sent(full, "/queue/m", persistent="true") == "RECEIPT"
    assert backlogs.evicted_total == 4


@pytest.mark.parametrize("place", ["/topic/{}", "/queue/m,/topic/{}", "/topic/{},/topic/other"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_commit_to_the_topic_of_a_mirror_is_refused_as_a_send_is(desk, place, is_first) -> None:
    """
    Also where its wildcard came after the SEND, and whatever goes there because of its queue.
    """
    say(desk, "queue://m", mirrored="true")
    say(desk, "topic://>", virtualTopic="false")  # Else nothing of it is remembered.
    place = place.format("VirtualTopic.Mirror.m")
    said = {"persistent": "true", "transaction": "t"}
    reader, producer = desk.connect(), desk.connect()
    reader.subscribe("/topic/VirtualTopic.Mirror.m", ack="auto")
    producer.say("SEND", b"x", destination=place, persistent="true", number="0")
    assert reader.bodies() == ["x"], "what its headers come to is remembered"
    producer.say("BEGIN", transaction="t")
    if not is_first:
        producer.say("SEND", b"x", destination="/queue/m", **said)
    producer.say("SEND", b"x", destination=place, **said, number="1")
    client = wild(desk, 0, "/topic/>")
    desk.broker.durables.count_max = desk.broker.durables.count
    assert "at most 1" in sent(desk, place, persistent="true")
    assert "at most 1" in producer.refusal("COMMIT", transaction="t").headers["message"]
    assert places(client) == [] and desk.broker.publishing.backlogs.evicted_total == 0
    desk.broker.durables.count_max = 9
    producer.say("COMMIT", transaction="t", receipt="c")
    assert receipts(producer) == ["c"]
    assert places(client).count("/topic/VirtualTopic.Mirror.m") == len(reader.bodies()) >= 1


def test_a_selector_of_a_wildcard_is_short(desk) -> None:
    """
    Each topic that is meant has it anew in the log; of one topic it may be longer.
    """
    fits = "n = 1 OR " * ((WILD_SELECTOR_BYTES_MAX - 5) // 9) + "n = 1"
    assert WILD_SELECTOR_BYTES_MAX - 9 < len(fits) <= WILD_SELECTOR_BYTES_MAX
    desk.broker.durables.wild_effort_max = 10_000
    long = fits + " OR n = 1"
    client = wild(desk, 0, selector=long)
    (frame,) = client.frames()
    assert frame.command == "ERROR" and "at most 1,024" in frame.headers["message"]
    for number, (place, selector) in enumerate((("/topic/a.>", fits), ("/topic/a", long)), 1):
        client = wild(desk, number, place, selector=selector)
        assert client.frames() == []


def test_a_message_goes_though_others_make_wildcards_all_the_time(desk, monkeypatch) -> None:
    """
    In every turn there is one more that means its topics.
    """
    monkeypatch.setattr(parts, "PARTS_PER_STEP", 1)
    monkeypatch.setattr(parts, "PUT_OFF_MAX", 5)
    producer, other = desk.connect(), desk.connect(client_id="bob")
    for number in range(2):
        named = {"id": "1", "activemq__subscriptionName": "n", "destination": "/topic/a.>"}
        desk.connect(client_id=f"c{number}").ask("SUBSCRIBE", **named)
    producer.say("SEND", b"x", destination="/topic/a.1,/topic/a.2", persistent="true", receipt="r")
    turns = 0
    while producer.session.is_left_off:
        turns += 1
        assert turns < 10
        for command, number in (("SUBSCRIBE", turns), ("UNSUBSCRIBE", turns - 1)):
            named = {"id": f"{number}", "activemq__subscriptionName": f"n{number}"}
            other.ask(command, destination="/topic/a.>", **named)
        producer.session.proceed(lambda: True)
    desk.turn()
    assert [frame.command for frame in producer.frames()] == ["RECEIPT"]


@pytest.mark.parametrize("is_in_transaction", [False, True])
def test_who_makes_wildcards_waits_where_a_message_was_put_off_often(
    desk, monkeypatch, is_in_transaction: bool
) -> None:
    """
    What was put off 250 times got all it lacked in one turn, up to 10,000 parts in 1.2 seconds.
    """
    monkeypatch.setattr(parts, "PARTS_PER_STEP", 2)
    producer, others = desk.connect(), [desk.connect(client_id=f"c{it}") for it in range(4)]
    named = {"id": "1", "activemq__subscriptionName": "n", "destination": "/topic/a.>"}
    for other in others:
        other.ask("SUBSCRIBE", **named)
    places = ",".join(f"/topic/a.{number}" for number in range(8))

    def begin_anew() -> None:
        for other in others:
            if not other.session.is_left_off:
                other.say("UNSUBSCRIBE", **named)
                other.say("SUBSCRIBE", **named)

    if is_in_transaction:
        producer.say("BEGIN", transaction="t")
        producer.say("SEND", b"x", destination=places, persistent="true", transaction="t")
        while producer.session.is_left_off:
            producer.session.proceed(lambda: True)
        begin_anew()
        producer.say("COMMIT", transaction="t", receipt="r")
    else:
        producer.say("SEND", b"x", destination=places, persistent="true", receipt="r")
    given, most, turns = desk.broker.durables.given_total, 0, 0
    while producer.session.is_left_off:
        turns += 1
        assert turns < 60
        begin_anew()
        before = desk.broker.durables.given_total
        producer.session.proceed(lambda: True)
        most = max(most, desk.broker.durables.given_total - before)
        for other in others:
            other.session.proceed(lambda: True)
    desk.turn()
    assert [frame.command for frame in producer.frames()] == ["RECEIPT"]
    assert turns > 16
    assert most <= 2 * len(others)
    assert desk.broker.durables.given_total > given
    for other in others:
        assert other.session.proceed(lambda: False)
        assert other.ask("SEND", destination="/queue/q", receipt="s")[-1].command == "RECEIPT"


def committed(client, *parents: str) -> bool:
    """Send 20 topics of each parent a message, and begin to commit; whether that is done."""
    client.say("BEGIN", transaction="t")
    for name in [f"{parent}.{number}" for parent in parents for number in range(20)]:
        said = {"persistent": "true", "transaction": "t"}
        client.say("SEND", b"x", destination=f"/topic/{name}", **said)
        while client.session.is_left_off:
            client.session.proceed(lambda: True)
    commit = encode_frame("COMMIT", [("transaction", "t"), ("receipt", "c")], b"", "1.2")
    return client.session.receive(commit, lambda: True)


def test_a_commit_does_not_wait_for_parts_that_others_give(desk, monkeypatch) -> None:
    """
    It passed its topics again whenever anybody had been given any.
    """
    monkeypatch.setattr(parts, "_LOOKED_PER_STEP", 4)
    wild(desk, 0, "/topic/b.>")
    client, other = desk.connect(), desk.connect()
    is_done, turns = committed(client, "a"), 0
    while not is_done:
        turns += 1
        assert turns < 10
        other.send(b"x", f"/topic/b.{turns}")
        is_done = client.session.proceed(lambda: True)
    assert turns == 5


def test_a_wildcard_that_begins_while_a_commit_is_elsewhere_gets_its_parts_in_steps(
    desk, given, monkeypatch
) -> None:
    """
    Those of the topics that the COMMIT had passed came in one turn, with the COMMIT itself.
    """
    monkeypatch.setattr(parts, "_LOOKED_PER_STEP", 4)
    client = desk.connect()
    wild(desk, 0, "/topic/none.>")
    is_done = committed(client, "a", "d")
    for _ in range(6):
        is_done = client.session.proceed(lambda: True)
    reader = wild(desk, 1)
    while not is_done:
        given.append(0)
        is_done = client.session.proceed(lambda: True)
    assert sum(given) == 20
    assert max(given) <= 2 * WILD_COUNT
    desk.turn()
    assert receipts(client) == ["c"]
    assert len(reader.bodies()) == 20


def test_parts_that_go_while_a_commit_passes_are_given_again_in_steps(desk, monkeypatch) -> None:
    """
    They were given again in one turn, with the COMMIT itself.
    """
    monkeypatch.setattr(parts, "PARTS_PER_STEP", 4)
    monkeypatch.setattr(parts, "_LOOKED_PER_STEP", 4)
    for number in range(2):
        wild(desk, number)
    client = desk.connect()
    client.say("BEGIN", transaction="t")
    names = [f"a.{number}" for number in range(12)]
    for name in names:
        client.send(b"x", f"/topic/{name}", transaction="t")
    desk.turn()
    durables, stored = desk.broker.durables, desk.broker.destinations.stored
    steps = desk.broker.parts.before_commit(client.session.transactions["t"])
    given: list[int] = []
    for count, _ in enumerate(steps):
        given.append(durables.given_total)
        if count == 2:
            for name in names[:8]:
                topic = stored.known(name)
                assert topic is not None
                for each in list(topic.lasting.subscriptions.values()):
                    durables.remove_part(each.key)
            desk.turn()
    assert not any(stored.lacks_parts(name, stored.known(name)) for name in names)
    assert max(after - before for before, after in pairwise(given)) <= 4
