"""
Selectors on a queue, over the death of leaders: who wants a message gets it, and nobody else.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from holdfast.testing.local_cluster import LocalCluster
from trials.clients.stomp_socket import StompSocket, connected

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUEUE = "/queue/replies"
STEPS = "/queue/steps"
ROUNDS_MAX = 3000
"""Looks at all clients; each waits a moment."""


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


class Grouped:
    """
    Messages in groups, of which three select by kind; counted over the death of a leader.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.sent = [(f"g{number % 7}", "abc"[number % 3]) for number in range(84)]
        with connected(cluster) as sender:
            for number, (group, kind) in enumerate(self.sent):
                headers = {"JMSXGroupID": group, "kind": kind}
                assert sender.publish(STEPS, b"%d" % number, headers).command == "RECEIPT"
        self.settled: list[int] = []
        self.seen: set[int] = set()

    def take(self, count: int, settled: int) -> None:
        """Take so many and settle some; none of a group while somebody else has some of it."""
        holders: dict[str, str] = {}
        clients = {kind: self._consumer(kind) for kind in "abc"}
        with ExitStack() as stack:
            for client in clients.values():
                stack.enter_context(client)
            for _ in range(ROUNDS_MAX):
                for kind, client in clients.items():
                    try:
                        message = client.read_message(0.02)
                    except TimeoutError:
                        continue
                    number = int(message.body)
                    group, wanted = self.sent[number]
                    assert wanted == kind
                    assert number not in self.settled
                    assert message.is_redelivered or number not in self.seen
                    assert holders.setdefault(group, kind) == kind, f"{group} is in two hands"
                    self.seen.add(number)
                    count -= 1
                    if settled > 0:
                        settled -= 1
                        assert client.acknowledge(message).command == "RECEIPT"
                        self.settled.append(number)
                        del holders[group]
                if count <= 0:
                    return
        raise AssertionError(f"{count} never came")

    def _consumer(self, kind: str) -> StompSocket:
        window = {"destination": STEPS, "activemq.prefetchSize": "1"}
        return consumer(self.cluster, f"kind = '{kind}'", **window)

    def take_the_rest(self) -> None:
        """Each comes once more, until it is settled; those of one kind and group in their order."""
        before = len(self.settled)
        self.take(len(self.sent) - before, settled=len(self.sent))
        assert sorted(self.settled) == [*range(len(self.sent))]
        for stream in set(self.sent):
            rest = [number for number in self.settled[before:] if self.sent[number] == stream]
            assert rest == sorted(rest)


def test_each_gets_its_own_whoever_leads(start_cluster: Any) -> None:
    """
    Q18, Q20 over a failover: what was in delivery and what nobody selected is all there; each comes
    to whoever selects it, in order, read from the log by a leader that has none of it in memory.
    Where it is in groups (Q6), each is in one hand, and by counts all comes until it is settled.
    """
    cluster = start_cluster("three", is_patient=True)
    groups = Grouped(cluster)
    with connected(cluster) as sender:
        for number in range(300):
            headers = {"correlation-id": f"c{number % 100}", "number": f"{number}"}
            assert sender.publish(QUEUE, b"%d" % number, headers).command == "RECEIPT"
    with consumer(cluster, "JMSCorrelationID = 'c7'") as first:
        held = [first.read_message() for _ in range(3)]
        assert [each.body for each in held] == [b"7", b"107", b"207"]
        assert first.ask("ACK", {"id": held[0].headers["ack"]}).command == "RECEIPT"
        groups.take(13, settled=10)
        fail_over(cluster)
    groups.take_the_rest()
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
