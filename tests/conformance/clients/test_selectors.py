"""
Selectors from outside: stomp.py, a raw socket, our client both ways, the command line.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import pytest

from holdfast.client import connect
from holdfast.client.blocking import connect as connect_blocking
from holdfast.errors import SelectorError
from holdfast.testing.local_cluster import LocalNode
from tests.conformance.clients.stomp_py import VERSIONS, Listener

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 10
PRICES = ("1", "2.5", "x", "10")
SELECTOR = "price > 2 AND NOT region = 'south'"


@pytest.mark.parametrize("kind", ["topic", "queue"])
@pytest.mark.parametrize("version", list(VERSIONS))
def test_stomp_py_gets_what_it_selects(broker: LocalNode, version: str, kind: str) -> None:
    """
    In every version; an error in a selector comes as ERROR and the connection goes on.
    """
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    place = f"/{kind}/selected-{version}"
    connection.subscribe(place, id="0", ack="auto", headers={"selector": "price >"}, receipt="no")
    error = listener.next()
    connection.subscribe(place, id="1", ack="auto", headers={"selector": SELECTOR}, receipt="yes")
    subscribed = listener.next()
    for price in PRICES:
        connection.send(place, price, headers={"price": price, "region": "north"})
    connection.send(place, "south", headers={"price": "10", "region": "south"})
    connection.send(place, "last", headers={"price": "99", "region": ""})
    bodies = [listener.next().body for _ in range(3)]
    connection.disconnect()

    assert error.headers["code"] == "invalid-selector"
    assert "column 8: it ends too early; expected a value" in error.headers["message"]
    assert subscribed.headers["receipt-id"] == "yes"
    assert bodies == ["2.5", "10", "last"]


def test_a_raw_socket_gets_what_it_selects(broker: LocalNode) -> None:
    """
    Frames as anybody may write them: escapes in the selector, header names in quotes.
    """
    with socket.create_connection(("127.0.0.1", broker.stomp_port), PATIENCE_SECONDS) as raw:
        raw.sendall(
            b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"
            b"SUBSCRIBE\nid:1\ndestination:/topic/raw\n"
            b"selector:\"a\\cb\" = 'c\\cd\\n' AND JMSDestination = 'topic\\c//raw'\n\n\0"
            b"SEND\ndestination:/topic/raw\na\\cb:no\n\nfirst\0"
            b"SEND\ndestination:/topic/raw\na\\cb:c\\cd\\n\n\nsecond\0"
            b"SUBSCRIBE\nid:2\ndestination:/queue/raw\nselector:a = \nreceipt:r\n\n\0"
            b"SEND\ndestination:/queue/raw\npersistent:true\n\nleft\0"
            b"SEND\ndestination:/queue/raw\npersistent:true\nmy-a:1\n\nthird\0"
            b"SUBSCRIBE\nid:2\ndestination:/queue/raw\n"
            b"selector:hyphenated_props\\c my-a = 1\n\n\0"
        )
        seen = b""
        while seen.count(b"\0") < 4:
            data = raw.recv(65_536)
            assert data, seen
            seen += data
        raw.sendall(b"DISCONNECT\n\n\0")
    frames = sorted(frame.lstrip(b"\n") for frame in seen.split(b"\0")[:4])

    names = [b"CONNECTED", b"ERROR", b"MESSAGE", b"MESSAGE"]
    assert [frame.split(b"\n")[0] for frame in frames] == names
    assert b"code:invalid-selector" in frames[1]
    assert {frame.rpartition(b"\n")[2] for frame in frames[2:]} == {b"second", b"third"}


def test_our_client_gets_what_it_selects(broker: LocalNode) -> None:
    """
    Over a lost link too: the selector goes with each new SUBSCRIBE. What is refused has its class.
    """
    uri = f"stomp://127.0.0.1:{broker.stomp_port}"

    async def scenario() -> list[str]:
        async with asyncio.timeout(PATIENCE_SECONDS), connect(f"failover:({uri})") as connection:
            with pytest.raises(SelectorError, match="expected a value") as caught:
                await connection.subscribe("/topic/ours", selector="price > ").open()
            assert caught.value.column == 9
            for price in PRICES:
                await connection.send("/queue/ours", price, headers={"price": price})
            async with connection.subscribe("/queue/ours", selector="price > 2") as picky:
                assert [(await anext(picky)).text for _ in range(2)] == ["2.5", "10"]
            async with connection.subscribe("/topic/ours", selector=SELECTOR) as subscription:
                bodies = []
                for _ in range(2):
                    for price in PRICES:
                        headers = {"price": price, "region": "north"}
                        await connection.send("/topic/ours", price, headers=headers)
                    bodies += [(await anext(subscription)).text for _ in range(2)]
                    link = connection._session._link
                    assert link is not None
                    link._transport.abort()
                return bodies

    assert asyncio.run(scenario()) == ["2.5", "10"] * 2


def test_our_blocking_client_gets_what_it_selects(broker: LocalNode) -> None:
    """
    The other face, with the same errors.
    """
    with connect_blocking(f"stomp://127.0.0.1:{broker.stomp_port}") as connection:
        with pytest.raises(SelectorError, match="unexpected 'x'"):
            connection.subscribe("/topic/blocking", selector="price x").__enter__()
        with connection.subscribe("/topic/blocking", selector=SELECTOR) as subscription:
            for price in PRICES:
                headers = {"price": price, "region": "north"}
                connection.send("/topic/blocking", price, headers=headers)
            assert [next(subscription).text for _ in range(2)] == ["2.5", "10"]


def test_the_command_line_gets_what_it_selects(broker: LocalNode) -> None:
    """
    And shows where a selector is wrong.
    """
    uri = f"stomp://127.0.0.1:{broker.stomp_port}"
    receive = [sys.executable, "-m", "holdfast", "receive", "--uri", uri, "/topic/shell", "-q"]
    wrong = subprocess.run(
        [*receive, "--selector", "price >> 2"], capture_output=True, text=True, check=False
    )
    with subprocess.Popen(
        [*receive, "--selector", SELECTOR, "-n", "2"], stdout=subprocess.PIPE, text=True
    ) as process:
        with connect_blocking(uri) as connection:
            while process.poll() is None:
                for price in PRICES:
                    headers = {"price": price, "region": "north"}
                    connection.send("/topic/shell", price, headers=headers)
        assert process.stdout is not None
        lines = process.stdout.read().split()

    assert wrong.returncode == 1
    assert wrong.stderr.splitlines() == [
        "  price >> 2",
        "         ^",
        "holdfast: selector, column 8: unexpected '>'; expected a value",
    ]
    assert process.returncode == 0
    assert sorted(lines) == ["10", "2.5"]
