"""
BEGIN, COMMIT and ABORT against a real broker: all or nothing, whatever happens between.
"""

from __future__ import annotations

import pytest

from holdfast.broker.settings import BrokerSettings


def live(desk, queue: str = "orders") -> list[int]:
    found = desk.broker.state.by_name.get(queue)
    return list(found.index.sequences(1, found.next_sequence)) if found is not None else []


def holding(desk, count: int = 4, **headers: str):
    """Give a client with so many deliveries, in an open transaction `t`."""
    client = desk.connect()
    for number in range(count):
        client.send(b"%d" % number)
    client.subscribe(**headers)
    client.ask("BEGIN", transaction="t")
    client.frames()
    return client


def test_commit_is_one_entry_over_several_destinations(desk) -> None:
    """
    Sends and acknowledgements of a transaction stand in one entry of the log.
    """
    client = holding(desk)
    entries = len(desk.log)
    client.send(b"a", "/queue/a", transaction="t")
    client.send(b"b", "/queue/b", transaction="t")
    client.ask("ACK", id="1-2", transaction="t")
    assert (live(desk), live(desk, "a"), live(desk, "b")) == ([1, 2, 3, 4], [], [])
    declared = len(desk.log)
    client.say("COMMIT", transaction="t", receipt="r")
    assert client.frames() == []
    desk.turn()
    assert client.frames()[0].headers["receipt-id"] == "r"
    assert (live(desk), live(desk, "a"), live(desk, "b")) == ([1, 3, 4], [1], [1])
    assert entries <= declared == len(desk.log) - 1
    assert desk.broker.flow.held_bytes == 0


def test_abort_undoes_everything(desk) -> None:
    """
    Nothing is sent, and what was acknowledged may be acknowledged again, without redelivery.
    """
    client = holding(desk)
    client.send(b"a", "/queue/a", transaction="t")
    client.say("ACK", id="1-1", transaction="t")
    (receipt,) = client.ask("ABORT", transaction="t", receipt="r")
    assert receipt.command == "RECEIPT"
    assert live(desk) == [1, 2, 3, 4]
    assert live(desk, "a") == []
    assert client.bodies() == []
    assert desk.broker.flow.held_bytes == 0
    client.ask("ACK", id="1-1")
    assert live(desk) == [2, 3, 4]
    assert client.refusal("COMMIT", transaction="t").headers["code"] == "transaction"


def test_after_abort_cumulative_acknowledgements_count_as_before(desk) -> None:
    """
    Several acknowledgements undone come back in the order of delivery.
    """
    client = holding(desk, 5, ack="client")
    client.say("ACK", id="1-2", transaction="t")
    client.say("ACK", id="1-4", transaction="t")
    client.ask("ABORT", transaction="t")
    client.ask("ACK", id="1-3")
    assert live(desk) == [4, 5]


def test_an_acknowledgement_twice_in_a_transaction_is_unknown(desk) -> None:
    """
    It left the window with the first.
    """
    client = holding(desk)
    client.say("ACK", id="1-1", transaction="t")
    error = client.refusal("ACK", id="1-1", transaction="t")
    assert error.headers["code"] == "unknown-delivery"


def test_a_transaction_opens_the_window(desk) -> None:
    """
    What is acknowledged in a transaction makes room for more, so large ones do not stop.
    """
    client = holding(desk, 3, prefetch_count="1")
    assert client.ask("ACK", id="1-1", transaction="t")[0].body == b"1"


def test_connection_loss_is_an_abort(desk) -> None:
    """
    What it acknowledged goes to the next consumer, in order and flagged; nothing was sent.
    """
    client = holding(desk)
    client.send(b"a", "/queue/a", transaction="t")
    client.ask("ACK", id="1-3", transaction="t")
    client.leave()
    other = desk.connect()
    other.subscribe()
    desk.turn()
    found = [(frame.body, frame.headers.get("redelivered")) for frame in other.frames()]
    assert found == [(b"0", "true"), (b"1", "true"), (b"2", "true"), (b"3", "true")]
    assert live(desk, "a") == []
    assert desk.broker.flow.held_bytes == 0


