"""
Answers to temporary destinations of others: whoever does not read them is nobody else's affair.
"""

from __future__ import annotations

import pytest

from holdfast.broker.settings import BrokerSettings
from tests.unit.sessions.conftest import StompClient
from tests.unit.sessions.guarded import Guarded

MEMORY = 16 << 20
LARGE = bytes(1 << 19)


@pytest.fixture
def guarded(new_desk) -> Guarded:
    """A desk with little memory: Ann and Eve ask, and a service answers them."""
    made = Guarded(new_desk(BrokerSettings(memory_bytes=MEMORY)))
    for name in ("ann", "eve", "svc"):
        made.add(name, ["root"])
    return made


class Asker:
    """A client with an address for answers."""

    def __init__(self, guarded: Guarded, name: str, kind: str = "queue") -> None:
        self.client = guarded.connect(name)
        self._own = f"/temp-{kind}/r"
        self.client.subscribe(self._own, ack="client", activemq__prefetchSize="1")
        service = guarded.connect("svc")
        service.subscribe("/queue/asked", ack="auto")
        self.client.say("SEND", destination="/queue/asked", **{"reply-to": self._own})
        guarded.desk.turn()
        (asked,) = [it for it in service.frames() if it.command == "MESSAGE"]
        self.address = asked.headers["reply-to"]
        service.leave()
        guarded.clients.remove(service)


def told(client: StompClient, address: str, body: bytes = b"answer") -> list[str]:
    """Send an answer; give what its sender is told."""
    frames = client.ask("SEND", body, destination=address, receipt="r")
    return [it.headers.get("code", it.command) for it in frames]


