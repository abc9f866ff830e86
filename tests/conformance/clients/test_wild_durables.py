"""
Durable subscriptions of wildcards: by stomp.py and by a raw socket; the command line; a cluster.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path

import pytest

from holdfast.client.blocking import connect as connect_blocking
from holdfast.model.format_level import WILD_DURABLES_LEVEL
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from tests.conformance.clients.test_durable_subscriptions import (  # noqa: F401 - fixtures
    NAMES,
    back,
    client_id,
    connect,
    leave,
    publish,
    read,
    run,
    taken_up,
)
from tests.conformance.clients.test_headers import StompPySpeaker, nothing_waits

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def test_what_is_sent_to_topics_that_come_later_waits(connect, client_id) -> None:  # noqa: F811
    """
    Of every topic that the wildcard means, from its first message on; it ends as a whole.
    """
    place, named = f"/topic/{client_id}.>", {NAMES[0]: "mine"}
    leave(taken_up(connect(client_id), place, **named))
    sender = connect()
    topics = [f"/topic/{client_id}", f"/topic/{client_id}.a", f"/topic/{client_id}.a.b"]
    for body, topic in enumerate(topics):
        publish(sender, b"%d" % body, place=topic)
    publish(sender, b"not meant", place=f"/topic/other.{client_id}")
    client = back(connect(client_id), place, **named)
    assert sorted(read(client, 3)) == [b"0", b"1", b"2"]
    publish(sender, b"3", place=f"/topic/{client_id}.later")
    assert read(client, 1) == [b"3"]
    client.send("UNSUBSCRIBE", {"id": "d", "receipt": "u", **named})
    assert client.next().headers["receipt-id"] == "u"
    publish(sender, b"4", place=topics[0])
    taken_up(client, place, **named)
    assert nothing_waits(client)
    client.send("UNSUBSCRIBE", {"id": "d", "receipt": "v", **named})
    assert client.next().headers["receipt-id"] == "v"


def test_the_command_line_keeps_one_of_a_wildcard(broker: LocalNode) -> None:
    """
    `receive` takes it up again, and operators see one subscription, with all that it has.
    """
    broker.wait_until(lambda status: status["format_level"] >= WILD_DURABLES_LEVEL, "at the level")
    uri = f"stomp://127.0.0.1:{broker.stomp_port}"
    place, whose = "/topic/cli.>", ["--client-id", "wild-cli", "--durable", "mine", "--quiet"]
    assert run("receive", "--uri", uri, place, *whose, "--timeout", "0") == ""
    run("send", "--uri", uri, "/topic/cli.a", "one", "--quiet")
    run("send", "--uri", uri, "/topic/cli.b", "two", "--quiet")
    found = json.loads(run("subscriptions", "--admin", broker.admin, "--json"))["subscriptions"]
    (told,) = (each for each in found if each["client_id"] == "wild-cli")
    assert (told["name"], told["topic"], told["messages"]) == ("mine", "cli.>", 2)
    taken = run("receive", "--uri", uri, place, *whose, "--timeout", "1")
    assert sorted(taken.split()) == ["one", "two"]
    run("send", "--uri", uri, "/topic/cli.c", "three", "--quiet")
    ended = run("subscriptions", "end", "wild-cli", "mine", "--yes", "--admin", broker.admin)
    assert ended == "mine of wild-cli has ended, with 1 messages\n"


def test_stomp_py_gets_all_of_it_when_leaders_die(tmp_path: Path) -> None:
    """
    kill -9 of the leader under a stream to ever new topics, and of the next one under who takes it:
    none is lost, each topic's come in order, and what comes twice says so.
    """
    count, named = 300, {NAMES[0]: "mine"}

    def dial(cluster: LocalCluster) -> StompPySpeaker:
        return StompPySpeaker(cluster.leader().stomp_port, **{"client-id": "ann"})

    with LocalCluster(tmp_path / "c", "three") as cluster:
        cluster.start()
        cluster.leader().wait_until(
            lambda status: status["format_level"] >= WILD_DURABLES_LEVEL, "at the level"
        )
        leave(taken_up(dial(cluster), "/topic/fx.>", **named))
        with connect_blocking(cluster.uri) as connection:
            for number in range(count):
                connection.send(f"/topic/fx.{number // 30}.{number % 3}", b"%d" % number)
                if number in {70, 190}:
                    leader = cluster.leader()
                    leader.kill()
                    leader.start()
        seen: dict[str, bytes] = {}
        orders: dict[str, list[int]] = defaultdict(list)
        client = back(dial(cluster), "/topic/fx.>", **named)
        for taken in itertools.count(1):
            message = client.next()
            identity, body = message.headers["message-id"], message.body
            assert identity not in seen or message.headers["redelivered"] == "true"
            if identity not in seen and body not in seen.values():
                orders[message.headers["destination"]].append(int(body))
            seen[identity] = body
            client.send("ACK", {"id": message.headers["ack"]})
            if len({*seen.values()}) == count:
                break
            if taken == 120:
                leader = cluster.leader()
                leader.kill()
                leader.start()
                client.close()
                client = back(dial(cluster), "/topic/fx.>", **named)
    assert {*seen.values()} == {b"%d" % number for number in range(count)}
    assert len(orders) == 30 and all(order == sorted(order) for order in orders.values())
