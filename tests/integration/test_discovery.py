"""
Brokers that are found by DNS: a real nameserver, whose zone changes while clients are connected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from holdfast.client import Connection, Resumed, connect
from holdfast.discovery.candidates import Answer, NoAnswer
from holdfast.discovery.dns import look_up
from holdfast.discovery.question import DnsQuestion
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.nameservers.dnsmasq import DnsmasqServer, missing_dnsmasq

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SERVICE = "_holdfast._tcp.orders.test"
QUEUE = "/queue/orders"
SECONDS_MAX = 100.0
"""A test that waits longer waits for something that will not happen."""


@pytest.fixture(scope="module")
def nameserver() -> Iterator[DnsmasqServer]:
    """One server for these tests; each tells it what to answer."""
    if reason := missing_dnsmasq():
        pytest.skip(reason)
    with DnsmasqServer() as server:
        yield server


def zone(*nodes: LocalNode) -> list[str]:
    hosts = [f"host-record={it.name}.test,127.0.0.1" for it in nodes]
    return [*hosts, *(f"srv-host={SERVICE},{it.name}.test,{it.stomp_port},10,1" for it in nodes)]


def test_a_real_nameserver_is_understood(nameserver: DnsmasqServer) -> None:
    """N42. SRV before addresses, a service that is not offered, a name that is gone, a server that
    is killed: each is what it is."""
    question = DnsQuestion(
        name="orders.test", port=7, nameserver="127.0.0.1", nameserver_port=nameserver.port
    )
    host = "host-record=orders.test,127.0.0.8,::1"
    nameserver.answer(
        *(host, "host-record=a.test,127.0.0.2", "host-record=b.test,127.0.0.3"),
        *(f"srv-host={SERVICE},b.test,2,20,1", f"srv-host={SERVICE},a.test,1,10,1"),
    )
    found = look_up(question, 5.0)
    assert isinstance(found, Answer)
    assert [("127.0.0.2", 1, 10), ("127.0.0.3", 2, 20)] == [
        (it.host, it.port, it.priority) for it in found.candidates
    ]
    assert 1.0 == found.seconds
    nameserver.answer(host)
    found = look_up(question, 5.0)
    assert isinstance(found, Answer)
    assert {("127.0.0.8", 7), ("::1", 7)} == {(it.host, it.port) for it in found.candidates}
    nameserver.answer(host, f"srv-host={SERVICE}")
    found = look_up(question, 5.0)
    assert Answer((), 1.0, (f"{SERVICE} says that there is no service",)) == found
    nameserver.answer()
    found = look_up(question, 5.0)
    assert NoAnswer(f"{SERVICE} has no SRV records, and orders.test no addresses") == found
    nameserver.kill()
    assert isinstance(look_up(question, 0.3), NoAnswer)


async def follow(cluster: LocalCluster, nameserver: DnsmasqServer) -> None:
    """Send numbers while the leader is killed and the zone changed, then look what is there."""
    leader = cluster.leader()
    others = [it for it in cluster.nodes.values() if it is not leader]
    nameserver.answer(*zone(leader))
    sent: list[str] = []
    stopped, confirmed = asyncio.Event(), asyncio.Event()

    async def send(connection: Connection) -> None:
        while not stopped.is_set():
            await connection.send(QUEUE, str(len(sent)))
            sent.append(str(len(sent)))
            confirmed.set()

    async with connect(f"discovery:dns:orders.test?nameserver={nameserver.url()}") as connection:
        events = connection.events()
        sending = asyncio.create_task(send(connection))
        await confirmed.wait()
        leader.kill()
        nameserver.answer(*zone(*others))
        async for event in events:
            if isinstance(event, Resumed):
                assert event.address in {it.uri for it in others}
                break
        stopped.set()
        await sending
    received = []
    async with connect(cluster.uri) as connection, connection.subscribe(QUEUE) as rest:
        await connection.send(QUEUE, "end")
        while "end" not in received:
            received.append((await anext(rest)).text)
    assert [*sent, "end"] == received


def test_a_client_follows_the_zone_to_another_leader(
    start_cluster: Callable[..., LocalCluster], nameserver: DnsmasqServer
) -> None:
    """
    N42. It knew of the leader only, which is killed; the zone names the two others then. It asks
    again when the answer's time is over, goes on there, and all that was confirmed is there once.
    """
    cluster = start_cluster("three")
    asyncio.run(asyncio.wait_for(follow(cluster, nameserver), SECONDS_MAX))
