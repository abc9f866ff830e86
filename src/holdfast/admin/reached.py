"""
Where an asker has opened a connection, and whether that is an address of the node that answers.

Whoever listens where a node is stopped can pass on what comes to another node, and read what that
answers. So what proves who asks is also over the place that the asker opened, and a node takes only
what was meant for a place of its own.

    127.0.0.1#8161|localhost:8161|MARK

The address that was connected to, the place as it was written, and the mark of where on the network
the asker is. Addresses of loopback mean another machine on each machine: for those the mark counts.
Where something on the way changes the address, a proxy or a forwarded port, the place as it was
written counts, where the node's operator has named it.

Invariants:
    No name counts as a node's own but by its operator's word: where it leads, others decide.

Pure, but for the mark.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from http.client import HTTPConnection
from typing import Final, NamedTuple

from holdfast.environment.network_place import network_place
from holdfast.model.networks import is_loopback, is_same_address

_FORM: Final = re.compile(
    r"(?P<host>[0-9A-Fa-f:.]{2,45})#(?P<port>[0-9]{1,5})"
    r"\|(?P<written>[A-Za-z0-9_.:\[\]-]{0,262})\|(?P<mark>[0-9a-f]{32}|)",
    re.ASCII,
)
_WRITTEN: Final = re.compile(r"[A-Za-z0-9_.:\[\]-]{1,262}", re.ASCII)
TEXT_LENGTH_MAX: Final = 400


class Standing(NamedTuple):
    """Where a node was reached."""

    end: tuple[str, int] | None
    """Its own end of the connection, address and port; None: not known."""

    named: Collection[str] = ()
    """What its operator says leads to it and to no other node, `host` or `host:port`."""

    def has(self, text: str) -> bool:
        """Whether what an asker has opened is a place of this node."""
        found = _FORM.fullmatch(text)
        if found is None or self.end is None:
            return False
        address, port = self.end
        is_here = int(found["port"]) == port and is_same_address(found["host"], address)
        if is_here and (not is_loopback(found["host"]) or found["mark"] == _mark()):
            return True
        written = found["written"].lower()
        return bool(written) and any(written == _with_port(it, port) for it in self.named)

    def refusal(self, text: str) -> str:
        """Say why what an asker has opened is none, and what to do."""
        found = _FORM.fullmatch(text)
        if found is None:
            return "it does not say which address was asked: the command is of another version"
        written = found["written"] or f"{found['host']} port {found['port']}"
        at = "" if self.end is None else f", reached at {self.end[0]} port {self.end[1]},"
        return (
            f"it was sent to {written}, which this node{at} does not know for its own:"
            f" somebody passed it on. If that is a proxy or a forwarded port of yours that leads"
            f" here and nowhere else, add {written} to this node's setting admin_names; else ask"
            f" the node itself"
        )


NOWHERE: Final = Standing(None)


def reached(connection: HTTPConnection, place: str) -> str:
    """
    Give what is proven of where a connection leads, which is opened; `place` is as it was written.

    Raises:
        OSError: It cannot be opened.
    """
    if connection.sock is None:
        connection.connect()
    host, port = connection.sock.getpeername()[:2]
    written = place if _WRITTEN.fullmatch(place) else ""
    address = host.partition("%")[0]
    return f"{address}#{port}|{written}|{_mark() if is_loopback(address) else ''}"


def _with_port(named: str, port: int) -> str:
    """Give a place that is named as it is written with its port; without one it is the node's."""
    name = named.lower()
    is_whole = re.search(r"[^:]:[0-9]{1,5}$", name) and (name.count(":") == 1 or "]" in name)
    if is_whole:
        return name
    return f"[{name}]:{port}" if ":" in name and not name.startswith("[") else f"{name}:{port}"


def _mark() -> str:
    place = network_place()
    return hashlib.sha256(f"holdfast reached {place}".encode()).hexdigest()[:32] if place else ""
