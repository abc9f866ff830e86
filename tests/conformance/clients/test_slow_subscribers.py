"""
Subscribers of a topic that let old messages go, and consumers that are ended as they are slow:
stomp.py in each version, a raw socket, and our client library.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from holdfast.client import connect
from holdfast.errors import SlowConsumerError
from holdfast.testing.local_cluster import LocalNode
from tests.conformance.clients.stomp_py import VERSIONS, Listener
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 60
SENT = 50


def publish_all(broker: LocalNode, place: str) -> None:
    with StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS) as client:
        client.connect()
        for number in range(SENT):
            assert client.publish(place, b"%d" % number, {"persistent": "false"}).command


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_stomp_py_gets_what_it_holds_and_the_newest(broker: LocalNode, version: str) -> None:
    """
    Two in delivery, three that may wait: those sent last.
    """
    place = f"/topic/prices-{version}"
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    limits = {"activemq.prefetchSize": "2", "activemq.maximumPendingMessageLimit": "3"}
    connection.subscribe(
        place, id="1", ack="client-individual", headers=limits | {"receipt": "subscribed"}
    )
    assert listener.next().cmd == "RECEIPT"
    publish_all(broker, place)
    found = []
    for _ in range(5):
        frame = listener.next()
        found.append(int(frame.body))
        if version == "1.1":
            connection.ack(frame.headers["message-id"], "1")
        else:
            connection.ack(frame.headers["ack"])
    assert found == [0, 1, SENT - 3, SENT - 2, SENT - 1]
    connection.disconnect()


def test_a_policy_says_it_for_all_who_subscribe(broker: LocalNode) -> None:
    """
    A socket that says nothing; `/metrics` counts what was dropped.
    """
    values = ["topicPrefetch=1", "prefetchRatePendingMessageLimitStrategy=2"]
    command = [sys.executable, "-m", "holdfast", "queues", "set", "topic://rates", *values]
    subprocess.run([*command, "--admin", broker.admin], check=True, capture_output=True)
    before = broker.status()["messages"]["evicted"]
    with StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS) as client:
        client.connect()
        client.subscribe("/topic/rates")
        publish_all(broker, "/topic/rates")
        found = []
        for _ in range(3):
            message = client.read_message()
            found.append(int(message.body))
            client.send("ACK", {"id": message.headers["ack"]})
    assert found == [0, SENT - 2, SENT - 1]
    assert broker.status()["messages"]["evicted"] - before == SENT - 3


SLOW = [
    "slowConsumerStrategy=abortSlowConsumerStrategy",
    "maxSlowDuration=1000",
    "checkPeriod=1000",
]


def set_policy(broker: LocalNode, pattern: str, *values: str) -> None:
    command = [sys.executable, "-m", "holdfast", "queues", "set", pattern, *values]
    subprocess.run([*command, "--admin", broker.admin], check=True, capture_output=True)


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_stomp_py_is_told_which_consumer_is_ended(broker: LocalNode, version: str) -> None:
    """
    What it had comes to another consumer of the same connection, flagged; both were counted.
    """
    place = f"slow-{version}"
    set_policy(broker, f"queue://{place}", *SLOW)
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    one = {"activemq.prefetchSize": "1"}
    connection.subscribe(f"/queue/{place}", id="slow", ack="client-individual", headers=one)
    for body in ("a", "b"):
        connection.send(f"/queue/{place}", body, headers={"persistent": "true"})
    assert listener.next().body == "a"
    ended = listener.next()
    assert (ended.cmd, ended.headers["code"]) == ("ERROR", "slow-consumer")
    assert ended.headers["subscription"] == "slow"
    assert f"a consumer of queue '{place}' is slow" in ended.headers["message"]
    connection.subscribe(f"/queue/{place}", id="other", ack="auto")
    again = listener.next()
    assert (again.body, again.headers["JMSXDeliveryCount"]) == ("a", "2")
    assert listener.next().body == "b"
    connection.disconnect()
    assert broker.status()["consumers"]["aborted"] >= 1


def test_a_socket_that_acknowledges_nothing_is_closed_where_a_policy_says_so(
    broker: LocalNode,
) -> None:
    """
    With a last word; what it had on another queue comes again as well.
    """
    values = ["maxTimeSinceLastAck=1000", "checkPeriod=1000", "abortConnection=true"]
    set_policy(
        broker, "queue://silent", "slowConsumerStrategy=abortSlowAckConsumerStrategy", *values
    )
    with StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS) as client:
        client.connect()
        client.subscribe("/queue/silent")
        client.send("SUBSCRIBE", {"destination": "/queue/beside", "id": "2", "ack": "client"})
        for place in ("silent", "beside"):
            assert client.publish(f"/queue/{place}", b"x").command == "RECEIPT"
        last = client.read()
        while last.command != "ERROR":
            last = client.read()
        assert last.headers["code"] == "slow-consumer"
        with pytest.raises(ConnectionError):
            client.read()
    with StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS) as client:
        client.connect()
        for place in ("silent", "beside"):
            client.send("SUBSCRIBE", {"destination": f"/queue/{place}", "id": place})
            (message,) = client.read_queue(f"/queue/{place}")
            assert message.is_redelivered


def test_our_client_raises_it_where_messages_are_taken(broker: LocalNode) -> None:
    """
    Whoever goes on would wait for ever; the connection goes on with what else it has.
    """
    set_policy(broker, "queue://ours", *SLOW)

    async def take() -> None:
        async with connect(f"stomp://127.0.0.1:{broker.stomp_port}") as connection:
            one = {"acknowledge": "client-individual", "prefetch": 1}
            async with connection.subscribe("/queue/ours", **one) as slow:
                for body in (b"a", b"b"):
                    await connection.send("/queue/ours", body)
                assert (await slow.receive(PATIENCE_SECONDS)).body == b"a"
                with pytest.raises(SlowConsumerError, match="'ours' is slow"):
                    await slow.receive(PATIENCE_SECONDS)
            async with connection.subscribe("/queue/ours") as other:
                found = [await other.receive(PATIENCE_SECONDS) for _ in range(2)]
                assert [each.body for each in found] == [b"a", b"b"]

    asyncio.run(take())


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_stomp_py_hears_what_a_policy_lets_be_said(broker: LocalNode, version: str) -> None:
    """
    A raw socket sends, takes and acknowledges; each is said, and a message that nobody takes comes
    itself.
    """
    queue, topic = f"told-{version}", f"alone-{version}"
    keys = ("advisoryForDelivery", "advisoryForDispatched", "advisoryForConsumed")
    set_policy(broker, f"queue://{queue}", *(f"{key}=true" for key in keys))
    set_policy(broker, f"topic://{topic}", "sendAdvisoryIfNoConsumers=true")
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    names = ("MessageDelivered.Queue", "MessageDispatched.Queue", "MessageConsumed.Queue")
    for number, name in enumerate(names):
        place = f"/topic/ActiveMQ.Advisory.{name}.{queue}"
        connection.subscribe(place, id=str(number), ack="auto", headers={"receipt": name})
        assert listener.next().cmd == "RECEIPT"
    alone = f"/topic/ActiveMQ.Advisory.NoConsumer.Topic.{topic}"
    connection.subscribe(alone, id="alone", ack="auto", headers={"receipt": "r"})
    assert listener.next().cmd == "RECEIPT"
    with StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS) as client:
        client.connect()
        assert client.publish(f"/queue/{queue}", b"x").command == "RECEIPT"
        client.subscribe(f"/queue/{queue}")
        message = client.read_message()
        assert client.acknowledge(message).command == "RECEIPT"
        for name in names:
            frame = listener.next()
            assert frame.headers["destination"] == f"/topic/ActiveMQ.Advisory.{name}.{queue}"
            assert frame.headers["orignalMessageId"] == message.headers["message-id"].replace(
                "\\c", ":"
            )
        client.send("SEND", {"destination": f"/topic/{topic}", "colour": "red"}, b"heard?")
    passed = listener.next()
    assert (passed.body, passed.headers["colour"]) == ("heard?", "red")
    assert passed.headers["original-destination"] == f"topic://{topic}"
    connection.disconnect()
