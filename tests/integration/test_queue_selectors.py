"""
Selectors on a queue, over the death of leaders: who wants a message gets it, and nobody else.
"""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.testing.local_cluster import LocalCluster
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUEUE = "/queue/replies"


def connected(cluster: LocalCluster) -> StompSocket:
    """A connection to the leader, which waits patiently for answers."""
    client = StompSocket(cluster.leader().stomp_port, timeout_seconds=60.0)
    client.connect()
    return client


def consumer(cluster: LocalCluster, selector: str, **headers: str) -> StompSocket:
    """A connection with a consumer that selects, who knows that it is there."""
    client = connected(cluster)
    wanted = {"destination": QUEUE, "id": "s", "ack": "client-individual", "selector": selector}
    assert client.ask("SUBSCRIBE", wanted | headers).command == "RECEIPT"
    return client


def fail_over(cluster: LocalCluster) -> None:
    killed = cluster.leader()
    killed.kill()
    cluster.leader()
    killed.start()
    killed.wait_until(lambda status: status["leader"] is not None, "back")


def test_each_gets_its_own_whoever_leads(start_cluster: Any) -> None:
    """
    Q18, Q20 over a failover: what was in delivery and what nobody selected is all there; each comes
    to whoever selects it, in order, read from the log by a leader that has none of it in memory.
    """
    cluster = start_cluster("three", is_patient=True)
    with connected(cluster) as sender:
        for number in range(300):
            headers = {"correlation-id": f"c{number % 100}", "number": f"{number}"}
            assert sender.publish(QUEUE, b"%d" % number, headers).command == "RECEIPT"
    with consumer(cluster, "JMSCorrelationID = 'c7'") as first:
        held = [first.read_message() for _ in range(3)]
        assert [each.body for each in held] == [b"7", b"107", b"207"]
        assert first.ask("ACK", {"id": held[0].headers["ack"]}).command == "RECEIPT"
        fail_over(cluster)
    with (
        consumer(cluster, "JMSCorrelationID = 'c7'") as again,
        consumer(cluster, "number >= 298") as last,
        consumer(cluster, "number = 5 AND JMSDeliveryMode = 'PERSISTENT'") as one,
    ):
        back = [again.read_message() for _ in range(2)]
        assert [(each.body, each.is_redelivered) for each in back] == [
            (b"107", True),
            (b"207", True),
        ]
        assert [last.read_message().body for _ in range(2)] == [b"298", b"299"]
        assert one.read_message().body == b"5"
        for client, messages in ((again, back),):
            for message in messages:
                assert client.ask("ACK", {"id": message.headers["ack"]}).command == "RECEIPT"
    with consumer(cluster, "number IS NOT NULL", **{"activemq.prefetchSize": "1000"}) as rest:
        bodies = [int(rest.read_message().body) for _ in range(297)]
    assert bodies == [number for number in range(300) if number not in {7, 107, 207}]
