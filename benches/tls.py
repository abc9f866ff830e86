"""
What TLS costs a node: messages in clear and by TLS in one run, and a crowd of clients at the door.

One node, a real process on loopback with a port of each kind. A client of a few lines sends
persistent messages with receipts, a window of them at a time, by one port and the other in turn, so
that what else the machine does meets both alike. Printed are medians: messages a second, and the
processor time of the node for each message, which a busy machine changes little. Then so many
clients come at once by TLS, connect and go, while another one asks by the port in clear: how long
that took, the node's processor time for each, and the longest that the other one waited.

With `--before DIR` the ports in clear of two versions of Holdfast are compared instead; DIR has
the source of the other.

Run: .venv/bin/python benches/tls.py [--rounds 5] [--messages 20000] [--clients 2000] [--before DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from beside import publishing
from machine import print_heading

from holdfast.testing.free_ports import free_ports
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from holdfast.transport.certificates import make_node, open_authority

_SIZES = {"200 B": 200, "16 KiB": 16_384}
_WINDOW = 100


@dataclass(frozen=True)
class Way:
    """One way to reach a node."""

    name: str
    node: LocalNode
    port: int
    context: ssl.SSLContext | None = None


def processor_seconds(node: LocalNode) -> float:
    """What all its threads have had of the processors, as the scheduler counts it."""
    threads = Path(f"/proc/{node.pid}/task").glob("*/schedstat")
    return sum(int(it.read_text().split()[0]) for it in threads) / 1e9


async def connected(way: Way) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1",
        way.port,
        ssl=way.context,
        server_hostname="localhost" if way.context else None,
        ssl_handshake_timeout=120 if way.context else None,
        limit=1 << 20,
    )
    writer.write(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    assert (await reader.readuntil(b"\0")).startswith(b"CONNECTED")
    return reader, writer


async def send(way: Way, count: int, size: int) -> tuple[float, float]:
    """Give the messages a second, and the node's processor time for each in microseconds."""
    reader, writer = await connected(way)
    frame = b"SEND\ndestination:/queue/%b\npersistent:true\nreceipt:r\ncontent-length:%d\n\n%b\0\n"
    queue = b"bench-%d" % size
    window = (frame % (queue, size, b"x" * size)) * _WINDOW
    spent, began = processor_seconds(way.node), time.monotonic()
    for _ in range(count // _WINDOW):
        writer.write(window)
        await writer.drain()
        for _ in range(_WINDOW):
            assert b"RECEIPT" in await reader.readuntil(b"\0")
    took = time.monotonic() - began
    spent = processor_seconds(way.node) - spent
    writer.close()
    return count / took, spent / count * 1e6


def compare(ways: list[Way], rounds: int, messages: int) -> None:
    for what, size in _SIZES.items():
        count = messages if size < 1024 else messages // 8
        count -= count % _WINDOW
        found: dict[str, list[tuple[float, float]]] = {way.name: [] for way in ways}
        for number in range(rounds + 1):
            for way in ways if number % 2 else reversed(ways):
                measured = asyncio.run(send(way, count, size))
                if number:  # The first round warms up.
                    found[way.name].append(measured)
        for name, measures in found.items():
            rate = statistics.median(it[0] for it in measures)
            micros = statistics.median(it[1] for it in measures)
            print(f"{what:>7} {name:<12} {rate:>10,.0f} msg/s {micros:>8.1f} us of the node each")


def storm(way: Way, plain_port: int, clients: int) -> None:
    async def come() -> None:
        async def one() -> None:
            _, writer = await connected(way)
            writer.close()

        await asyncio.gather(*(one() for _ in range(clients)))

    term = (way.node.status() or {})["term"]
    spent, began = processor_seconds(way.node), time.monotonic()
    with publishing(plain_port) as waited:
        asyncio.run(come())
        took = time.monotonic() - began
    spent = processor_seconds(way.node) - spent
    print(
        f"{clients:,} clients at once: {took:.2f} s, {spent / clients * 1e3:.2f} ms of the node for"
        f" each with all it did meanwhile; another waited {max(waited) * 1e3:.0f} ms at most, by"
        f" median {statistics.median(waited) * 1e3:.1f} ms; elections:"
        f" {(way.node.status() or {})['term'] - term}"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--messages", type=int, default=20_000)
    options.add_argument("--clients", type=int, default=2_000)
    options.add_argument("--before", type=Path)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-tls-") as folder, ExitStack() as stack:
        directory = Path(folder)
        print_heading(directory, rounds=given.rounds, messages=given.messages)
        if given.before is not None:
            ways = []
            for name, source in (("before", given.before / "src"), ("now", None)):
                cluster = stack.enter_context(LocalCluster(directory / name, "single", []))
                for node in cluster.nodes.values():
                    node.environment |= {"PYTHONPATH": str(source)} if source else {}
                cluster.start()
                node = cluster.leader()
                ways.append(Way(name, node, node.stomp_port))
            compare(ways, given.rounds, given.messages)
            return
        authority, _ = open_authority(directory)
        make_node(authority, directory / "node.pem", "node", [], 1)
        table = f'[tls.outside]\ncertificate = "{directory}/node.pem"\n'
        (directory / "h.toml").write_text(table)
        (port,) = free_ports(1)
        flags = ["--config", str(directory / "h.toml"), "--listen", f"127.0.0.1:{port},tls=outside"]
        cluster = stack.enter_context(LocalCluster(directory / "c", "single", flags))
        cluster.start()
        node = cluster.leader()
        secure = Way("by TLS", node, port, ssl.create_default_context(cafile=directory / "ca.pem"))
        compare([Way("in clear", node, node.stomp_port), secure], given.rounds, given.messages)
        storm(secure, node.stomp_port, given.clients)


if __name__ == "__main__":
    main()
