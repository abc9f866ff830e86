"""
Each header that the reference says is served does what it says, by stomp.py and by a raw socket.

What has tests of its own elsewhere is named in `SHOWN_ELSEWHERE`; a header that comes into the
table of docs/reference/stomp.md and has no test fails the first one here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.testing.local_cluster import LocalNode
from tests.conformance.clients.stomp_py import VERSIONS, Listener
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 60
HERE = Path(__file__)
REFERENCE = HERE.parents[3] / "docs" / "reference" / "stomp.md"

REDELIVERY = {
    "activemq.maximumRedeliveries": "1",
    "activemq.initialRedeliveryDelay": "1",
    "activemq.redeliveryDelay": "1",
    "activemq.useExponentialBackOff": "true",
    "activemq.backOffMultiplier": "2",
    "activemq.maximumRedeliveryDelay": "5",
}

SHOWN_HERE = {
    *("login", "passcode", "client-id", "heart-beat", "holdfast-client", "holdfast-carry"),
    *("producer-id", "producer-sequence", "holdfast-forget", "holdfast-forget-before"),
    *("activemq.prefetchSize", "prefetch-count", "activemq.selector", *REDELIVERY),
    *("AMQ_SCHEDULED_TIME", "AMQ_SCHEDULED_TIME_ZONE"),
    *("x-single-active-consumer", "activemq.browser", "requeue", "delay", "transaction"),
}
"""Each is in a test below."""

SHOWN_ELSEWHERE = {
    "accept-version": "stomp/test_stomp_1_2.py",
    "host": "stomp/test_stomp_1_2.py",
    "destination": "clients/test_stomp_py.py",
    "persistent": "clients/test_several_destinations.py",
    "content-length": "stomp/test_stomp_1_2.py",
    "expires": "clients/test_expiry.py",
    "expiration": "clients/test_expiry.py",
    "id": "clients/test_browsers.py",
    "ack": "clients/test_stomp_py.py",
    "selector": "clients/test_selectors.py",
    **dict.fromkeys(
        (
            *("activemq.subscriptionName", "activemq.subcriptionName"),
            *("durable-subscription-name", "durable-subscriber-name", "durable"),
            *("activemq.noLocal", "no-local"),
        ),
        "clients/test_durable_subscriptions.py",
    ),
    "activemq.exclusive": "clients/test_whose_turn.py",
    "activemq.retroactive": "clients/test_retroactive.py",
    "activemq.maximumPendingMessageLimit": "clients/test_slow_subscribers.py",
    "activemq.priority": "clients/test_whose_turn.py",
    "consumer-priority": "clients/test_whose_turn.py",
    "priority": "clients/test_priorities.py",
    "x-priority": "clients/test_whose_turn.py",
    "browser": "clients/test_browsers.py",
    "AMQ_SCHEDULED_CRON": "clients/test_schedules.py",
    "AMQ_SCHEDULED_DELAY": "clients/test_schedules.py",
    "AMQ_SCHEDULED_PERIOD": "clients/test_schedules.py",
    "AMQ_SCHEDULED_REPEAT": "clients/test_schedules.py",
    "message-id": "clients/test_stomp_py.py",
    "subscription": "clients/test_stomp_py.py",
}


def served_headers() -> set[str]:
    """What stands in the table of frames from the client, but for what is not served."""
    text = REFERENCE.read_text()
    table = text[text.index("## Frames from the client") : text.index("`receipt` is honoured")]
    rows = [row.strip("|").split("|") for row in table.splitlines() if row.startswith("| ")]
    named = [
        re.findall(r"`([a-zA-Z][\w.-]*)`", cells[1])
        for cells in rows
        if "not served" not in cells[2]
    ]
    return {name for names in named for name in names if name != "COMMIT"}


def test_each_header_of_the_table_is_shown() -> None:
    """
    Here, or in the file that is named, where it stands in quotes or in a frame.
    """
    listed_here = SHOWN_HERE | SHOWN_ELSEWHERE.keys()
    assert served_headers() == listed_here, "test a new header with both clients, and list it"
    own = HERE.read_text()
    listed = own[own.index("SHOWN_HERE = {") : own.index("def served_headers")]
    places = {**SHOWN_ELSEWHERE, **dict.fromkeys(SHOWN_HERE, "clients/test_headers.py")}
    texts = {place: (HERE.parents[1] / place).read_text() for place in places.values()}
    texts["clients/test_headers.py"] = own.replace(listed, "")
    for name, place in places.items():
        as_argument = name.replace("-", "_")
        shown = rf"[\"'\n]{re.escape(name)}[\"':]|\b{re.escape(name)}:|[ (]{as_argument}="
        assert re.search(shown, texts[place]), f"{name} is not in {place}"


class Answer(NamedTuple):
    """A frame from the broker, whoever read it."""

    command: str
    headers: dict[str, str]
    body: bytes


class RawSpeaker:
    """A raw socket, which says what it is told."""

    def __init__(self, port: int, **headers: str) -> None:
        self._socket = StompSocket(port, timeout_seconds=PATIENCE_SECONDS)
        self.send("CONNECT", {"accept-version": "1.2", "host": "h", **headers})
        self.connected = self.next()

    def send(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        self._socket.send(command, headers, body)

    def next(self) -> Answer:
        frame = self._socket.read()
        headers = {name: value.replace("\\c", ":") for name, value in frame.headers.items()}
        return Answer(frame.command, headers, frame.body)

    def close(self) -> None:
        self._socket.close()


class StompPySpeaker:
    """stomp.py, which writes and reads the frames."""

    def __init__(self, port: int, **headers: str) -> None:
        self._connection = VERSIONS["1.2"]([("127.0.0.1", port)], reconnect_attempts_max=1)
        self._listener = Listener(PATIENCE_SECONDS)
        self._listener.on_connected = self._listener.on_message  # type: ignore[method-assign]
        self._connection.set_listener("", self._listener)
        said = dict(headers)
        login, passcode = said.pop("login", None), said.pop("passcode", None)
        self._connection.connect(login, passcode, headers=said)
        self.connected = self.next()

    def send(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        self._connection.send_frame(command, dict(headers), body.decode())

    def next(self) -> Answer:
        frame = self._listener.next()
        return Answer(frame.cmd, frame.headers, frame.body.encode())

    def close(self) -> None:
        self._connection.transport.disconnect_socket()


@pytest.fixture(params=[RawSpeaker, StompPySpeaker], ids=["raw", "stomp.py"])
def connect(request: pytest.FixtureRequest, broker: LocalNode) -> Iterator[Any]:
    """Makes connections of one kind, and closes what is left of them."""
    speakers: list[Any] = []

    def connected(**headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        speakers.append(request.param(broker.stomp_port, **named))
        return speakers[-1]

    yield connected
    for speaker in speakers:
        speaker.close()


@pytest.fixture
def place(request: pytest.FixtureRequest) -> str:
    """A queue of this test's own."""
    return "/queue/" + re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())


