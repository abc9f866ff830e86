"""
Where a message goes is known late where policies ask many selectors that nobody has read yet.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving import virtual_consumers
from holdfast.model.format_level import LIMITS_LEVEL, NEWEST_LEVEL
from holdfast.model.policies import as_text
from holdfast.model.records import FormatRecord, PolicyRecord
from holdfast.server.waking import Waking
from holdfast.sessions import forwarding, selection

COUNT = 40
MIDDLE = " OR ".join(["a = 'no'"] * 10)
LIST = ",".join(f"q{each} when {MIDDLE} OR b = {each % 4} OR c = {each}" for each in range(COUNT))
CHOSEN = {f"q{each}": 1 for each in range(1, COUNT, 4)}


@pytest.fixture
def desk(desk):
    desk.broker.receipts.record(FormatRecord(LIMITS_LEVEL))
    desk.turn()
    desk.broker.state.format_level = NEWEST_LEVEL
    return desk


@pytest.fixture
def read(monkeypatch) -> list[int]:
    """How many selectors were read in each turn: the caller begins them."""
    counts = [0]
    of_policy = selection.Selections.of_policy

    def counted(selections, text):
        counts[-1] += not selections.has_of_policy(text)
        return of_policy(selections, text)

    monkeypatch.setattr(selection.Selections, "of_policy", counted)
    return counts


def say(desk, name: str = "all", **values: object) -> None:
    desk.broker.receipts.record(PolicyRecord(f"queue://{name}", as_text(values)))
    desk.turn()


def depths(desk) -> dict[str, int]:
    queues = desk.broker.state.by_name
    return {name: it.index.live_count for name, it in queues.items() if it.index.live_count}


def go_on(client, counts: list[int]) -> None:
    while client.session.is_left_off:
        counts.append(0)
        client.session.proceed(lambda: False)


def test_a_send_is_left_off_until_all_are_read(desk, read) -> None:
    """
    What comes behind it waits; nothing is done twice, and the next one asks at once.
    """
    say(desk, forwardTo=LIST)
    client = desk.connect()
    client.send(b"x", "/queue/all", receipt="1", b="1")
    assert client.session.is_left_off
    go_on(client, read)
    client.send(b"y", "/queue/q1", receipt="2")
    desk.turn()
    assert sum(read) == COUNT
    most = forwarding.READ_CHARACTERS_MAX // len(MIDDLE) + 1
    assert max(read) <= most
    assert len(read) >= COUNT // most
    assert {it.headers["receipt-id"] for it in client.frames()} == {"1", "2"}
    assert depths(desk) == CHOSEN | {"q1": 2}
    client.send(b"x", "/queue/all", b="1")
    assert not client.session.is_left_off


def test_frames_behind_it_are_done_after_it(desk, read) -> None:
    """
    In the order in which they came.
    """
    say(desk, forwardTo=LIST)
    client = desk.connect()
    send = b"SEND\ndestination:/queue/%b\nb:1\npersistent:true\nreceipt:%b\n\n%b\0"
    client.raw(send % (b"all", b"1", b"x") + send % (b"q1", b"2", b"y"))
    assert depths(desk) == {}
    go_on(client, read)
    desk.turn()
    reader = desk.connect()
    reader.subscribe("/queue/q1", ack="auto")
    assert reader.bodies() == ["x", "y"]


def test_where_more_are_asked_than_are_kept_it_comes_to_an_end(desk, read, monkeypatch) -> None:
    """
    After some turns it is done in one.
    """
    monkeypatch.setattr(selection, "_OF_POLICIES_BYTES_MAX", 1)
    monkeypatch.setattr(forwarding, "LEFT_OFF_MAX", 3)
    say(desk, forwardTo=LIST)
    client = desk.connect()
    client.send(b"x", "/queue/all", b="1")
    go_on(client, read)
    assert len(read) == 4
    desk.turn()
    assert depths(desk) == CHOSEN
    assert client.session.left_off_count == 0


def test_what_waited_for_room_waits_until_they_are_read(desk, read, monkeypatch) -> None:
    """
    Also what has waited for too long: it is sent, or refused, and never nowhere.
    """
    say(desk, "full", maxLength=1, overflow="block")
    say(desk, forwardTo="full")
    client = desk.connect()
    client.send(b"0", "/queue/all")
    client.send(b"x", "/queue/all", receipt="r", b="1")
    desk.turn()
    sending = client.session.holdings.sending
    assert sending.waiting
    say(desk, forwardTo=LIST)
    monkeypatch.setattr(type(sending.waiting), "is_late", lambda *_: True)
    for _ in range(COUNT):
        if not sending.waiting:
            break
        read.append(0)
        client.session.send_waiting()
    desk.turn()
    assert sum(read) == COUNT
    assert depths(desk) == CHOSEN | {"full": 1}
    assert [it.headers["receipt-id"] for it in client.frames()] == ["r"]


def test_what_is_due_is_sent_when_they_are_read(desk, read) -> None:
    """
    Whatever is due behind it comes behind it.
    """
    say(desk, forwardTo=LIST)
    client = desk.connect()
    client.send(b"x", "/queue/all", b="1", AMQ_SCHEDULED_DELAY="1000")
    client.send(b"y", "/queue/q1", AMQ_SCHEDULED_DELAY="1000")
    desk.turn()
    desk.broker.sending.now_microseconds += 2_000_000
    waking = Waking(desk.broker, desk, lambda error: None)
    while waking.step(lambda: False):
        read.append(0)
    desk.turn()
    assert sum(read) == COUNT
    assert len(read) > 2
    assert depths(desk) == CHOSEN | {"q1": 2}


def test_one_that_cannot_be_read_is_not_read_again(desk, read) -> None:
    """
    Else a list of many such would never be done with.
    """
    selections = selection.Selections()
    for _ in range(2):
        assert selections.of_policy("a =") is None
    assert read == [1]


def test_who_consumes_a_topic_that_is_virtual_now_is_found_in_steps(desk, monkeypatch) -> None:
    """
    Of very many queues; nothing that is confirmed is missed by one of them.
    """
    monkeypatch.setattr(virtual_consumers, "_LOOKED_AT_ONCE_MAX", 2)
    monkeypatch.setattr(virtual_consumers, "_LOOKED_AT_PER_STEP", 2)
    for number in range(5):
        desk.broker.queue(f"VTC.{number}.t")
    desk.broker.receipts.record(
        PolicyRecord("topic://t", as_text({"virtualTopic": "true", "virtualTopicPrefix": "VTC.*."}))
    )
    desk.turn()
    client = desk.connect()
    client.send(b"x", "/topic/t", receipt="r")
    assert client.session.is_left_off
    desk.broker.queue("VTC.new.t")
    desk.broker.errands.run(lambda: True)
    assert not client.session.proceed(lambda: False)
    desk.broker.errands.finish()
    assert client.session.proceed(lambda: False)
    desk.turn()
    assert depths(desk) == {f"VTC.{name}.t": 1 for name in (0, 1, 2, 3, 4, "new")}
    assert [it.headers["receipt-id"] for it in client.frames()] == ["r"]
