"""
The admin port on loopback: started and stopped inside a loop that belongs to somebody else.
"""

from __future__ import annotations

import asyncio
import signal

import pytest

from holdfast.admin.http_api import build_application
from holdfast.admin.http_server import AdminServer
from holdfast.admin.operations import Operations
from holdfast.admin.remote import RemoteNode
from holdfast.errors import LinkLostError


def server_of(node, host: str = "127.0.0.1", port: int = 0) -> AdminServer:
    return AdminServer(build_application(Operations(node)), host=host, port=port)


@pytest.mark.slow
def test_it_serves_from_start_to_stop_and_leaves_signals_alone(node) -> None:
    """
    The node keeps its own signal handlers, learns the real port, and the port is closed in the end.
    """

    async def scenario() -> None:
        before = signal.getsignal(signal.SIGTERM)
        server = server_of(node)
        assert server.address == "127.0.0.1:0"
        await server.stop()
        await server.start()
        remote = RemoteNode(server.address)
        assert (await asyncio.to_thread(remote.get, "/status"))["name"] == "a"
        assert signal.getsignal(signal.SIGTERM) is before
        await server.stop()
        with pytest.raises(LinkLostError, match=r"no answer from the admin port 127.0.0.1"):
            await asyncio.to_thread(remote.get, "/status")

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_port_that_is_taken_is_an_error_for_the_node(node) -> None:
    """
    uvicorn would end the process; the node wants to say which port it was.
    """

    async def scenario() -> None:
        first = server_of(node)
        await first.start()
        port = int(first.address.rpartition(":")[2])
        with pytest.raises(OSError):
            await server_of(node, port=port).start()
        await first.stop()

    asyncio.run(scenario())


def test_an_ipv6_address_keeps_its_brackets(node) -> None:
    """
    The address can be pasted into `--admin`.
    """
    assert server_of(node, host="::1", port=8161).address == "[::1]:8161"