def fill(client: Any, place: str, *bodies: bytes, **headers: str) -> None:
    for body in bodies:
        client.send(
            "SEND", {"destination": place, "persistent": "true", "receipt": "r", **headers}, body
        )
        assert client.next().command == "RECEIPT"


def subscribe(client: Any, place: str, **headers: str) -> None:
    said = {"id": "1", "destination": place, "ack": "client-individual", **headers}
    client.send("SUBSCRIBE", said)


def nothing_waits(client: Any) -> bool:
    """Whether the next that comes is the answer to a question asked now."""
    client.send("BEGIN", {"transaction": "t"})
    client.send("ABORT", {"transaction": "t", "receipt": "now"})
    return bool(client.next().headers.get("receipt-id") == "now")


@pytest.mark.parametrize("name", ["activemq.prefetchSize", "prefetch-count"])
def test_no_more_is_given_than_was_asked_for(connect, place, name) -> None:
    """
    Until something of it is acknowledged.
    """
    client = connect()
    fill(client, place, b"1", b"2", b"3")
    subscribe(client, place, **{name: "2"})
    first, _ = client.next(), client.next()
    assert nothing_waits(client)
    client.send("ACK", {"id": first.headers["ack"]})
    assert client.next().body == b"3"


def test_a_selector_has_a_second_name(connect, place) -> None:
    """
    What is not wanted stays on the queue.
    """
    client = connect()
    fill(client, place, b"1", colour="red")
    fill(client, place, b"2", colour="blue")
    subscribe(client, place, **{"activemq.selector": "colour = 'blue'"})
    assert client.next().body == b"2"
    assert nothing_waits(client)


