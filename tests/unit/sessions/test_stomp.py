"""
STOMP frames against a real broker: connecting, sending, subscribing, errors, leaving.
"""

from __future__ import annotations

import pytest

from holdfast.broker.settings import BrokerSettings


def headers_of(data: bytes) -> list[bytes]:
    return data.partition(b"\n\n")[0].splitlines()


# Connecting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_connected_says_who_we_are(desk, version) -> None:
    """
    CONNECTED carries the version, the session, the server and the node's place in its cluster.
    """
    headers = desk.connect(version, host="h").connected.headers
    assert headers["version"] == version
    assert headers["session"] == "n1-1-1"
    assert headers["server"] == "Holdfast/0.1"
    assert headers["heart-beat"] == "0,0"
    assert headers["holdfast-cluster"] == "c0ffee"
    assert headers["holdfast-term"] == "1"
    assert headers["holdfast-node"] == "n1"
    assert "holdfast-promotion" not in headers


def test_connected_says_by_which_promotion_the_cluster_goes_on(desk) -> None:
    """
    Where an operator has let a copy go on by force: terms of before and after cannot be compared.
    """
    desk.context.promotion = "2-1700000000000000"
    headers = desk.connect("1.2").connected.headers
    assert headers["holdfast-promotion"] == "2-1700000000000000"


def test_the_highest_common_version_is_taken(desk) -> None:
    """
    STOMP 1.2, Protocol Negotiation.
    """
    assert desk.connect("1.0,1.1,9.9").connected.headers["version"] == "1.1"


def test_no_common_version_is_an_error_that_lists_ours(desk) -> None:
    """
    STOMP 1.2, Protocol Negotiation: ERROR with the versions we speak, then close.
    """
    client = desk.connect("")
    client.raw(b"STOMP\naccept-version:9.9\nhost:h\n\n\0")
    (error,) = client.frames()
    assert error.command == "ERROR"
    assert error.headers["version"] == "1.0,1.1,1.2"
    assert error.headers["code"] == "version"
    assert client.session.is_closing


def test_heart_beats_are_promised_as_the_client_wants(desk) -> None:
    """
    As ActiveMQ does: the client's numbers swapped, though never more often than is sensible.
    """
    assert (
        desk.connect("1.2", heart_beat="5000,7000").connected.headers["heart-beat"] == "7000,5000"
    )
    assert desk.connect("1.2", heart_beat="1,0").connected.headers["heart-beat"] == "0,200"


def test_a_request_id_is_echoed(desk) -> None:
    """
    ActiveMQ's extension: clients tell answers to CONNECT apart by it.
    """
    connected = desk.connect("1.2", request_id="r1").connected
    assert connected.headers["response-id"] == connected.headers["receipt-id"] == "r1"


