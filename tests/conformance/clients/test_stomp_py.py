"""
stomp.py, a client that nobody here wrote, against a real broker, in every version of STOMP.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import stomp

from holdfast.testing.local_cluster import LocalCluster, LocalNode

pytestmark = [pytest.mark.processes, pytest.mark.slow]

VERSIONS = {
    "1.0": stomp.Connection10,
    "1.1": stomp.Connection11,
    "1.2": stomp.Connection12,
}
PATIENCE_SECONDS = 10


class Listener(stomp.ConnectionListener):
    """Keeps what arrives."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Any] = queue.Queue()
        self.errors: queue.Queue[Any] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.beats = threading.Semaphore(0)
        self.disconnected = threading.Event()

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame)

    def on_error(self, frame: Any) -> None:
        self.errors.put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_heartbeat(self) -> None:
        self.beats.release()

    def on_disconnected(self) -> None:
        self.disconnected.set()

    def next_message(self) -> Any:
        return self.messages.get(timeout=PATIENCE_SECONDS)

    def await_receipt(self, name: str) -> None:
        while self.receipts.get(timeout=PATIENCE_SECONDS) != name:
            pass


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNode]:
    """
    One broker for all of these.
    """
    with LocalCluster(tmp_path_factory.mktemp("stomp"), "single") as cluster:
        yield cluster.start()
        log = cluster.nodes["a"].log_path.read_text(errors="replace")

        assert "Traceback" not in log


@pytest.fixture(params=list(VERSIONS))
def version(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def client(broker: LocalNode, version: str) -> Iterator[tuple[Any, Listener]]:
    """
    A connected client of the version, and what it hears.
    """
    connection, listener = open_client(broker, version)
    yield connection, listener
    if connection.is_connected():
        connection.disconnect(receipt="end")
        listener.disconnected.wait(PATIENCE_SECONDS)


def open_client(broker: LocalNode, version: str, **options: Any) -> tuple[Any, Listener]:
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)], **options)
    listener = Listener()
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    return connection, listener


def acknowledge(connection: Any, frame: Any, version: str, verb: str = "ack", **more: Any) -> None:
    """Acknowledge or reject as each version wants it."""
    act = getattr(connection, verb)
    if version == "1.0":
        act(frame.headers["message-id"], **more)
    elif version == "1.1":
        act(frame.headers["message-id"], frame.headers["subscription"], **more)
    else:
        act(frame.headers["ack"], **more)


def destination(name: str, version: str) -> str:
    return f"/queue/stomp-py-{name}-{version}"


def test_a_message_goes_through_and_is_acknowledged(client, version):
    """
    CONNECT, SUBSCRIBE, SEND with a receipt, MESSAGE, ACK: body and headers arrive as they were.
    """
    connection, listener = client
    place = destination("plain", version)
    connection.subscribe(place, id="1", ack="client")
    connection.send(place, "héllo", receipt="stored", persistent="true", flavour="sweet")
    listener.await_receipt("stored")
    frame = listener.next_message()
    acknowledge(connection, frame, version, receipt="settled")
    listener.await_receipt("settled")

    assert frame.body == "héllo"
    assert frame.headers["flavour"] == "sweet"
    assert frame.headers["destination"] == place
    assert listener.errors.empty()


def test_unacknowledged_messages_come_back(client, broker, version):
    """
    A client that leaves without acknowledging gives its messages back, in order and flagged.
    """
    connection, listener = client
    place = destination("back", version)
    for number in range(3):
        connection.send(place, str(number), receipt=str(number), persistent="true")
        listener.await_receipt(str(number))
    leaving, hearing = open_client(broker, version)
    leaving.subscribe(place, id="1", ack="client")
    seen = [hearing.next_message().body for _ in range(3)]
    leaving.disconnect(receipt="bye")
    hearing.disconnected.wait(PATIENCE_SECONDS)
    connection.subscribe(place, id="1", ack="client")
    again = [listener.next_message() for _ in range(3)]

    assert seen == ["0", "1", "2"]
    assert [frame.body for frame in again] == ["0", "1", "2"]
    assert [frame.headers.get("redelivered") for frame in again] == ["true"] * 3


