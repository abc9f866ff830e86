"""
What clients are refused is counted by code, and each client is told of once.
"""

from __future__ import annotations


def test_refused_and_broken_frames_are_counted_by_code(desk) -> None:
    """
    Every ERROR is in the count, also the one that closes; of a client only the first is told.
    """
    told = []
    refusals = desk.context.refusals
    refusals.tell = lambda session, code, text: told.append((session.id, code, text))
    client, other = desk.connect(), desk.connect()
    client.say("ACK", id="1-1")
    client.say("ACK", id="1-1")
    client.raw(b"SEND\n\nno destination\x00")
    client.say("COMMIT", transaction="none")
    other.raw(b"NONSENSE\n\n\x00")
    assert refusals.by_code == {
        "unknown-delivery": 2,
        "missing-header": 1,
        "transaction": 1,
        "unknown-command": 1,
    }
    assert refusals.total == 5
    assert [(session, code) for session, code, _ in told] == [
        (client.session.id, "unknown-delivery"),
        (other.session.id, "unknown-command"),
    ]
    assert "NONSENSE" in told[1][2]
    errors = [frame.headers["code"] for frame in client.frames()]
    assert errors == ["unknown-delivery", "unknown-delivery", "missing-header", "transaction"]


def test_a_farewell_is_counted_and_not_told_of(desk) -> None:
    """
    Ten thousand clients may be sent away at once, for a reason that the log has already.
    """
    told = []
    desk.context.refusals.tell = lambda *what: told.append(what)
    desk.connect().session.farewell("the quorum is lost", "quorum-lost")
    assert desk.context.refusals.by_code == {"quorum-lost": 1}
    assert told == []


def test_options_that_nothing_obeys_are_told_of(desk) -> None:
    """
    They are cut off: an operator learns of it, and a frame is served all the same.
    """
    told = []
    desk.context.refusals.tell = lambda _session, code, text: told.append((code, text))
    client, other = desk.connect(), desk.connect()
    for _ in range(3):
        client.send(b"x", "/queue/orders?producer.windowSize=9")
    other.subscribe("/queue/orders?mystery=1&consumer.prefetchSize=5")
    assert other.bodies() == ["x"] * 3
    assert [code for code, _ in told] == ["ignored-option"] * 2
    assert "producer.windowSize" in told[0][1]
    assert "mystery" in told[1][1]
    assert desk.context.refusals.total == 0
