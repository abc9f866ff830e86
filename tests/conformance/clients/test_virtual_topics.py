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