def fill(client: StompClient, address: str) -> int:
    """Send large answers until one is refused; give how many were taken."""
    for count in range(MEMORY // len(LARGE)):
        answer = told(client, address, LARGE)
        if answer != ["RECEIPT"]:
            assert answer == ["queue-full"], "and not nothing: it does not wait"
            return count
    raise AssertionError("all are taken")


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_who_does_not_read_his_answers_holds_up_nobody(guarded: Guarded, kind: str) -> None:
    """
    Whoever may ask a service stopped its answers to all others for half a minute at a time.
    """
    service = guarded.connect("svc")
    ann, eve = Asker(guarded, "ann"), Asker(guarded, "eve", kind)
    assert 1 < fill(service, eve.address) < 12
    sending = guarded.desk.broker.sending
    assert sending.answers_refused_total == 1
    for number in range(3):
        assert told(service, eve.address, LARGE) == ["queue-full"]
        assert told(service, ann.address, b"%d" % number) == ["RECEIPT"]
    assert not service.session.waiting
    assert ann.client.bodies() == ["0"], "one at a time"
    assert sending.answers_refused_total == 4


def test_who_fills_her_own_may_wait_for_herself(guarded: Guarded) -> None:
    """
    What others send her is refused meanwhile; it waited behind that, and all else behind it.
    """
    eve, ann = Asker(guarded, "eve"), Asker(guarded, "ann")
    service = guarded.connect("svc")
    while told(eve.client, "/temp-queue/r", LARGE):
        eve.client.frames()
    assert eve.client.session.waiting
    assert told(service, eve.address) == ["queue-full"]
    assert told(service, ann.address) == ["RECEIPT"]


def test_who_was_told_one_address_leaves_room_at_the_others(guarded: Guarded) -> None:
    """
    Of one user's share one address has a part, so his other programs get their answers.
    """
    slow, quick = Asker(guarded, "ann"), Asker(guarded, "ann")
    eve, service = guarded.connect("eve"), guarded.connect("svc")
    fill(eve, slow.address)
    flow = guarded.desk.broker.flow
    assert 0 < flow.temporary_shares.of("ann") < MEMORY // 8
    assert told(service, quick.address) == ["RECEIPT"]
    assert quick.client.bodies() == ["answer"]


def test_who_was_told_all_addresses_leaves_room_for_other_senders(guarded: Guarded) -> None:
    """
    What is taken off, or goes with its queue, counts for nobody any more.
    """
    eve, service = guarded.connect("eve"), guarded.connect("svc")
    slow = [Asker(guarded, "ann") for _ in range(12)]
    taken = [fill(eve, each.address) for each in slow]
    assert taken[0] > 1
    assert taken[-1] == 0, "her share of Ann's share is full"
    flow = guarded.desk.broker.flow
    assert MEMORY * 3 // 8 < flow.temporary_shares.of("ann") < MEMORY * 5 // 8
    quick = Asker(guarded, "ann")
    assert told(service, quick.address, LARGE) == ["RECEIPT"]
    assert flow.answer_shares.of("ann", "svc") > len(LARGE)
    guarded.desk.turn()
    (message,) = [it for it in quick.client.frames() if it.command == "MESSAGE"]
    quick.client.ask("ACK", id=message.headers["ack"])
    assert flow.answer_shares.of("ann", "svc") == 0
    for each in slow:
        each.client.leave()
        guarded.clients.remove(each.client)
    guarded.desk.turn()
    assert flow.answer_shares.of("ann", "eve") == flow.temporary_shares.of("ann") == 0
    assert told(eve, quick.address, LARGE) == ["RECEIPT"]


@pytest.mark.parametrize("several", [True, False], ids=["composite", "transaction"])
def test_nobody_gets_by_with_several_at_once(guarded: Guarded, *, several: bool) -> None:
    """
    A message for many addresses, or a COMMIT, is judged by all that it brings; refused whole.
    """
    eve = guarded.connect("eve")
    slow = [Asker(guarded, "ann") for _ in range(8)]
    addresses = [each.address for each in slow]
    body = bytes((3 << 20) // 2)
    flow = guarded.desk.broker.flow
    if several:
        assert told(eve, ",".join(addresses), body) == ["queue-full"]
        assert flow.temporary_shares.of("ann") == 0
        return
    assert told(guarded.connect("svc"), addresses[0]) == ["RECEIPT"]
    eve.say("BEGIN", transaction="t")
    for address in addresses:
        eve.say("SEND", body, destination=address, transaction="t")
    assert eve.refusal("COMMIT", transaction="t").headers["code"] == "queue-full"
    assert flow.answer_shares.of("ann", "eve") == 0


def test_what_the_broker_answers_counts_for_who_asked(guarded: Guarded) -> None:
    """
    Else whoever may ask it anything would fill another's address by its answers.
    """
    eve, ann = guarded.connect("eve"), Asker(guarded, "ann")
    asked = {"destination": "/queue/ActiveMQ.Statistics.Broker", "reply-to": ann.address}
    eve.ask("SEND", **asked)
    flow = guarded.desk.broker.flow
    had = flow.answer_shares.of("ann", "eve")
    assert had > 0
    fill(eve, ann.address)
    while told(eve, ann.address, bytes(1 << 10)) == ["RECEIPT"]:
        pass
    before = flow.temporary_shares.of("ann")
    for _ in range(3):
        eve.ask("SEND", **asked)
    assert flow.temporary_shares.of("ann") <= before + (1 << 10) + 2 * had


def test_without_users_a_reader_who_is_behind_holds_up_nobody(new_desk) -> None:
    """
    Nor does he fill what all have.
    """
    desk = new_desk(BrokerSettings(memory_bytes=MEMORY))
    slow, quick, service = desk.connect(), desk.connect(), desk.connect()
    for each in (slow, quick):
        each.subscribe("/temp-queue/r", ack="client", activemq__prefetchSize="1")
    desk.turn()
    first, second = (f"/remote-temp-queue/{name}" for name in desk.broker.temporaries.queues)
    assert fill(service, first) < 8
    assert told(service, second) == ["RECEIPT"]
    assert quick.bodies() == ["answer"]


def test_where_memory_is_full_of_other_things_an_answer_waits(new_desk) -> None:
    """
    Its reader is not behind; once he is, it is refused and waits no longer.
    """
    desk = new_desk(BrokerSettings(memory_bytes=MEMORY, send_wait_seconds_max=1000))
    reader, service = desk.connect(), desk.connect()
    reader.subscribe("/temp-queue/r", ack="client", activemq__prefetchSize="1")
    desk.turn()
    (name,) = desk.broker.temporaries.queues
    while told(desk.connect(), "/queue/other", LARGE):
        pass
    assert told(service, f"/remote-temp-queue/{name}") == []
    assert told(service, "/queue/kept", b"x") == []
    assert desk.broker.sending.answers_refused_total == 0
    queue = desk.broker.temporaries.queues[name]
    desk.broker.send_transient(queue, b"", bytes(MEMORY // 4), None, reader.session)
    desk.turn()
    (error,) = service.frames()
    assert error.headers["code"] == "queue-full"
    assert desk.broker.sending.answers_refused_total == 1
    other = desk.connect()
    other.subscribe("/queue/other", ack="auto")
    desk.turn()
    desk.turn()
    assert [it.command for it in service.frames()] == ["RECEIPT"]
