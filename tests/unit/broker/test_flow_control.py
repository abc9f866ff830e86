"""
What clients make the leader hold has bounds.
"""

from __future__ import annotations

import pytest

from holdfast.broker.flow_control import FlowControl, require_room
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError, TransactionError


def test_transactions_hold_no_more_than_they_may() -> None:
    """
    What goes up to the bound is taken, a byte beyond it is refused, and says how much there is;
    what is refused counts for nothing.
    """
    flow = FlowControl(BrokerSettings(transactions_bytes_max=100))
    flow.hold(60)
    with pytest.raises(TransactionError, match="hold 60 bytes; at most 100"):
        flow.hold(41)
    flow.hold(40)
    flow.release(30)
    with pytest.raises(TransactionError, match="hold 70 bytes"):
        flow.hold(31)
    flow.forget_leadership()
    flow.hold(100)


def test_one_more_than_there_may_be_is_refused() -> None:
    """
    Whatever it is of.
    """
    require_room(9, 10, "queues")
    with pytest.raises(DestinationError, match="there are 10 queues already; at most 10"):
        require_room(10, 10, "queues")


def test_contents_beyond_the_memory_limit_are_left_in_the_log(new_desk, new_client) -> None:
    """
    The memory does not grow, and everything is delivered all the same.
    """
    desk = new_desk(BrokerSettings(memory_bytes=1000, message_memory_overhead_bytes=100))
    client = new_client()
    for _ in range(20):
        desk.send(b"x" * 50)
    desk.turn()
    assert desk.broker.flow.memory_bytes == 900
    subscription = desk.subscribe(client=client)
    desk.turn()
    assert client.keys == list(range(1, 21))
    for key in client.keys:
        desk.broker.acknowledge(subscription, key, client, None)
    desk.turn()
    assert desk.broker.flow.memory_bytes == 0