def test_commit_after_unsubscribe_keeps_its_acknowledgements(desk) -> None:
    """
    They belong to the transaction, not to the subscription: a confirmed COMMIT is all of it.
    """
    client = holding(desk)
    client.say("ACK", id="1-1", transaction="t")
    client.ask("UNSUBSCRIBE", id="s")
    other = desk.connect()
    other.subscribe()
    assert other.bodies() == ["1", "2", "3"]
    client.ask("COMMIT", transaction="t", receipt="r")
    assert live(desk) == [2, 3, 4]


def test_abort_after_unsubscribe_gives_back(desk) -> None:
    """
    The subscription is gone, so what it acknowledged goes to others, flagged.
    """
    client = holding(desk, 2)
    client.say("ACK", id="1-1", transaction="t")
    client.ask("UNSUBSCRIBE", id="s")
    client.ask("ABORT", transaction="t")
    other = desk.connect()
    other.subscribe()
    desk.turn()
    found = [(frame.body, frame.headers.get("redelivered")) for frame in other.frames()]
    assert found == [(b"0", "true"), (b"1", "true")]


def test_a_transaction_that_was_refused_a_part_cannot_commit(new_desk) -> None:
    """
    A client that sends ahead learns of the refusal too late: the rest must not go alone.
    """
    desk = new_desk(BrokerSettings(transaction_bytes_max=250))
    client = desk.connect()
    client.say("BEGIN", transaction="t")
    client.send(b"x" * 30, transaction="t", timestamp="1")
    client.send(b"x" * 300, transaction="t")
    client.send(b"x", transaction="t", timestamp="1")
    client.say("COMMIT", transaction="t", receipt="c")
    desk.turn()
    first, second = client.frames()
    assert first.headers["code"] == second.headers["code"] == "transaction"
    assert second.headers["receipt-id"] == "c"
    assert "250 bytes" in second.headers["message"]
    assert live(desk) == []
    assert desk.broker.flow.held_bytes == 0
    assert client.ask("BEGIN", transaction="t", receipt="r")[0].command == "RECEIPT"


@pytest.mark.parametrize(
    ("command", "headers"),
    [
        ("SEND", {"destination": "/queue/a.>"}),
        ("ACK", {"id": "1-99"}),
        ("ACK", {"id": "ID:beef-1-1"}),
        ("NACK", {"id": "1-1"}),
        ("SEND", {"destination": "/remote-temp-queue/x"}),
    ],
)
def test_any_refused_part_spoils_the_whole(desk, command, headers) -> None:
    """
    All or nothing, from the client's side too.
    """
    client = holding(desk)
    client.send(b"a", "/queue/a", transaction="t")
    assert client.refusal(command, transaction="t", **headers)
    assert client.refusal("COMMIT", transaction="t").headers["code"] == "transaction"
    assert live(desk, "a") == []


def test_nack_in_a_transaction_is_refused_and_the_delivery_stays(desk) -> None:
    """
    As ActiveMQ: a rejection cannot be part of a transaction.
    """
    client = holding(desk)
    assert client.refusal("NACK", id="1-1", transaction="t").headers["code"] == "transaction"
    client.ask("ACK", id="1-1")
    assert live(desk) == [2, 3, 4]


def test_a_late_acknowledgement_waits_for_its_commit(desk) -> None:
    """
    After a failover a client repeats its transaction with message ids: settled only by COMMIT.
    """
    client = holding(desk, 2)
    desk.fail_over()
    client = desk.connect()
    client.say("BEGIN", transaction="t")
    (receipt,) = client.ask("ACK", id="ID:c0ffee-1-1", transaction="t", receipt="r")
    assert receipt.command == "RECEIPT"
    assert live(desk) == [1, 2]
    client.ask("ABORT", transaction="t")
    assert live(desk) == [1, 2]
    client.say("BEGIN", transaction="t")
    client.say("ACK", id="ID:c0ffee-1-1", transaction="t")
    client.ask("COMMIT", transaction="t")
    assert live(desk) == [2]