def test_a_frame_before_connect_closes(desk) -> None:
    """
    Nothing is served to who did not say CONNECT.
    """
    client = desk.connect("")
    client.raw(b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0")
    (error,) = client.frames()
    assert error.headers["code"] == "not-connected"
    assert client.session.is_closing


def test_what_follows_a_protocol_error_is_not_read(desk) -> None:
    """
    A connection that is being closed does nothing more, whatever stands behind the fault.
    """
    client = desk.connect()
    client.raw(b"NONSENSE\n\n\0SEND\ndestination:/queue/a\npersistent:true\n\nx\0")
    assert [frame.command for frame in client.frames()] == ["ERROR"]
    assert client.session.is_closing
    assert not desk.broker.receipts.has_batch()


# Sending ------------------------------------------------------------------------------------------


def test_a_persistent_message_is_confirmed_only_when_it_is_committed(desk) -> None:
    """
    The one promise: a RECEIPT for a persistent SEND means that it is stored.
    """
    client = desk.connect()
    client.send(b"x", receipt="r1")
    assert client.frames() == []
    desk.seal()
    assert client.frames() == []
    desk.commit()
    assert [frame.headers["receipt-id"] for frame in client.frames()] == ["r1"]


def test_receipts_come_in_the_order_of_the_sends(desk) -> None:
    """
    Over several batches the confirmations keep the order of the requests.
    """
    client = desk.connect()
    for number in range(4):
        client.send(b"x", receipt=str(number))
        if number % 2:
            desk.seal()
    desk.turn()
    assert [frame.headers["receipt-id"] for frame in client.frames()] == ["0", "1", "2", "3"]


def test_a_goodbye_waits_for_all_that_is_not_confirmed(desk) -> None:
    """
    Each goes when its message is out; what other frames asked for does not wait for them.
    """
    client = desk.connect()
    client.ask("SEND", destination="/queue/volatile")  # The queue is there, and nothing under way.
    for receipt in ("1", "2"):
        client.say("SEND", b"x", destination="/queue/volatile", receipt=receipt)
    client.say("BEGIN", transaction="t", receipt="3")
    client.say("DISCONNECT", receipt="1")
    assert [frame.headers["receipt-id"] for frame in client.frames()] == ["3"]
    assert not client.session.is_closing
    desk.confirm()
    assert [frame.headers["receipt-id"] for frame in client.frames()] == ["1", "2", "1"]
    assert client.session.is_closing


def test_a_receipt_is_echoed_byte_for_byte(desk) -> None:
    """
    Escapes in a receipt go back as they came.
    """
    client = desk.connect()
    client.raw(b"SEND\ndestination:/queue/a\nreceipt:a\\c\\\\b\n\nx\0")
    desk.turn()
    assert client.bytes() == b"RECEIPT\nreceipt-id:a\\c\\\\b\n\n\0"


def test_a_message_without_persistent_is_not_stored(desk) -> None:
    """
    As ActiveMQ has it: STOMP messages are non-persistent unless they say otherwise.
    """
    client = desk.connect()
    (receipt,) = client.ask("SEND", b"x", destination="/queue/a", receipt="1")
    assert receipt.command == "RECEIPT"
    assert desk.broker.state.live_count() == 0
    client.subscribe("/queue/a")
    desk.turn()
    (message,) = client.frames()
    assert message.body == b"x"
    assert "persistent" not in message.headers


def test_the_default_can_be_persistent(desk) -> None:
    """
    A setting turns it round; `persistent:false` still works.
    """
    desk.context.default_persistent = True
    client = desk.connect()
    client.ask("SEND", b"x", destination="/queue/a")
    client.ask("SEND", b"x", destination="/queue/a", persistent="false")
    assert desk.broker.state.live_count() == 1


def test_application_headers_come_through(desk) -> None:
    """
    STOMP 1.2, SEND: what the producer adds, the consumer sees; what is ours cannot be forged.
    """
    client = desk.connect()
    client.send(
        b"a\0b",
        content_length="3",
        kind="x:y",
        message_id="forged",
        redelivered="true",
        ack="9-9",
        receipt="r",
        producer_id="p",
        producer_sequence="1",
    )
    client.subscribe()
    desk.turn()
    receipt, message = client.frames()
    assert receipt.command == "RECEIPT"
    assert message.body == b"a\0b"
    assert message.headers["kind"] == "x:y"
    assert message.headers["message-id"] == "ID:c0ffee-1-1"
    assert message.headers["ack"] == "1-1"
    assert message.headers["timestamp"] == "1700000000000"
    hidden = {"redelivered", "receipt", "producer-id", "producer-sequence"}
    assert not hidden & set(message.headers)


def test_a_producers_own_timestamp_is_kept(desk) -> None:
    """
    ActiveMQ's header: ours is only the default.
    """
    client = desk.connect()
    client.send(b"x", timestamp="77")
    client.send(b"x", kind="k", timestamp="78")
    client.send(b"x", event_timestamp="79")
    client.subscribe()
    desk.turn()
    found = [frame.headers["timestamp"] for frame in client.frames()]
    assert found == ["77", "78", "1700000000000"]


def test_bytes_are_parsed_whatever_their_pieces(desk) -> None:
    """
    Frames over the ends of reads give the same messages.
    """
    client = desk.connect()
    data = b"".join(
        b"SEND\ndestination:/queue/orders\npersistent:true\ncontent-length:3\n\n%03d\0\n" % number
        for number in range(5)
    )
    for start in range(0, len(data), 7):
        client.raw(data[start : start + 7])
    client.subscribe()
    assert client.bodies() == ["000", "001", "002", "003", "004"]


def test_a_bare_name_is_a_queue_prefix_and_all(desk) -> None:
    """
    As ActiveMQ reads it: only the known prefixes are cut off.
    """
    client = desk.connect()
    client.send(b"1", "orders")
    client.send(b"2", "/dsub/orders")
    client.subscribe("/queue/orders", "1")
    client.subscribe("/queue//dsub/orders", "2")
    assert sorted(client.bodies()) == ["1", "2"]


def test_a_full_store_refuses_publishing_and_nothing_else(desk) -> None:
    """
    With no room on disk SEND gets `store-full`; acknowledgements and NP messages go on.
    """
    client = desk.connect()
    client.send(b"x")
    client.subscribe()
    desk.turn()
    client.frames()
    desk.context.refusal = "the disk is almost full"
    error = client.refusal("SEND", destination="/queue/orders", persistent="true", receipt="1")
    assert error.headers["code"] == "store-full"
    assert error.headers["message"] == "the disk is almost full"
    assert client.ask("ACK", id="1-1", receipt="2")[0].command == "RECEIPT"
    assert desk.broker.state.live_count() == 0
    desk.context.refusal = None
    client.send(b"y", receipt="3")
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["RECEIPT", "MESSAGE"]


def test_a_queue_that_was_deleted_is_declared_again(desk) -> None:
    """
    A producer keeps what its headers mean; a deleted queue must not swallow what it sends.
    """
    client = desk.connect()
    client.send(b"old")
    desk.turn()
    desk.broker.delete("orders", client.session, b"d")
    client.send(b"new 1")
    desk.turn()
    client.send(b"new 2")
    desk.turn()
    client.subscribe()
    assert client.bodies() == ["new 1", "new 2"]
    assert desk.broker.queue("orders").number == 2


# Producer sequences -------------------------------------------------------------------------------


def numbered(client, sequence: str, body: bytes = b"x", **headers: str):
    return client.ask(
        "SEND",
        body,
        destination="/queue/orders",
        persistent="true",
        producer_id="p",
        producer_sequence=sequence,
        receipt=f"r{sequence}",
        **headers,
    )


def test_a_retry_is_confirmed_again_and_stored_once(desk) -> None:
    """
    Also on another connection and after a failover: the last number is replicated.
    """
    client = desk.connect()
    assert [numbered(client, n)[0].command for n in ("1", "2")] == ["RECEIPT"] * 2
    assert numbered(client, "2")[0].command == "RECEIPT"
    desk.fail_over()
    client = desk.connect()
    assert [numbered(client, n)[0].command for n in ("1", "2", "3")] == ["RECEIPT"] * 3
    assert desk.broker.state.live_count() == 3


def test_a_retry_of_what_is_under_way_waits_for_it(desk) -> None:
    """
    A retry while the first is not committed must not be confirmed before it is.
    """
    client = desk.connect()
    other = desk.connect()
    for each in (client, other):
        each.send(b"x", producer_id="p", producer_sequence="1", receipt="r")
        desk.seal()
    assert client.frames() == other.frames() == []
    desk.turn()
    assert len(client.frames()) == len(other.frames()) == 1
    assert desk.broker.state.live_count() == 1


def test_a_full_store_confirms_a_retry_of_what_is_stored(desk) -> None:
    """
    Refused, its producer would give the number to another message, which would be dropped.
    """
    client = desk.connect()
    assert numbered(client, "1")[0].command == "RECEIPT"
    desk.fail_over()
    desk.context.refusal = "the disk is almost full"
    client = desk.connect()
    assert numbered(client, "1")[0].command == "RECEIPT"
    assert numbered(client, "2")[0].headers["code"] == "store-full"
    desk.context.refusal = None
    assert numbered(client, "2", b"y")[0].command == "RECEIPT"
    assert desk.broker.state.live_count() == 2


def test_a_full_store_confirms_a_retried_commit(desk) -> None:
    """
    The same for a transaction: it is stored once, and its producer hears so.
    """
    commit = {"transaction": "t", "producer_id": "p", "producer_sequence": "1", "receipt": "c"}
    for refusal in (None, "the disk is almost full"):
        desk.context.refusal = refusal
        client = desk.connect()
        client.ask("BEGIN", transaction="t")
        client.ask("SEND", destination="/queue/orders", persistent="true", transaction="t")
        assert client.ask("COMMIT", **commit)[0].command == "RECEIPT"
        desk.fail_over()
    client = desk.connect()
    client.ask("BEGIN", transaction="t")
    client.ask("SEND", destination="/queue/orders", persistent="true", transaction="t")
    answer = client.ask("COMMIT", **commit | {"producer_sequence": "2"})[0]
    assert answer.headers["code"] == "store-full"
    assert desk.broker.state.live_count() == 1


@pytest.mark.parametrize(
    ("sequence", "code"),
    [
        *(("2", "producer-forgotten"), ("0", "producer-sequence-gap")),
        *(("x", "refused"), ("", "refused"), ("-1", "refused"), ("9" * 30, "refused")),
    ],
)
def test_a_number_out_of_place_is_refused(desk, sequence, code) -> None:
    """
    A gap means that something earlier is missing; it is refused and the connection lives.
    """
    client = desk.connect()
    (error,) = numbered(client, sequence)
    assert (error.command, error.headers["code"]) == ("ERROR", code)
    assert numbered(client, "1")[0].command == "RECEIPT"


def test_a_producer_id_needs_a_number(desk) -> None:
    """
    An id without a number says nothing; an empty or endless id is refused.
    """
    client = desk.connect()
    send = {"destination": "/queue/a", "persistent": "true"}
    assert client.refusal("SEND", producer_id="p", **send).headers["code"] == "refused"
    for id in ("", "i" * 256):
        error = client.refusal("SEND", producer_id=id, producer_sequence="1", **send)
        assert "producer-id" in error.headers["message"]


# Subscribing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["activemq.noLocal", "activemq.retroactive"])
def test_what_is_not_served_is_refused_by_name(desk, header) -> None:
    """
    Ignoring a wish would deliver what nobody asked for: a clear ERROR instead.
    """
    client = desk.connect()
    client.raw(b"SUBSCRIBE\ndestination:/queue/a\nid:1\nreceipt:r\n%b:true\n\n\0" % header.encode())
    (error,) = client.frames()
    assert error.headers["code"] == "destination"
    assert header in error.headers["message"]
    assert not client.session.is_closing
    assert not client.session.subscriptions


def test_a_flag_that_is_false_is_no_wish(desk) -> None:
    """
    Clients that write every option with its default must be served.
    """
    client = desk.connect()
    (receipt,) = client.ask(
        "SUBSCRIBE", destination="/queue/a", id="1", browser="false", receipt="r"
    )
    assert receipt.command == "RECEIPT"


@pytest.mark.parametrize("ack", ["Client", "individual", ""])
def test_an_unknown_mode_is_refused(desk, ack) -> None:
    """
    STOMP 1.2, SUBSCRIBE: auto, client and client-individual.
    """
    error = desk.connect().refusal("SUBSCRIBE", destination="/queue/a", id="1", ack=ack)
    assert "client-individual" in error.headers["message"]


def test_the_receipt_of_subscribe_comes_before_its_messages(desk) -> None:
    """
    As ActiveMQ: with a receipt, dispatch starts only after it.
    """
    client = desk.connect()
    client.send(b"x")
    desk.turn()
    client.subscribe(receipt="r")
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["RECEIPT", "MESSAGE"]


def test_a_subscription_id_is_good_for_one(desk) -> None:
    """
    Two subscriptions of one id could not be told apart in ACK and UNSUBSCRIBE.
    """
    client = desk.connect()
    client.subscribe("/queue/a", "1")
    error = client.refusal("SUBSCRIBE", destination="/queue/b", id="1")
    assert "in use" in error.headers["message"]
    client.ask("UNSUBSCRIBE", id="1")
    assert client.ask("SUBSCRIBE", destination="/queue/b", id="1", receipt="r")


@pytest.mark.parametrize("header", ["activemq__prefetchSize", "prefetch_count"])
def test_prefetch_bounds_what_is_under_way(desk, header) -> None:
    """
    At most so many deliveries unacknowledged; each acknowledgement lets one more out.
    """
    client = desk.connect()
    for number in range(5):
        client.send(b"%d" % number)
    client.subscribe(**{header: "2"})
    assert client.bodies() == ["0", "1"]
    client.say("ACK", id="1-1")
    assert client.bodies() == ["2"]


def test_prefetch_zero_or_too_much_is_the_maximum(new_desk) -> None:
    """
    RabbitMQ's zero means no limit; ours is the most there is.
    """
    client = new_desk(BrokerSettings(prefetch_max=50)).connect()
    for wish in ("0", "51", "999999999"):
        client.subscribe("/queue/a", wish, prefetch_count=wish)
    assert [each.prefetch for each in client.session.subscriptions.values()] == [50] * 3
    assert client.refusal("SUBSCRIBE", destination="/queue/a", id="x", prefetch_count="many")


def test_1_0_knows_subscriptions_by_destination(desk) -> None:
    """
    Without an id MESSAGE has no subscription header, and UNSUBSCRIBE names the destination.
    """
    client = desk.connect("1.0")
    client.send(b"x")
    client.ask("SUBSCRIBE", destination="/queue/orders")
    client.send(b"y")
    desk.turn()
    assert all("subscription" not in frame.headers for frame in client.frames())
    (receipt,) = client.ask("UNSUBSCRIBE", destination="/queue/orders", receipt="r")
    assert receipt.command == "RECEIPT"


def test_unsubscribe_gives_back_what_was_not_acknowledged(desk) -> None:
    """
    It goes to the next consumer, in its order and flagged.
    """
    client = desk.connect()
    other = desk.connect()
    for number in range(3):
        client.send(b"%d" % number)
    client.subscribe()
    assert client.bodies() == ["0", "1", "2"]
    client.ask("ACK", id="1-2")
    client.ask("UNSUBSCRIBE", id="s")
    other.subscribe()
    desk.turn()
    found = [(frame.body, frame.headers.get("redelivered")) for frame in other.frames()]
    assert found == [(b"0", "true"), (b"2", "true")]
    assert client.refusal("ACK", id="1-1").headers["code"] == "unknown-delivery"
    assert client.refusal("UNSUBSCRIBE", id="s").headers["code"] == "destination"


# Topics -------------------------------------------------------------------------------------------


def test_a_topic_goes_to_everyone_who_is_there(desk) -> None:
    """
    Also persistent messages: a topic without durable subscriptions keeps nothing.
    """
    publisher = desk.connect()
    publisher.send(b"nobody", "/topic/t", receipt="0")
    desk.turn()
    assert [frame.command for frame in publisher.frames()] == ["RECEIPT"]
    subscribers = [desk.connect(version) for version in ("1.0", "1.1", "1.2")]
    for each in subscribers:
        each.subscribe("/topic/t", ack="auto")
    publisher.send(b"all", "/topic/t", kind="a:b")
    desk.turn()
    for each in subscribers:
        (message,) = each.frames()
        assert (message.body, message.headers["kind"]) == (b"all", "a:b")
        assert message.headers["subscription"] == "s"
    assert desk.broker.state.live_count() == 0


def test_topic_acknowledgements_open_the_window(desk) -> None:
    """
    Prefetch holds on topics too; a late subscriber gets its backlog in order.
    """
    client = desk.connect()
    client.subscribe("/topic/t", prefetch_count="1")
    for number in range(3):
        client.ask("SEND", b"%d" % number, destination="/topic/t")
    assert client.ask("ACK", id="1--1")[0].body == b"1"
    assert client.ask("NACK", id="1--2")[0].body == b"2"
    assert client.refusal("ACK", id="1--1").headers["code"] == "unknown-delivery"
    assert "ActiveMQ.DLQ" not in desk.broker.destinations.queue_names()


# Temporary destinations -----------------------------------------------------------------------


def test_a_reply_finds_its_way(desk) -> None:
    """
    The request shows the temporary queue under a name that the other side can send to.
    """
    asker, server = desk.connect(), desk.connect()
    asker.subscribe("/temp-queue/answers", "a", ack="auto")
    server.subscribe("/queue/questions", "q", ack="auto")
    asker.ask("SEND", b"?", destination="/queue/questions", reply_to="/temp-queue/answers")
    desk.turn()
    (question,) = server.frames()
    reply_to = question.headers["reply-to"]
    assert reply_to == "/remote-temp-queue/n1-1-1.answers"
    server.ask("SEND", b"!", destination=reply_to, persistent="true")
    (answer,) = asker.frames()
    assert (answer.body, answer.headers["destination"]) == (b"!", "/temp-queue/answers")
    asker.leave()
    error = server.refusal("SEND", destination=reply_to)
    assert error.headers["code"] == "destination"
    assert desk.broker.flow.memory_bytes == 0


def test_a_reply_topic_finds_its_way_and_goes_with_its_connection(desk) -> None:
    """
    Temporary topics belong to a connection as temporary queues do.
    """
    asker, server = desk.connect(), desk.connect()
    asker.subscribe("/temp-topic/answers", "a", ack="auto")
    server.ask("SEND", b"!", destination="/remote-temp-topic/n1-1-1.answers")
    assert asker.bodies() == ["!"]
    server.ask("SEND", b"?", destination="/topic/temporary n1-1-1.answers")
    assert asker.bodies() == []
    asker.leave()
    assert server.refusal("SEND", destination="/remote-temp-topic/n1-1-1.answers")
    assert not desk.broker.temporaries.topics


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_only_its_own_connection_consumes_from_a_temporary_destination(desk, kind) -> None:
    """
    Else anybody who guesses the name could take the answers.
    """
    owner, thief = desk.connect(), desk.connect()
    owner.subscribe(f"/temp-{kind}/a")
    error = thief.refusal("SUBSCRIBE", destination=f"/remote-temp-{kind}/n1-1-1.a", id="1")
    assert error.headers["code"] == "destination"


def test_a_temporary_queue_that_is_gone_frees_its_memory_once(desk) -> None:
    """
    What was waiting and what was in delivery is accounted for exactly once.
    """
    owner, sender = desk.connect(), desk.connect()
    owner.subscribe("/temp-queue/a", prefetch_count="1")
    for _ in range(3):
        sender.ask("SEND", b"x", destination="/remote-temp-queue/n1-1-1.a")
    owner.leave()
    owner.leave()
    desk.broker.let_go(lambda: False)
    assert desk.broker.flow.memory_bytes == 0
    assert not desk.broker.temporaries.queues


# Leaving ------------------------------------------------------------------------------------------


def test_a_receipt_of_subscribing_waits_for_the_queue(desk) -> None:
    """
    A queue that it declares is there after a failover too: told only once that is so.
    """
    client = desk.connect()
    client.say("SUBSCRIBE", destination="/queue/new", id="s", receipt="1")
    desk.seal()
    assert client.frames() == []
    desk.turn()
    assert client.frames()[0].headers["receipt-id"] == "1"
    desk.fail_over()
    assert "new" in desk.broker.destinations.queue_names()


def test_a_receipt_of_unsubscribing_waits_for_what_was_settled(desk) -> None:
    """
    Who has left has done with all it was given: none of it comes again after that.
    """
    client = desk.connect()
    client.subscribe(ack="auto")
    client.send(b"x")
    assert client.bodies() == ["x"]
    client.send(b"y")
    desk.seal()
    desk.commit()
    desk.dispatch()
    assert client.frames()[0].body == b"y"
    client.say("UNSUBSCRIBE", id="s", receipt="1")
    assert client.frames() == []
    desk.turn()
    assert client.frames()[0].headers["receipt-id"] == "1"
    assert desk.broker.state.live_count() == 0


def test_the_goodbye_is_told_by_its_own_receipt(desk) -> None:
    """
    Not by that of an earlier frame which the client gave the same id.
    """
    client = desk.connect()
    client.send(b"x", receipt="same")
    desk.seal()
    client.send(b"y")
    client.say("DISCONNECT", receipt="same")
    desk.commit()
    assert len(client.frames()) == 1
    assert not client.session.is_closing
    assert desk.broker.state.live_count() == 1
    desk.turn()
    assert len(client.frames()) == 1
    assert client.session.is_closing
    assert desk.broker.state.live_count() == 2


def test_disconnect_is_answered_after_everything_before_it(desk) -> None:
    """
    The graceful way: the receipt of DISCONNECT says that all before it is done.
    """
    client = desk.connect()
    client.send(b"x", receipt="1")
    client.say("DISCONNECT", receipt="2")
    client.raw(b"SEND\ndestination:/queue/orders\npersistent:true\n\nlate\0")
    assert client.frames() == []
    assert not client.session.is_closing
    desk.turn()
    assert [frame.headers["receipt-id"] for frame in client.frames()] == ["1", "2"]
    assert client.session.is_closing
    assert desk.broker.state.live_count() == 1


def test_disconnect_without_receipt_closes_at_once(desk) -> None:
    """
    Nobody waits; what was sent before is stored all the same.
    """
    client = desk.connect()
    client.send(b"x")
    client.say("DISCONNECT")
    assert client.session.is_closing
    assert client.session in desk.context.dirty
    desk.turn()
    assert desk.broker.state.live_count() == 1


def test_a_lost_connection_gives_everything_back_in_order(desk) -> None:
    """
    Persistent and non-persistent messages return to the head as they were sent, flagged.
    """
    client, other = desk.connect(), desk.connect()
    client.subscribe(id="1")
    for number in range(8):
        kind = "true" if number % 3 == 0 else "false"
        client.ask("SEND", b"%d" % number, destination="/queue/orders", persistent=kind)
    client.leave()
    desk.turn()
    other.subscribe()
    desk.turn()
    frames = other.frames()
    assert [frame.body for frame in frames] == [b"%d" % number for number in range(8)]
    assert {frame.headers["redelivered"] for frame in frames} == {"true"}
    assert not client.session.subscriptions


def test_memory_comes_back_when_everything_is_acknowledged(desk) -> None:
    """
    Contents in memory and bytes under way are counted down to nothing.
    """
    client = desk.connect()
    client.subscribe(ack="client")
    for number in range(10):
        client.send(b"%d" % number, persistent="true" if number % 2 else "false")
    assert desk.broker.receipts.uncommitted_bytes > 0
    assert len(client.bodies()) == 10
    assert desk.broker.flow.memory_bytes > 0
    subscription = client.session.subscriptions["s"]
    client.ask("ACK", id=f"1-{list(subscription.unacknowledged)[-1]}")
    assert desk.broker.flow.memory_bytes == 0
    assert desk.broker.receipts.uncommitted_bytes == 0
    assert desk.broker.state.live_count() == 0


@pytest.mark.parametrize(
    ("command", "headers"),
    [
        ("SEND", {"destination": "/queue/a"}),
        ("SEND", {"destination": "/topic/a"}),
        ("SEND", {"destination": "/queue/a", "persistent": "true"}),
        ("SEND", {"destination": "/queue/a", "transaction": "t"}),
        ("SUBSCRIBE", {"destination": "/queue/a", "id": "9"}),
        ("UNSUBSCRIBE", {"id": "s"}),
        ("ACK", {"id": "1-1"}),
        ("ACK", {"id": "1-1", "transaction": "t"}),
        ("NACK", {"id": "1-1"}),
        ("BEGIN", {"transaction": "u"}),
        ("COMMIT", {"transaction": "t"}),
        ("ABORT", {"transaction": "t"}),
        ("DISCONNECT", {}),
    ],
)
def test_every_frame_honours_its_receipt(desk, command, headers) -> None:
    """
    STOMP 1.2, Standard Headers: any client frame but CONNECT may ask for a receipt.
    """
    client = desk.connect()
    client.send(b"x")
    client.subscribe()
    client.ask("BEGIN", transaction="t")
    frames = client.ask(command, receipt="r7", **headers)
    assert [f.headers["receipt-id"] for f in frames if f.command == "RECEIPT"] == ["r7"]