def test_a_transaction_commits_or_aborts(client, version):
    """
    What was sent in an aborted transaction never arrives; what was committed arrives in order.
    """
    connection, listener = client
    place = destination("transaction", version)
    connection.subscribe(place, id="1", ack="auto")
    lost = connection.begin()
    connection.send(place, "never", transaction=lost, persistent="true")
    connection.abort(lost)
    kept = connection.begin()
    for body in ("one", "two"):
        connection.send(place, body, transaction=kept, persistent="true")
    connection.commit(kept, receipt="committed")
    listener.await_receipt("committed")

    assert [listener.next_message().body for _ in range(2)] == ["one", "two"]
    assert listener.messages.empty()


@pytest.mark.parametrize("version", ["1.1", "1.2"], indirect=True)
def test_a_rejected_message_goes_to_the_dead_letter_queue(client, version):
    """
    NACK moves the message to ActiveMQ.DLQ.
    """
    connection, listener = client
    place = destination("rejected", version)
    connection.subscribe(place, id="1", ack="client-individual")
    connection.send(place, f"bad {version}", receipt="stored", persistent="true")
    listener.await_receipt("stored")
    acknowledge(connection, listener.next_message(), version, "nack", receipt="rejected")
    listener.await_receipt("rejected")
    connection.subscribe("/queue/ActiveMQ.DLQ", id="2", ack="auto")

    assert listener.next_message().body == f"bad {version}"


@pytest.mark.parametrize("version", ["1.1", "1.2"], indirect=True)
def test_headers_keep_their_special_characters(client, version):
    """
    Colons, newlines and backslashes in headers are escaped on the wire and arrive as they were.
    """
    connection, listener = client
    place = destination("escaped", version)
    connection.subscribe(place, id="1", ack="auto")
    odd = "a:b\\c\nd"
    connection.send(place, "x", odd=odd)

    assert listener.next_message().headers["odd"] == odd


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_heart_beats_keep_a_quiet_connection(broker, version):
    """
    Both sides promised beats: a connection that is quiet for many of them is still there.
    """
    connection, listener = open_client(broker, version, heartbeats=(200, 200))
    try:
        for _ in range(8):
            assert listener.beats.acquire(timeout=PATIENCE_SECONDS)
        connection.send("/queue/stomp-py-beats", "still here", receipt="alive")
        listener.await_receipt("alive")

        assert not listener.disconnected.is_set()
    finally:
        connection.disconnect()
        listener.disconnected.wait(PATIENCE_SECONDS)


def test_a_topic_reaches_every_subscriber(client, broker, version):
    """
    Two subscribers of a topic both get a message; it is not kept for later ones.
    """
    connection, listener = client
    place = f"/topic/stomp-py-{version}"
    other, hearing = open_client(broker, version)
    try:
        connection.subscribe(place, id="1", ack="auto", receipt="first")
        listener.await_receipt("first")
        other.subscribe(place, id="1", ack="auto", receipt="second")
        hearing.await_receipt("second")
        connection.send(place, "news")

        assert listener.next_message().body == "news"
        assert hearing.next_message().body == "news"
    finally:
        other.disconnect(receipt="bye")
        hearing.disconnected.wait(PATIENCE_SECONDS)


def test_an_unknown_acknowledgement_is_an_error_and_no_end(client, version):
    """
    An ERROR for what cannot be done names it; the connection lives on.
    """
    connection, listener = client
    if version == "1.2":
        connection.ack("nonsense")
    else:
        connection.ack("nonsense", *(["1"] if version == "1.1" else []))
    frame = listener.errors.get(timeout=PATIENCE_SECONDS)
    connection.send(destination("alive", version), "x", receipt="alive")
    listener.await_receipt("alive")

    assert "nonsense" in frame.headers["message"]
