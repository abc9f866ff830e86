"""
Scheduled messages: stomp.py in each version, a raw socket.
"""

from __future__ import annotations

import time

import pytest

from holdfast.model.format_level import SCHEDULES_LEVEL
from holdfast.testing.local_cluster import LocalNode
from tests.conformance.clients.stomp_py import VERSIONS, Listener
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 60


@pytest.fixture(autouse=True)
def at_the_level(broker: LocalNode) -> None:
    broker.wait_until(lambda status: status["format_level"] >= SCHEDULES_LEVEL, "at the level")


def connected(broker: LocalNode) -> StompSocket:
    client = StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS)
    client.connect()
    return client


@pytest.mark.parametrize("version", list(VERSIONS))
def test_stomp_py_schedules_and_gets_it_then(broker: LocalNode, version: str) -> None:
    """
    Once, and three times; with the id of the job, and nothing of when it was to be sent.
    """
    place = f"/queue/scheduled-{version}"
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    connection.subscribe(place, id="1", ack="auto")
    began = time.time()
    often = {"AMQ_SCHEDULED_PERIOD": "100", "AMQ_SCHEDULED_REPEAT": "2"}
    connection.send(place, "late", headers={"AMQ_SCHEDULED_DELAY": "1000"})
    connection.send(place, "often", headers={"persistent": "true", **often})
    connection.send(place, "now")
    frames = [listener.next() for _ in range(5)]
    assert time.time() - began >= 1.0
    assert [frame.body for frame in frames] == ["now", "often", "often", "often", "late"]
    assert "scheduledJobId" not in frames[0].headers
    jobs = [frame.headers["scheduledJobId"] for frame in frames[1:]]
    assert (len(set(jobs[:3])), len(set(jobs))) == (1, 2)
    assert not [it for frame in frames for it in frame.headers if it.startswith("AMQ_")]
    connection.disconnect()


def test_a_topics_subscriber_gets_it_if_he_is_there_then(broker: LocalNode) -> None:
    """
    With a transaction it is scheduled as that is committed; one that is rolled back sends nothing.
    """
    with connected(broker) as client:
        client.send("SUBSCRIBE", {"id": "1", "destination": "/topic/scheduled", "ack": "auto"})
        for name in ("dropped", "kept"):
            client.send("BEGIN", {"transaction": name})
            headers = {"destination": "/topic/scheduled", "transaction": name}
            client.send("SEND", headers | {"AMQ_SCHEDULED_DELAY": "50"}, name.encode())
        client.send("ABORT", {"transaction": "dropped"})
        client.send("COMMIT", {"transaction": "kept"})
        assert client.read_message().body == b"kept"
        assert client.publish("/queue/q", b"x").command == "RECEIPT"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("AMQ_SCHEDULED_DELAY", "soon"),
        ("AMQ_SCHEDULED_PERIOD", "-5"),
        ("AMQ_SCHEDULED_REPEAT", "3"),
        ("AMQ_SCHEDULED_CRON", "61 * * * *"),
        ("AMQ_SCHEDULED_CRON", "59 */23 */29 2 SUN#5"),
    ],
)
def test_what_makes_no_sense_is_refused_and_the_connection_lives(
    broker: LocalNode, header: str, value: str
) -> None:
    """
    With an ERROR that names the header, or the expression that never comes true.
    """
    with connected(broker) as client:
        error = client.ask("SEND", {"destination": "/queue/q", header: value})
        assert (error.command, error.headers["code"]) == ("ERROR", "schedule")
        said = error.headers["message"]
        assert value.split()[0] in said and ("AMQ_" in said or "within" in said)
        assert client.publish("/queue/q", b"x").command == "RECEIPT"


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_stomp_py_looks_at_jobs_and_takes_them_back(broker: LocalNode, version: str) -> None:
    """
    Through ActiveMQ's topic: one by its id, which it was shown, and the rest by when they are due.
    """
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    connection.subscribe("/temp-queue/jobs", id="1", ack="auto")
    soon = {"ACTION_START_TIME": str(int(1000 * time.time()))}
    for number in range(3):
        headers = {"AMQ_SCHEDULED_DELAY": "3600000", "persistent": "true", "receipt": "sent"}
        connection.send(f"/queue/managed-{version}", f"{number}", headers=headers)
        assert listener.next().headers["receipt-id"] == "sent"

    def manage(action: str, **headers: str) -> None:
        named = {"AMQ_SCHEDULER_ACTION": action, "reply-to": "/temp-queue/jobs", **headers}
        connection.send("/topic/ActiveMQ.Scheduler.Management", "", headers=named)

    manage("BROWSE", **soon)
    jobs = [listener.next() for _ in range(3)]
    assert [each.body for each in jobs] == ["0", "1", "2"]
    manage("REMOVE", scheduledJobId=jobs[1].headers["scheduledJobId"], receipt="removed")
    assert listener.next().headers["receipt-id"] == "removed"
    manage("BROWSE", **soon)
    assert [listener.next().body for _ in range(2)] == ["0", "2"]
    manage("REMOVEALL", receipt="all", **soon)
    assert listener.next().headers["receipt-id"] == "all"
    manage("BROWSE", receipt="none", **soon)
    assert listener.next().headers["receipt-id"] == "none"
    connection.disconnect()