def test_a_subscription_says_how_often_and_when_its_messages_come_again(connect, place) -> None:
    """
    Once more after a moment, counted and flagged; then it is a dead letter.
    """
    client = connect()
    fill(client, place, b"poison")
    subscribe(client, place, **REDELIVERY)
    for count in (None, "2"):
        message = client.next()
        assert message.headers.get("JMSXDeliveryCount") == count
        client.send("NACK", {"id": message.headers["ack"]})
    dead = "/queue/ActiveMQ.DLQ"
    client.send("SUBSCRIBE", {"id": "d", "destination": dead, "ack": "client-individual"})
    while (message := client.next()).headers["original-destination"] != place:
        pass  # Of another test here.
    assert (message.command, message.body) == ("MESSAGE", b"poison")


@pytest.mark.parametrize("name", list(REDELIVERY))
def test_what_makes_no_sense_there_is_refused(connect, place, name) -> None:
    """
    By name; the connection lives on.
    """
    client = connect()
    subscribe(client, place, **{name: "soon"})
    error = client.next()
    assert (error.command, error.headers["code"]) == ("ERROR", "destination")
    assert name.removeprefix("activemq.") in error.headers["message"]
    assert nothing_waits(client)


def test_the_only_one_has_rabbitmqs_name_too(connect, place) -> None:
    """
    Who came first gets all, whoever else is there.
    """
    first, second = connect(), connect()
    for client in (first, second):
        subscribe(client, place, **{"x-single-active-consumer": "true"}, receipt="s")
        assert client.next().command == "RECEIPT"
    fill(second, place, b"1")
    fill(second, place, b"2")
    assert [first.next().body, first.next().body] == [b"1", b"2"]
    assert nothing_waits(second)


def test_a_browser_has_activemqs_name_too(connect, place) -> None:
    """
    It is shown all, and its end.
    """
    client = connect()
    fill(client, place, b"1")
    subscribe(client, place, **{"activemq.browser": "true"})
    shown, end = client.next(), client.next()
    assert (shown.body, end.headers["browser"]) == (b"1", "end")


def test_a_rejected_message_comes_again_if_that_is_said(connect, place) -> None:
    """
    At once with `requeue`, later with `delay`; `requeue:false` is the end, whatever else holds.
    """
    client = connect()
    fill(client, place, b"1")
    subscribe(client, place)
    for said in ({"requeue": "true"}, {"delay": "1"}, {"requeue": "true", "delay": "1"}):
        client.send("NACK", {"id": client.next().headers["ack"], **said})
    message = client.next()
    assert message.headers["JMSXDeliveryCount"] == "4"
    client.send("NACK", {"id": message.headers["ack"], "requeue": "false", "receipt": "r"})
    assert client.next().headers["receipt-id"] == "r"
    assert nothing_waits(client)


def test_each_number_of_a_producer_is_stored_once(connect, place) -> None:
    """
    Said again it is confirmed again; one that is left out is told. A COMMIT has numbers, too.
    """
    client = connect()
    who = f"of {place}"
    numbered = {"destination": place, "persistent": "true", "producer-id": who, "receipt": "r"}
    for number in ("1", "1", "2"):
        client.send("SEND", {**numbered, "producer-sequence": number}, number.encode())
        assert client.next().command == "RECEIPT"
    client.send("SEND", {**numbered, "producer-sequence": "4"}, b"4")
    assert client.next().headers["code"] == "producer-sequence-gap"
    for _ in range(2):
        client.send("BEGIN", {"transaction": "t"})
        client.send("SEND", {"destination": place, "persistent": "true", "transaction": "t"}, b"3")
        said = {"transaction": "t", "producer-id": who, "producer-sequence": "3", "receipt": "c"}
        client.send("COMMIT", said)
        assert client.next().headers["receipt-id"] == "c"
    subscribe(client, place)
    assert [client.next().body for _ in range(3)] == [b"1", b"2", b"3"]
    assert nothing_waits(client)


