"""
The ids of deliveries, as a client gives them back: one spelling each.
"""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("command", ["ACK", "NACK"])
@pytest.mark.parametrize("key", ["1_0", "+10", " 10", "10 ", "010", "1-0", "- 10", "--10", "", "-"])
def test_an_id_has_one_spelling(desk, command, key) -> None:
    """
    What int() takes for the number of a delivery names none: it was written otherwise.
    """
    client = desk.connect()
    for number in range(10):
        client.send(b"%d" % number, "/queue/orders")
    desk.turn()
    client.subscribe(ack="client-individual")
    desk.turn()
    client.frames()
    error = client.refusal(command, id=f"1-{key}")
    assert error.headers["code"] == "unknown-delivery"
    assert desk.broker.state.live_count() == 10


@pytest.mark.parametrize("id", ["1--01", "1-- 1", "1--+1", "1---1", "1--1_0", "1-1"])
def test_the_id_of_what_is_not_kept_has_one_spelling(desk, id) -> None:
    """
    Its number is told with a minus: once, and nothing between the two.
    """
    client = desk.connect()
    client.subscribe("/topic/t")
    for number in range(10):
        client.ask("SEND", b"%d" % number, destination="/topic/t")
    assert client.refusal("ACK", id=id).headers["code"] == "unknown-delivery"
