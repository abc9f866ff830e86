"""
A node put together and run in this process, for tests: real files, real loopback ports, one loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from holdfast.config.node import NodeConfig
from holdfast.model.limits import KiB
from holdfast.server.node import Node
from holdfast.testing.free_ports import free_ports

Answer = TypeVar("Answer")
WAIT_SECONDS = 10.0


def config(directory: Path) -> NodeConfig:
    stomp, admin = free_ports(2)
    flags = {
        "data": directory / "data",
        "stomp": f"127.0.0.1:{stomp}",
        "admin": f"127.0.0.1:{admin}",
        "segment": 64 * KiB,
    }
    return NodeConfig.load(flags=flags, environment={})


async def within(node: Node, work: Callable[[Node], Awaitable[Answer]]) -> tuple[Answer, int]:
    """Run a node, do the work once it serves, stop it; gives the answer and the exit code."""
    running = asyncio.create_task(node.run())
    async with asyncio.timeout(WAIT_SECONDS):
        while not node.parts.listener.is_open:
            assert not running.done(), "the node ended before it served"
            await asyncio.sleep(0)
        try:
            answer = await work(node)
        finally:
            node._stop()
        return answer, await running


def run(directory: Path, work: Callable[[Node], Awaitable[Answer]]) -> tuple[Answer, int]:
    return asyncio.run(within(Node(config(directory)), work))


async def store(node: Node, count: int) -> None:
    """Store messages on the queue `a` as a real client does."""
    address = node.config.stomp
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    await reader.readuntil(b"\0")
    for number in range(count):
        writer.write(
            b"SEND\ndestination:/queue/a\npersistent:true\nreceipt:%d\n\n%b\0"
            % (number, b"x" * KiB)
        )
    for _ in range(count):
        await reader.readuntil(b"\0")
    writer.close()
    await writer.wait_closed()