def test_a_queue_deleted_before_commit_is_declared_again(desk) -> None:
    """
    What was confirmed must not be stored for a queue that nobody can reach.
    """
    client = desk.connect()
    client.say("BEGIN", transaction="t")
    client.send(b"kept", transaction="t")
    client.ask("SEND", b"kept too", destination="/queue/orders", transaction="t")
    desk.broker.delete("orders", client.session, b"d")
    desk.turn()
    client.ask("COMMIT", transaction="t", receipt="r")
    client.subscribe()
    assert sorted(client.bodies()) == ["kept", "kept too"]
    assert sorted(desk.broker.state.queues) == [2]


@pytest.mark.parametrize("receipt", [{}, {"receipt": "r"}])
@pytest.mark.parametrize("destination", ["/topic/t", "/queue/q"])
def test_a_transaction_without_records_is_seen_after_commit(desk, destination, receipt) -> None:
    """
    Non-persistent sends alone write nothing, and must go out all the same.
    """
    client, other = desk.connect(), desk.connect()
    other.subscribe(destination, ack="auto")
    desk.turn()
    client.say("BEGIN", transaction="t")
    client.say("SEND", b"x", destination=destination, transaction="t")
    assert other.bodies() == []
    client.say("COMMIT", transaction="t", **receipt)
    assert other.bodies() == ["x"]
    assert len(client.frames()) == len(receipt)


def test_commit_has_one_producer_sequence(desk) -> None:
    """
    The whole transaction counts as one number: a retry after failover stores nothing twice.
    """
    for attempt in range(2):
        client = desk.connect()
        client.say("BEGIN", transaction="t")
        client.send(b"a", transaction="t")
        client.send(b"b", transaction="t")
        (receipt,) = client.ask(
            "COMMIT", transaction="t", producer_id="p", producer_sequence="1", receipt="r"
        )
        assert receipt.command == "RECEIPT"
        assert live(desk) == [1, 2]
        if not attempt:
            desk.fail_over()
    assert desk.broker.flow.held_bytes == 0


def test_a_commit_with_a_gap_is_refused_and_can_be_repeated(desk) -> None:
    """
    Nothing was done, so the transaction is still there.
    """
    client = holding(desk)
    client.send(b"a", "/queue/a", transaction="t")
    commit = {"transaction": "t", "producer_id": "p"}
    error = client.refusal("COMMIT", producer_sequence="2", **commit)
    assert error.headers["code"] == "producer-forgotten"
    assert client.refusal("COMMIT", producer_sequence="?", **commit).headers["code"] == "refused"
    client.ask("COMMIT", producer_sequence="1", **commit)
    assert live(desk, "a") == [1]


def test_a_full_store_refuses_a_commit_that_sends(desk) -> None:
    """
    Acknowledging goes on; the transaction can be committed when there is room again.
    """
    client = holding(desk)
    client.say("ACK", id="1-1", transaction="t")
    client.send(b"a", "/queue/a", transaction="t")
    client.say("BEGIN", transaction="u")
    client.ask("ACK", id="1-2", transaction="u")
    desk.context.refusal = "full"
    assert client.refusal("COMMIT", transaction="t").headers["code"] == "store-full"
    client.ask("COMMIT", transaction="u")
    assert live(desk) == [1, 3, 4]
    desk.context.refusal = None
    client.ask("COMMIT", transaction="t")
    assert (live(desk), live(desk, "a")) == ([3, 4], [1])


@pytest.mark.parametrize("command", ["COMMIT", "ABORT"])
def test_a_transaction_that_never_began_is_unknown(desk, command) -> None:
    """
    For its end, and for its parts.
    """
    client = desk.connect()
    assert client.refusal(command, transaction="t").headers["code"] == "transaction"
    error = client.refusal("SEND", destination="/queue/a", transaction="t", receipt="r")
    assert error.headers["code"] == "transaction"
    client.send(b"x")
    client.subscribe()
    desk.turn()
    client.frames()
    assert client.refusal("ACK", id="1-1", transaction="t").headers["code"] == "transaction"
    client.ask("ACK", id="1-1")
    assert live(desk) == []


