"""
A client's new connection is served when its earlier ones have left, and these have been read.
"""

from __future__ import annotations

from holdfast.protocols.stomp.codec import encode_frame

HELLO = b"CONNECT\naccept-version:1.2\nhost:h\nclient-id:ann\n\n\0"
ASKED = b"SUBSCRIBE\nid:s\ndestination:/queue/last\nack:client\nreceipt:there\n\n\0"


def frame(command: str, body: bytes = b"", **headers: str) -> bytes:
    return encode_frame(command, list(headers.items()), body, "1.2")


def transaction(count: int) -> bytes:
    """One that sends so many messages."""
    sends = [
        frame("SEND", b"%d" % number, destination="/queue/q", persistent="true", transaction="t")
        for number in range(count)
    ]
    return frame("BEGIN", transaction="t") + b"".join(sends) + frame("COMMIT", transaction="t")


def lost_halfway(desk, count: int = 300):
    """A connection that is lost while the node is in the middle of what it sent."""
    first = desk.connect(client_id="ann")
    for number in range(200):
        first.say("SUBSCRIBE", id=str(number), destination=f"/queue/{number}", ack="client")
    first.frames()
    assert not first.session.receive(transaction(count), lambda: True)
    first.session.disconnected()
    return first


def come_again(desk):
    """The new connection, which has said what it wants."""
    again = desk.connect("")
    assert not again.session.receive(HELLO + ASKED, lambda: True)
    return again


def test_what_a_lost_connection_sent_is_done_before_its_client_is_served_again(desk) -> None:
    """
    Half of a transaction was committed, and what it opened afterwards was nobody's for ever.
    """
    first = lost_halfway(desk)
    again = come_again(desk)
    for _ in range(3):
        assert not again.session.proceed(lambda: False)
    assert not first.session.is_leaving
    while not first.session.proceed(lambda: True):
        assert not again.session.proceed(lambda: False)
    assert [it.command for it in again.frames()] == ["CONNECTED"]
    first.session.leave()
    assert again.session.proceed(lambda: False)
    desk.turn()
    assert [it.command for it in again.frames()] == ["RECEIPT"]
    desk.turn()
    assert desk.broker.queue("q").index.live_count == 300
    assert not desk.context.leaving_by


def test_nothing_more_is_done_for_who_is_leaving(desk) -> None:
    """
    What it opened then would be given back by nobody.
    """
    first = lost_halfway(desk)
    first.session.leave()
    first.session.proceed(lambda: False)
    first.session.receive(ASKED, lambda: False)
    assert not first.session.subscriptions
    assert not first.session.transactions
    desk.turn()
    assert "q" not in desk.broker.state.by_name or not desk.broker.queue("q").index.live_count


def test_who_is_lost_while_it_waits_lets_the_next_wait_for_all_of_them(desk) -> None:
    """
    The one that waited holds nothing itself; the first one still does.
    """
    first = lost_halfway(desk)
    second = come_again(desk)
    second.session.disconnected()
    second.session.leave()
    third = come_again(desk)
    assert not third.session.proceed(lambda: False)
    assert not first.session.is_leaving
    while not first.session.proceed(lambda: False):
        pass
    first.session.leave()
    assert third.session.proceed(lambda: False)
    desk.turn()
    assert [it.command for it in third.frames()] == ["CONNECTED", "RECEIPT"]
    assert not desk.context.leaving_by


def test_who_is_closing_is_waited_for(desk) -> None:
    """
    A durable subscription was in use for as long as the last words were not taken.
    """
    desk.broker.state.format_level = 12
    said = {"id": "s", "destination": "/topic/t", "activemq.subscriptionName": "s"}
    first = desk.connect(client_id="ann")
    first.say("SUBSCRIBE", **said)
    desk.turn()
    first.raw(b"NONSENSE\n\n\0")
    assert first.session.is_closing
    again = desk.connect(client_id="ann")
    again.say("SUBSCRIBE", receipt="r", **said)
    desk.turn()
    came = again.frames()
    assert [it.command for it in came] == ["RECEIPT"], came


def test_a_thousand_that_came_one_after_the_other_leave_in_a_row(desk) -> None:
    """
    Each waited for the one before it, and the last one's leaving broke.
    """
    lost_halfway(desk)
    for _ in range(1_500):
        come_again(desk).session.disconnected()
    last = come_again(desk)
    last.session.leave()
    assert not last.session.subscriptions


def test_a_client_of_ours_without_a_client_id_waits_for_all_of_them(desk) -> None:
    """
    It knew of the last one only, which held nothing and had left at once.
    """
    first = desk.connect(holdfast_client="secret")
    for number in range(200):
        first.say("SUBSCRIBE", id=str(number), destination=f"/queue/{number}", ack="client")
    hello = HELLO.replace(b"client-id:ann", b"holdfast-client:secret")

    def come():
        client = desk.connect("")
        client.session.receive(hello, lambda: True)
        return client

    second = come()
    assert not second.session.proceed(lambda: True)
    second.session.disconnected()
    second.session.leave()
    third = come()
    assert not third.session.proceed(lambda: True)
    assert first.session.subscriptions
    while not third.session.proceed(lambda: True):
        pass
    assert not first.session.subscriptions
    third.session.leave()
    assert not desk.context.leaving_shown
    assert not desk.context.shown_by
