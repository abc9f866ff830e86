"""
Ports that somebody has already, seen before a node starts.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.ports import taken_ports
from holdfast.config.node import NodeConfig


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of this machine on which somebody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def config(path: Path, **flags: object) -> NodeConfig:
    free = {"data": str(path), "stomp": "127.0.0.1:0", "admin": "127.0.0.1:0"}
    return NodeConfig.load(flags=free | flags, environment={})


def test_free_ports_are_no_trouble(tmp_path: Path) -> None:
    """Also where the system chooses, and by the name of a host that has two addresses."""
    assert taken_ports(config(tmp_path)) == []
    assert taken_ports(config(tmp_path, stomp="localhost:0", admin="[::1]:0")) == []


def test_every_taken_port_is_a_sentence(tmp_path: Path, taken: int) -> None:
    """Which one, why not, and who is to listen there."""
    member = f"a=127.0.0.1:{taken}"
    place = f"127.0.0.1:{taken}"
    why = f"{place} cannot be opened: address already in use"
    found = taken_ports(config(tmp_path, stomp=place))
    assert found == [
        f"stomp: {why}; clients are to connect there: end what has it, or give another --stomp"
    ]
    assert taken_ports(config(tmp_path, admin=place)) == [
        f"admin: {why}; operators are to connect there: end what has it, or give another --admin"
    ]
    (peers,) = taken_ports(config(tmp_path, name="a", members=[member]))
    assert peers.startswith(f"peers: {why}; the other members are to connect there: end what")


def test_a_member_opens_its_client_port_when_it_leads(tmp_path: Path, taken: int) -> None:
    """A follower would find it taken in the middle of a failover: it says for when it is."""
    members = ["a=127.0.0.1:0", "b=127.0.0.1:1"]
    flags = {"name": "a", "members": members, "stomp": f"127.0.0.1:{taken}"}
    (sentence,) = taken_ports(config(tmp_path, **flags))
    assert "clients are to connect there whenever a leads: end what has it" in sentence


def test_a_port_that_only_lingers_is_free(tmp_path: Path) -> None:
    """A node that is started again at once has connections of before on their way out."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        place = listener.getsockname()
        with socket.create_connection(place) as client:
            served, _ = listener.accept()
            served.close()  # The first to close lingers.
            client.recv(1)
    assert taken_ports(config(tmp_path, stomp=f"127.0.0.1:{place[1]}")) == []


def test_an_address_of_another_machine_is_told(tmp_path: Path) -> None:
    """And a name that means nothing; both would have ended the node when it came to lead."""
    (foreign,) = taken_ports(config(tmp_path, stomp="203.0.113.9:61613"))
    assert "stomp: 203.0.113.9:61613 cannot be opened: cannot assign" in foreign
    (unknown,) = taken_ports(config(tmp_path, stomp=f"{'a' * 64}:61613"))
    assert "that is no name of a host" in unknown
