"""
Shares of users: whom little was granted, or nothing, keeps nobody out by what everybody may have.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.model.records import PolicyRecord
from tests.unit.sessions.conftest import StompClient
from tests.unit.sessions.guarded import ALL, Guarded

OVERHEAD = BrokerSettings().message_memory_overhead_bytes


@pytest.fixture
def crowded(new_desk):
    """Makes a desk with little room, with users to whom hardly anything is granted."""

    def make(**settings: int) -> Guarded:
        guarded = Guarded(new_desk(BrokerSettings(**settings)))
        guarded.add("ann", ["sales"])
        guarded.add("eve", ["sales"])
        guarded.grant("sales", "read", "queue://sales")
        return guarded

    return make


def answer(client: StompClient, command: str, body: bytes = b"", **headers: str) -> str:
    """Give RECEIPT, the code of the ERROR, or nothing where there was no answer yet."""
    frames = client.ask(command, body, receipt="r", **headers)
    return "".join(it.headers.get("code", it.command) for it in frames)


def place(client: StompClient, name: object) -> str:
    return answer(client, "SUBSCRIBE", destination=f"/temp-queue/{name}", id=str(name))


def test_who_makes_many_temporary_queues_leaves_places_for_others(crowded) -> None:
    """
    By as many connections as he likes; what he ends he may make again.
    """
    guarded = crowded(temporary_count_max=40)
    eves = [guarded.connect("eve") for _ in range(4)]
    answers = [place(eves[number % 4], number) for number in range(40)]
    assert (answers.count("RECEIPT"), set(answers)) == (30, {"RECEIPT", "destination"})
    assert [place(guarded.connect("ann"), "r") for _ in range(5)] == ["RECEIPT"] * 5
    assert place(guarded.connect("eve"), "r") == "destination"
    for eve in eves[:2]:
        eve.leave()
    guarded.clients[:] = [it for it in guarded.clients if it not in eves]
    guarded.desk.turn()
    assert place(guarded.connect("eve"), "r") == "RECEIPT"


@pytest.mark.parametrize(
    ("settings", "more", "count"),
    [
        ({"subscriptions_count_max": 40}, {}, 30),
        # A third of what subscriptions may take is one of these, and one more leaves too little.
        ({"subscriptions_bytes_max": 40_000}, {"id_bytes": 500}, 0),
    ],
    ids=["count", "bytes"],
)
def test_who_subscribes_often_leaves_room_for_others(
    crowded, settings: dict[str, int], more: dict[str, int], count: int
) -> None:
    """
    By as many connections as he likes, and by names as long as he likes.
    """
    guarded = crowded(**settings)
    eve = guarded.connect("eve")
    long = "x" * more.get("id_bytes", 0)
    answers = [
        answer(eve, "SUBSCRIBE", destination="/temp-queue/q", id=f"{long}{number}")
        for number in range(60)
    ]
    had = answers.count("RECEIPT")
    assert set(answers) == {"RECEIPT", "destination"}
    assert had == count or (not count and 2 < had < 60)
    ann = guarded.connect("ann")
    assert answer(ann, "SUBSCRIBE", destination="/temp-queue/r", id=f"{long}r") == "RECEIPT"
    assert answer(eve, "UNSUBSCRIBE", id=f"{long}0") == "RECEIPT"
    assert answer(ann, "UNSUBSCRIBE", id=f"{long}r") == "RECEIPT"
    assert answer(eve, "SUBSCRIBE", destination="/temp-queue/q", id=f"{long}0") == "RECEIPT"


def test_nobody_has_the_orphans_of_others_dropped_by_many_of_his_own(crowded) -> None:
    """
    Ann's answer waits for her, whatever Eve makes while she is away.
    """
    guarded = crowded(temporary_count_max=8)
    ann = guarded.connect("ann", **{"client-id": "c"})
    assert place(ann, "r") == "RECEIPT"
    temporaries = guarded.desk.broker.temporaries
    (queue,) = temporaries.queues.values()
    temporaries._orphan_ms = 60_000
    guarded.clients.remove(ann)
    ann.session.disconnected()
    for _ in ann.session.leaving():
        pass
    assert queue.owner is None
    eve = guarded.connect("eve")
    for number in range(20):
        place(eve, number)
    assert queue in temporaries.queues.values()
    assert len(temporaries.queues) < 8


def test_what_stands_on_temporary_queues_leaves_room_for_others(crowded) -> None:
    """
    Non-persistent messages of everybody have one bound; what is taken off counts no more.
    """
    memory = 16 << 20
    guarded = crowded(memory_bytes=memory)
    flow = guarded.desk.broker.flow
    eve, ann = guarded.connect("eve"), guarded.connect("ann")
    told = [answer(eve, "SEND", bytes(1 << 20), destination="/temp-queue/r") for _ in range(16)]
    assert "" in told, "it waits for room"
    assert memory // 2 < flow.volatile_bytes < memory * 7 // 8
    assert answer(ann, "SEND", b"question", destination="/temp-queue/r") == "RECEIPT"
    guarded.clients.remove(eve)
    eve.leave()
    guarded.desk.turn()
    assert flow.temporary_shares.of("eve") == 0
    assert flow.temporary_shares.of("ann") > len(b"question")
    assert place(ann, "r") == "RECEIPTMESSAGE"


def test_what_open_transactions_hold_leaves_room_for_others(crowded) -> None:
    """
    Whoever has his share is refused, by however many connections; what he ends counts no more.
    """
    bound = 16 << 20
    guarded = crowded(transactions_bytes_max=bound)
    flow = guarded.desk.broker.flow
    told, eves = [], []
    for size in (1 << 20, 1 << 10, 1):
        for _ in range(2):
            eves.append(guarded.connect("eve"))
            if answer(eves[-1], "BEGIN", transaction="t") != "RECEIPT":
                continue
            while not told or told[-1] == "RECEIPT":
                within = {"destination": "/temp-queue/r", "transaction": "t"}
                told.append(answer(eves[-1], "SEND", bytes(size), **within))
            told.append("RECEIPT")
    assert "transaction" in told
    assert bound * 7 // 10 < flow.held_bytes < bound * 8 // 10
    ann = guarded.connect("ann")
    assert answer(ann, "BEGIN", transaction="t") == "RECEIPT"
    wanted = {"destination": "/temp-queue/r", "transaction": "t"}
    assert answer(ann, "SEND", bytes(1 << 20), **wanted) == "RECEIPT"
    for eve in eves:
        guarded.clients.remove(eve)
        eve.leave()
    guarded.desk.turn()
    assert flow.held_shares.of("eve") == 0
    assert answer(ann, "COMMIT", transaction="t") == "RECEIPT"
    assert (flow.held_bytes, flow.held_shares.of("ann")) == (0, 0)


def test_a_wildcard_that_runs_goes_on_whatever_others_subscribe_to(crowded) -> None:
    """
    What it needs for a new queue is not asked of the share of its user: it was hung up on. Nor is
    it kept out as it comes back.
    """
    guarded = crowded(subscriptions_count_max=24)
    guarded.grant("sales", ALL, "queue://a.>")
    boss, ann, eve = guarded.connect("root"), guarded.connect("ann"), guarded.connect("eve")
    for number in range(7):
        boss.send(b"x", f"/queue/a.{number}")
    guarded.desk.turn()
    assert answer(ann, "SUBSCRIBE", destination="/queue/a.>", id="s").startswith("RECEIPT")
    had = [place(eve, number) for number in range(20)].count("RECEIPT")
    assert had == 12, "all but a sixth"
    for number in range(7, 9):
        boss.send(b"x", f"/queue/a.{number}")
        guarded.desk.turn()
    assert [it.command for it in ann.frames()] == ["MESSAGE"] * 2
    guarded.clients.remove(ann)
    ann.leave()
    guarded.desk.turn()
    again = guarded.connect("ann")
    assert answer(again, "SUBSCRIBE", destination="/queue/a.>", id="s").startswith("RECEIPT")
    assert not ann.session.is_closing


def test_by_a_wildcard_that_runs_nobody_has_all_subscriptions(crowded) -> None:
    """
    Who may make queues of a pattern came past his share by its wildcard, to all that there were:
    nobody else subscribed any more, and each running wildcard ended at its next queue.
    """
    guarded = crowded(subscriptions_count_max=40)
    guarded.add("bob", ["own"])
    guarded.grant("own", ALL, "queue://b.>")
    guarded.grant("sales", ALL, "queue://a.>")
    boss, ann, bob = guarded.connect("root"), guarded.connect("ann"), guarded.connect("bob")
    counts = guarded.desk.broker.flow.subscription_counts
    for each, wanted in ((ann, "/queue/a.>"), (bob, "/queue/b.>")):
        assert answer(each, "SUBSCRIBE", destination=wanted, id="w") == "RECEIPT"
    for number in range(29):
        assert answer(bob, "SEND", destination=f"/queue/b.{number}").endswith("RECEIPT")
        guarded.desk.turn()
    assert counts.of("bob") == 30, "three quarters, and it runs"  # With the wildcard itself.
    assert "w" in bob.session.subscriptions
    assert (
        answer(guarded.connect("ann"), "SUBSCRIBE", destination="/queue/a.x", id="s") == "RECEIPT"
    )
    bob.frames()
    boss.send(b"x", "/queue/b.more")
    guarded.desk.turn()
    (refused,) = (it for it in bob.frames() if it.command == "ERROR")
    assert refused.headers["message"].startswith("this user has 30 subscriptions, with")
    assert "at most three quarters of 40" in refused.headers["message"]
    boss.send(b"x", "/queue/a.new")
    guarded.desk.turn()
    assert [it.command for it in ann.frames()] == ["MESSAGE"], "the other's goes on"


def test_all_to_whom_nothing_is_granted_have_one_small_share(crowded) -> None:
    """
    A name alone is worth no more than none, however many there are of these.
    """
    guarded = crowded(temporary_count_max=40)
    for name in ("sam", "tim"):
        guarded.add(name, ["none"])
    told = [place(guarded.connect(("sam", "tim")[number % 2]), number) for number in range(20)]
    assert (told.count("RECEIPT"), set(told)) == (4, {"RECEIPT", "destination"})
    assert place(guarded.connect("ann"), "r") == "RECEIPT"
    refused = guarded.connect("sam").refusal("SUBSCRIBE", destination="/temp-queue/r", id="r")
    assert refused.headers["message"].startswith(
        "users to whom nothing is granted have 4 temporary queues together, at most a tenth of 40"
    )


def waits(client: StompClient, size: int) -> str:
    """Send to a queue that is full; give the code of the ERROR, or nothing where it waits."""
    wanted = {"destination": "/queue/full", "persistent": "true"}
    return answer(client, "SEND", bytes(size), **wanted)


def test_what_waits_for_room_leaves_room_for_others(crowded) -> None:
    """
    Eve has what she may have waiting, and Ann's waits none the less; what has gone counts no more.
    """
    bound = 1 << 20
    guarded = crowded(waiting_total_bytes_max=bound, waiting_bytes_max=bound)
    guarded.grant("sales", "read,write,admin", "queue://>")
    policy = json.dumps({"maxLength": 1, "overflow": "block"})
    guarded.desk.broker.receipts.record(PolicyRecord("queue://full", policy))
    guarded.desk.turn()
    ann, eve = guarded.connect("ann"), guarded.connect("eve")
    assert waits(ann, 1) == "RECEIPT"
    context = guarded.desk.context
    for size in (200_000, 10_000, 1_000):
        for _ in range(100):
            if waits(eve, size):
                break
        eves = [guarded.connect("eve") for _ in range(3)]
        assert [waits(each, size) for each in eves] == ["queue-full"] * 3
    assert waits(guarded.connect("eve"), 2 * bound) == "queue-full"
    had = context.waiting_shares.of("eve")
    assert bound * 7 // 10 < had == context.waiting_bytes <= bound * 3 // 4
    assert [waits(ann, 10_000) for _ in range(10)] == [""] * 10
    assert context.waiting_shares.of("ann") > 100_000
    guarded.clients.remove(eve)
    eve.leave()
    guarded.desk.turn()
    assert context.waiting_shares.of("eve") == 0
    assert waits(guarded.connect("eve"), 200_000) == ""