def test_a_transaction_cannot_begin_twice(desk) -> None:
    """
    And the first is not harmed by the attempt.
    """
    client = holding(desk)
    client.send(b"a", "/queue/a", transaction="t")
    assert client.refusal("BEGIN", transaction="t").headers["code"] == "transaction"
    client.ask("COMMIT", transaction="t")
    assert live(desk, "a") == [1]


def test_open_transactions_together_have_a_limit(new_desk) -> None:
    """
    What is held until commit is memory too.
    """
    desk = new_desk(BrokerSettings(transactions_bytes_max=1200, message_memory_overhead_bytes=10))
    client = desk.connect()
    for name in ("t", "u", "v"):
        client.ask("BEGIN", transaction=name)
    client.send(b"x" * 450, transaction="t")
    client.send(b"x" * 450, transaction="u")
    error = client.refusal("SEND", b"x" * 450, destination="/queue/a", transaction="v")
    assert error.headers["code"] == "transaction"
    client.ask("ABORT", transaction="t")
    client.ask("ABORT", transaction="v")
    client.ask("COMMIT", transaction="u")
    assert desk.broker.flow.held_bytes == 0


def test_small_messages_of_open_transactions_count_as_what_they_take(new_desk) -> None:
    """
    A message without content is memory too: so many of them took gigabytes and counted for nothing.
    """
    desk = new_desk(BrokerSettings(transactions_bytes_max=2000, message_memory_overhead_bytes=400))
    client = desk.connect()
    client.ask("BEGIN", transaction="t")
    client.send(b"", transaction="t")
    client.say("SEND", b"", destination="/topic/t", transaction="t")
    error = client.refusal("SEND", b"", destination="/queue/a", transaction="t")
    assert error.headers["code"] == "transaction"
    client.ask("COMMIT", transaction="t")
    assert desk.broker.flow.held_bytes == 0


def test_empty_transactions_count_too(new_desk) -> None:
    """
    Over all connections: a client that begins and never ends leaves the others some room.
    """
    desk = new_desk(BrokerSettings(transactions_bytes_max=1000, message_memory_overhead_bytes=100))
    one, other = desk.connect(), desk.connect()
    for name in "ab":
        one.ask("BEGIN", transaction=name)
        other.ask("BEGIN", transaction=name)
    error = other.refusal("BEGIN", transaction="c")
    assert error.headers["code"] == "transaction"
    assert "at most 1,000" in error.headers["message"]
    one.ask("ABORT", transaction="a")
    other.ask("BEGIN", transaction="c")
    one.ask("COMMIT", transaction="b")
    for name in "abc":
        other.ask("COMMIT", transaction=name)
    assert desk.broker.flow.held_bytes == 0


def test_a_commit_without_room_is_refused_whole(new_desk) -> None:
    """
    A slow subscriber, or full memory: nothing is taken, and the same COMMIT may be repeated.
    """
    desk = new_desk(BrokerSettings(topic_pending_bytes_max=10, memory_bytes=100))
    client, slow = desk.connect(), desk.connect()
    slow.subscribe("/topic/t", ack="auto")
    slow.session.room_bytes = 0
    desk.connect().ask("SEND", b"x" * 50, destination="/topic/t")
    client.say("BEGIN", transaction="t")
    client.send(b"kept", transaction="t")
    client.ask("SEND", b"x", destination="/topic/t", transaction="t")
    error = client.refusal("COMMIT", transaction="t", producer_id="p", producer_sequence="1")
    assert error.headers["code"] == "store-full"
    assert desk.broker.state.live_count() == 0
    slow.session.room_bytes = 1000
    desk.broker.resume(slow.session)
    desk.turn()
    repeated = {"producer_id": "p", "producer_sequence": "1", "receipt": "r"}
    (receipt,) = client.ask("COMMIT", transaction="t", **repeated)
    assert receipt.command == "RECEIPT"
    assert desk.broker.state.live_count() == 1
    client.ask("SEND", b"x" * 50, destination="/queue/volatile")
    client.say("BEGIN", transaction="u")
    client.ask("SEND", b"x", destination="/queue/volatile", transaction="u")
    assert client.refusal("COMMIT", transaction="u").headers["code"] == "store-full"


