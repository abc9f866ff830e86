"""
Whose process listens at a port of this machine, by the kernel's own table.

An address at loopback says nothing of who answers there: any user of the machine can listen where
nobody else does just now. The kernel has noted for each socket who made it, and shows that to
everybody (`proc(5)`, `/proc/net/tcp`); nobody can have it show another user's than his own.

Only what is in the caller's own namespace of networks is there. Of users who are not in the
caller's namespace of users all are shown as the same one, the overflow's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

_TABLES: Final = Path("/proc/self/net")
_LISTENS: Final = "0A"
_WORD_BYTES: Final = 4


def listeners_users(host: str, port: int, tables: Path = _TABLES) -> frozenset[int] | None:
    """
    Give the users whose processes take connections to this address; None: the system says nothing.

    It is empty where nobody does that is known here. A socket of exactly this address counts before
    one of all addresses, and one of the address's family before one of both, as with the kernel.
    """
    asked = _plain(ip_address(host.partition("%")[0]))
    names = ["tcp", "tcp6"] if asked.version == 4 else ["tcp6"]
    tiers: list[set[int]] = [set() for _ in range(4)]
    is_told = False
    for name in names:
        try:
            text = (tables / name).read_text("ascii", "replace")
        except OSError:
            continue
        is_told = True
        for address, uid in _listening(text, port):
            is_other_family = name == "tcp6" and asked.version == 4
            if _plain(address) == asked:
                tiers[is_other_family].add(uid)
            elif address.is_unspecified:
                tiers[2 + is_other_family].add(uid)
    if not is_told:
        return None
    return frozenset(next((it for it in tiers if it), set()))


def answerers_users(
    there: tuple[str, int], here: tuple[str, int], tables: Path = _TABLES
) -> frozenset[int] | None:
    """
    Give the users who have the other end of an open connection of this machine, or listen there.

    It takes both. As long as a connection was not accepted the kernel shows its other end as
    root's, and it ends if its listener is closed. Once it was accepted its end tells who did that,
    whether he still listens or not; so what listens is read first. None: the system says nothing.
    """
    listening = listeners_users(*there, tables)
    if listening is None:
        return None
    return listening | _others_of(there, here, tables)


def _others_of(there: tuple[str, int], here: tuple[str, int], tables: Path) -> set[int]:
    ends = [_plain(ip_address(host.partition("%")[0])) for host, _ in (there, here)]
    ports = there[1], here[1]
    found = set()
    for name in ("tcp", "tcp6"):
        try:
            text = (tables / name).read_text("ascii", "replace")
        except OSError:
            continue
        for fields in _of_port(text, there[1]):
            addresses = [it.partition(":") for it in fields[1:3]]
            if tuple(int(port, 16) for _, _, port in addresses) != ports:
                continue
            if [_plain(_address(address)) for address, _, _ in addresses] == ends:
                found.add(int(fields[7]))
    return found


def _listening(text: str, port: int) -> Iterator[tuple[IPv4Address | IPv6Address, int]]:
    for fields in _of_port(text, port):
        if fields[3] == _LISTENS:
            yield _address(fields[1].partition(":")[0]), int(fields[7])


def _of_port(text: str, port: int) -> Iterator[list[str]]:
    """Give the rows of sockets that have this port themselves."""
    mark = f":{port:04X} "
    for line in text.splitlines()[1:]:
        if mark in line:
            fields = line.split()
            if int(fields[1].partition(":")[2], 16) == port:
                yield fields


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Give an address of IPv4 as such, also where a port of both kinds tells it."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _address(text: str) -> IPv4Address | IPv6Address:
    """Read an address as the kernel writes it: words of the machine's own order of bytes."""
    raw = bytes.fromhex(text)
    if sys.byteorder == "little":
        words = (raw[at : at + _WORD_BYTES] for at in range(0, len(raw), _WORD_BYTES))
        raw = b"".join(it[::-1] for it in words)
    return ip_address(raw)
