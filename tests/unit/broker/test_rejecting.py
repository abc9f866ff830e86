"""
Deliveries that end without being done. What clients see of it is tested through their sessions.
"""

from __future__ import annotations

from itertools import chain

import pytest

from holdfast.broker.subscription import AcknowledgeMode


@pytest.mark.parametrize("mode", list(AcknowledgeMode))
def test_a_withheld_delivery_is_neither_lost_nor_served(desk, new_client, mode) -> None:
    """
    Damaged bytes: it leaves the window, also of a consumer in auto mode, and the others go on.
    """
    for _ in range(3):
        desk.send(b"x")
    desk.turn()
    client = new_client()
    subscription = desk.subscribe(client=client, mode=mode, prefetch=2)
    for found, key, *_ in chain.from_iterable(desk.broker.dispatch()):
        if key == 1:
            desk.broker.withhold(found, key)
        else:
            client.deliveries.append((key, False))
    desk.turn()
    assert client.keys == [2, 3]
    assert 1 not in subscription.unacknowledged
    queue = desk.queue()
    assert queue.index.is_live(1)
    queue.withheld.discard(1)
    queue.give_back([1], redelivered=False)
    desk.state.touch(queue)
    for key in list(subscription.unacknowledged):
        desk.broker.acknowledge(subscription, key, client, None)
    desk.turn()
    assert client.keys == [2, 3, 1]