def test_who_is_done_with_its_producers_says_so(connect, place) -> None:
    """
    Nothing new is stored of them any more.
    """
    client = connect()
    name = f"job-{place[-40:].replace('/', '-')}"
    client.send("BEGIN", {"transaction": "t"})
    said = {"holdfast-forget": name, "holdfast-forget-before": "2", "receipt": "c"}
    client.send("COMMIT", {"transaction": "t", **said})
    assert client.next().headers["receipt-id"] == "c"
    numbered = {"destination": place, "persistent": "true", "producer-sequence": "1"}
    client.send("SEND", {**numbered, "producer-id": f"{name}-1-x"}, b"late")
    assert client.next().headers["code"] == "producer-finished"


def test_a_name_and_a_word_are_taken_and_heart_beats_agreed_upon(connect) -> None:
    """
    What the one promises the other wants; nobody is asked who it is.
    """
    client = connect(login="guest", passcode="guest", heart_beat="0,60000")
    assert client.connected.command == "CONNECTED"
    promised, wanted = client.connected.headers["heart-beat"].split(",")
    assert (int(promised) > 0, wanted) == (True, "0")


def test_a_client_id_is_one_connections_and_our_clients_secret_takes_it_over(
    connect, place
) -> None:
    """
    A stranger is refused; who shows the same secret has connected again.
    """
    who = place[-40:].replace("/", "-")
    first = connect(client_id=who, holdfast_client=f"secret {who}")
    assert first.connected.command == "CONNECTED"
    refused = connect(client_id=who)
    assert refused.connected.headers["code"] == "client-id-in-use"
    again = connect(client_id=who, holdfast_client=f"secret {who}")
    assert again.connected.command == "CONNECTED"
    assert first.next().headers["code"] == "client-id-in-use"


def test_copies_keep_what_their_headers_wish(connect, place) -> None:
    """
    It does nothing, and is there for who gets them.
    """
    client = connect(holdfast_carry="true")
    fill(client, place, b"copy", expires="1")
    subscribe(client, place)
    message = client.next()
    assert (message.body, message.headers["expires"]) == (b"copy", "1")


def test_a_message_is_sent_at_its_moment_or_when_its_zone_has_the_time(connect, place) -> None:
    """
    A moment that was is now; a zone that there is not is refused.
    """
    client = connect()
    fill(client, place, b"now", AMQ_SCHEDULED_TIME="1")
    subscribe(client, place)
    assert client.next().body == b"now"
    said = {"destination": place, "persistent": "true", "AMQ_SCHEDULED_CRON": "0 3 * * *"}
    client.send("SEND", {**said, "AMQ_SCHEDULED_TIME_ZONE": "Atlantis/Capital"}, b"never")
    assert client.next().command == "ERROR"
    fill(client, place, b"3", **said | {"AMQ_SCHEDULED_TIME_ZONE": "Europe/Berlin"})
    assert nothing_waits(client)


def test_answers_wait_for_who_lost_its_connection(connect, place) -> None:
    """
    Q62: at the address of its client-id, whatever its connection.
    """
    who = place[-40:].replace("/", "-")
    asker, server = connect(client_id=who), connect()
    subscribe(asker, "/temp-queue/answers", receipt="s")
    assert asker.next().command == "RECEIPT"
    fill(asker, place, b"?", **{"reply-to": "/temp-queue/answers"})
    subscribe(server, place)
    address = server.next().headers["reply-to"]
    assert address == f"/remote-temp-queue/{who}.answers"
    asker.close()
    fill(server, address, b"!")
    again = connect(client_id=who)
    subscribe(again, "/temp-queue/answers")
    answer = again.next()
    assert (answer.body, answer.headers["destination"]) == (b"!", "/temp-queue/answers")
