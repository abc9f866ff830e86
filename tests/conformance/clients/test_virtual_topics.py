"""
Virtual topics from outside: stomp.py as two applications, and what they have after leaders died.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.client import connect
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from tests.conformance.clients.stomp_py import VERSIONS, Listener
from tests.conformance.clients.test_several_destinations import send_over_failovers, taken
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 60


def consumer(broker: LocalNode, version: str, place: str) -> tuple[Any, Listener]:
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    connection.subscribe(place, id="1", ack="auto", receipt="yes")
    assert listener.next().headers["receipt-id"] == "yes"
    return connection, listener


@pytest.mark.parametrize("version", list(VERSIONS))
def test_two_applications_get_each_message_once(broker: LocalNode, version: str) -> None:
    """
    Two consumers of one application share its queue; what comes while it is away waits there.
    """
    name = f"VirtualTopic.two-{version}"
    first, heard_first = consumer(broker, version, f"/queue/Consumer.A.{name}")
    second, heard_second = consumer(broker, version, f"/queue/Consumer.A.{name}")
    other, _ = consumer(broker, version, f"/queue/Consumer.B.{name}")
    other.disconnect()
    live, heard_live = consumer(broker, version, f"/topic/{name}")
    for body in ("1", "2"):
        live.send(f"/topic/{name}", body, headers={"persistent": "true"})

    assert sorted(it.next().body for it in (heard_first, heard_second)) == ["1", "2"]
    assert [heard_live.next().body for _ in range(2)] == ["1", "2"]
    assert taken(broker, f"/queue/Consumer.B.{name}", 2) == [b"1", b"2"]
    for each in (first, second, live):
        each.disconnect()


def test_both_have_each_once_when_leaders_die(tmp_path: Path) -> None:
    """
    kill -9 of the leader, twice, under a stream for two applications that are away.
    """
    places = [f"/queue/Consumer.{who}.VirtualTopic.orders" for who in "AB"]
    bodies = [b"%d" % number for number in range(600)]

    async def come_once(cluster: LocalCluster) -> None:
        async with connect(cluster.uri) as connection:
            for place in places:
                async with connection.subscribe(place):
                    pass

    with LocalCluster(tmp_path / "c", "three") as cluster:
        cluster.start()
        asyncio.run(come_once(cluster))
        asyncio.run(send_over_failovers(cluster, "/topic/VirtualTopic.orders", bodies))
        for place in places:
            assert taken(cluster.leader(), place, len(bodies)) == bodies


@pytest.mark.parametrize("version", list(VERSIONS))
def test_an_application_gets_topics_that_nobody_named_before(
    broker: LocalNode, version: str
) -> None:
    """
    Stomp.py by a wildcard: what comes while it is away, and what comes while it is there.
    """
    name = f"VirtualTopic.wild-{version}"
    place = f"/queue/Consumer.A.{name}.>"
    away, _ = consumer(broker, version, place)
    away.disconnect()
    with StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS) as sender:
        sender.connect()
        for topic, body in ((f"/topic/{name}", b"0"), (f"/topic/{name}.eu.fr", b"1")):
            assert sender.publish(topic, body).command == "RECEIPT"
    back, heard = consumer(broker, version, place)
    assert sorted(heard.next().body for _ in range(2)) == ["0", "1"]
    back.send(f"/topic/{name}.us", "2", headers={"persistent": "true"})
    frame = heard.next()
    assert (frame.body, frame.headers["destination"]) == ("2", f"/queue/Consumer.A.{name}.us")
    back.disconnect()


def test_topics_named_while_leaders_die_are_not_missed(tmp_path: Path) -> None:
    """
    kill -9 of the leader, twice, under a stream to ever new topics for an application that is away.
    """
    bodies = [b"%d" % number for number in range(300)]

    async def come_once(cluster: LocalCluster) -> None:
        async with connect(cluster.uri) as connection:
            async with connection.subscribe("/queue/Consumer.A.VirtualTopic.>"):
                pass

    async def take_all(cluster: LocalCluster) -> list[bytes]:
        async with connect(cluster.uri) as connection:
            async with connection.subscribe("/queue/Consumer.A.VirtualTopic.>") as subscription:
                found = []
                for _ in bodies:
                    message = await asyncio.wait_for(anext(subscription), PATIENCE_SECONDS)
                    found.append(message.body)
                    await message.acknowledge()
                return found

    with LocalCluster(tmp_path / "c", "three") as cluster:
        cluster.start()
        asyncio.run(come_once(cluster))
        first, *more = (f"/topic/VirtualTopic.t{number}" for number in range(20))
        asyncio.run(send_over_failovers(cluster, first, bodies, *more))
        assert sorted(asyncio.run(take_all(cluster))) == sorted(bodies)
