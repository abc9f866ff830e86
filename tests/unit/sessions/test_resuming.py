"""
A connection that reads slowly: its subscriptions have their turns, though none of them runs dry.
"""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.model.format_level import NEWEST_LEVEL


@pytest.mark.parametrize("kind", ["queue", "topic"])
@pytest.mark.parametrize("mode", ["auto", "client-individual"])
def test_no_subscription_of_a_slow_reader_is_starved(desk, kind, mode) -> None:
    """
    Where the connection has room for a message or two at a time, each of its subscriptions gets
    some, whichever it named first.
    """
    desk.broker.state.format_level = NEWEST_LEVEL
    client = desk.connect()
    client.session.room_bytes = 0
    for name in "abc":
        client.subscribe(f"/{kind}/{name}", id=name, ack=mode, activemq__prefetchSize="1000")
    producer = desk.connect()
    for number in range(30):
        for name in "abc":
            producer.say("SEND", b"%03d" % number, destination=f"/{kind}/{name}")
    desk.turn()
    found: Counter[str] = Counter()
    for _ in range(9):
        client.session.room_bytes = 1
        desk.broker.resume(client.session)
        desk.turn()
        found.update(it.headers["subscription"] for it in client.frames())
    assert found == {"a": 3, "b": 3, "c": 3}
