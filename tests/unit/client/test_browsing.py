"""
Looking through a queue: what is acknowledged only makes room, and settles nobody's message.
"""

from __future__ import annotations

import pytest
from scripted_broker import ScriptedBroker
from two_leaders import QUEUE, filled, take

from holdfast.client import connect
from holdfast.client.browsing import BrowsingSubscription, says_browser
from holdfast.client.consumer import Subscription
from holdfast.errors import LocalProtocolError, TransactionError


def end(broker: ScriptedBroker) -> None:
    """Say that all was shown."""
    (frame,) = broker.frames("SUBSCRIBE")[-1:]
    (connection,) = broker.connections
    name = frame.headers["id"]
    headers = {"subscription": name, "destination": QUEUE, "message-id": "ID:e", "browser": "end"}
    connection.send("MESSAGE", b"", **headers)


async def test_it_ends_when_all_was_shown() -> None:
    """What came before is taken first; the broker is told, and asked no more."""
    async with ScriptedBroker(filled("1", "2")) as broker, connect(broker.uri) as connection:
        async with connection.subscribe(QUEUE, browse=True, prefetch=5) as looking:
            assert isinstance(looking, BrowsingSubscription)
            assert broker.frames("SUBSCRIBE")[0].headers["browser"] == "true"
            (first,) = await take(looking, 1)
            end(broker)
            await broker.saw(lambda: broker.frames("UNSUBSCRIBE"))
            assert [message.text async for message in looking] == ["2"]
            assert await looking.receive(5) is None
            await first.acknowledge(confirm=True)
        assert len(broker.frames("UNSUBSCRIBE")) == 1
        assert broker.settlements == []


async def test_an_acknowledgement_makes_room_by_the_delivery() -> None:
    """And is said once."""
    async with (
        ScriptedBroker(filled("1", "2")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE, browse=True) as looking,
    ):
        one, _ = await take(looking, 2)
        for _ in range(2):
            await one.acknowledge()
        await broker.saw(lambda: broker.settlements)
        assert [frame.id for frame in broker.settlements] == [one.delivery_id.encode()]


async def test_nothing_is_said_of_it_on_another_link() -> None:
    """Neither what was acknowledged before the link was lost, nor after: it stays on its queue."""
    async with ScriptedBroker(filled("1", "2")) as broker:
        async with connect(broker.failover()) as connection:
            async with connection.subscribe(QUEUE, headers={"browser": "true"}) as looking:
                one, two = await take(looking, 2)
                broker.hang_up()
                await one.acknowledge()
                again = await take(looking, 2)
                await two.acknowledge()
                assert [message.text for message in again] == ["1", "2"]
            await two.acknowledge()
        assert broker.settlements == []


async def test_it_cannot_be_rejected_nor_be_part_of_a_transaction() -> None:
    """Nobody's delivery it is."""
    async with (
        ScriptedBroker(filled("1")) as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUEUE, browse=True) as looking,
    ):
        (one,) = await take(looking, 1)
        with pytest.raises(LocalProtocolError, match="only looked at"):
            await one.reject()
        with pytest.raises(TransactionError, match="only looked at"):
            async with connection.transaction() as transaction:
                await transaction.acknowledge(one)


@pytest.mark.parametrize(
    ("headers", "destination", "browses"),
    [
        ({}, "/queue/a", False),
        ({"browser": "true"}, "/queue/a", True),
        ({"activemq.browser": "true"}, "/queue/a", True),
        ({}, "/queue/a?consumer.browser=true", True),
        ({"browser": "false"}, "/queue/a?consumer.browser=true", False),
        ({"browser": " true "}, "/queue/a", True),
        ({"activemq.browser": "true", "browser": "false"}, "/queue/a", False),
        ({}, "/queue/a?consumer.browser=%74rue", True),
        ({}, "/queue/a?consumer.browser=true%20", True),
        ({}, "/queue/a?consumer.browser=trueish", False),
        ({}, "/queue/a?xconsumer.browser=true", False),
        ({}, "/queue/consumer.browser=true", False),
        ({}, "/queue/a?consumer.browser=true&consumer.browser=false", False),
        ({}, "/queue/a?" + "&".join(["consumer.browser=true"] * 65), False),
    ],
)
async def test_it_is_known_by_whatever_name(headers, destination, browses) -> None:
    """As the broker knows it."""
    assert says_browser(headers, destination) is browses
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        kind = type(connection.subscribe(destination, headers=headers))
        assert kind is (BrowsingSubscription if browses else Subscription)