# Receipts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_first_committed", [True, False])
def test_a_repeated_commit_waits_for_its_own_acknowledgements(
    desk, *, is_first_committed: bool
) -> None:
    """
    Its sends are stored or on their way; what the repetition acknowledges is not, before it is.
    """
    client = holding(desk)
    client.send(b"a", "/queue/a", transaction="t")
    client.say("COMMIT", transaction="t", producer_id="p", producer_sequence="1")
    desk.seal()
    if is_first_committed:
        desk.turn()
    client.say("BEGIN", transaction="again")
    client.send(b"a", "/queue/a", transaction="again")
    client.say("ACK", id="1-2", transaction="again")
    client.say(
        "COMMIT", transaction="again", producer_id="p", producer_sequence="1", receipt="again"
    )
    desk.commit()  # What was under way; the acknowledgement is not even sealed.
    assert live(desk) == [1, 2, 3, 4]
    assert client.frames() == []
    desk.turn()
    assert [frame.headers["receipt-id"] for frame in client.frames()] == ["again"]
    assert live(desk) == [1, 3, 4]
    assert live(desk, "a") == [1]


def test_what_commits_publish_has_a_bound(new_desk) -> None:
    """
    As long as too much of it is on its way to subscribers, one more COMMIT is refused whole.
    """
    desk = new_desk(BrokerSettings(spread_bytes_max=500, message_memory_overhead_bytes=400))
    client, reader = desk.connect(), desk.connect()
    reader.subscribe("/topic/t", ack="auto")
    for name in ("t", "u"):
        client.say("BEGIN", transaction=name)
        for _ in range(2):
            client.say("SEND", b"x", destination="/topic/t", transaction=name)
    client.say("COMMIT", transaction="t")
    desk.seal()
    desk.commit()
    assert client.refusal("COMMIT", transaction="u").headers["code"] == "store-full"
    desk.turn()
    client.say("COMMIT", transaction="u", receipt="u")
    desk.turn()
    desk.turn()
    assert len([it for it in reader.frames() if it.command == "MESSAGE"]) == 4


def test_a_commit_may_say_whose_producers_are_done_with(desk) -> None:
    """
    Those under lower numbers of a name are forgotten; what the transaction holds is committed too.
    """
    client = desk.connect()
    for number in (1, 2, 3):
        client.send(b"x", producer_id=f"spark-query-{number}-0", producer_sequence="1")
    desk.turn()
    client.ask("BEGIN", transaction="t")
    client.send(b"more", transaction="t")
    named = {"holdfast_forget": "spark-query", "holdfast_forget_before": "3"}
    (receipt,) = client.ask("COMMIT", transaction="t", receipt="r", **named)
    desk.broker.errands.finish()
    desk.turn()
    assert receipt.headers["receipt-id"] == "r"
    floor = "holdfast-finished:spark-query"
    assert set(desk.broker.state.producers.by_id) == {"spark-query-3-0", floor}
    late = client.refusal(
        "SEND",
        destination="/queue/orders",
        persistent="true",
        producer_id="spark-query-2-0",
        producer_sequence="1",
    )
    assert late.headers["code"] == "producer-finished"
    assert live(desk) == [1, 2, 3, 4]


@pytest.mark.parametrize(("name", "before"), [("", "1"), ("short", "1"), ("spark-query", "soon")])
def test_a_commit_that_names_no_producers_is_refused(desk, name, before) -> None:
    """
    Neither everybody's nor nobody's: nothing of it is done.
    """
    client = desk.connect()
    client.send(b"x", producer_id="spark-query-0-0", producer_sequence="1")
    client.ask("BEGIN", transaction="t")
    named = {"holdfast_forget": name, "holdfast_forget_before": before}
    assert client.refusal("COMMIT", transaction="t", **named).headers["code"] == "refused"
    assert set(desk.broker.state.producers.by_id) == {"spark-query-0-0"}
