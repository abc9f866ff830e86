"""
Which host dialed a loopback connection: found by the process that owns the dialing socket.

All hosts of the proxies' network share one loopback, and the broker does not choose the address it
dials from. But the kernel lists each socket with its inode, each process lists its descriptors, and
each program of a host carries the host's name in its environment.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from pathlib import Path

from holdfast.testing.chaos.leftovers import all_processes, host_of

_TABLE = "/proc/net/tcp"


def _listed(address: tuple[str, int]) -> str:
    """An address as the kernel's table writes it."""
    number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    return f"{number:08X}:{address[1]:04X}"


def find_inode(table: str, dialer: tuple[str, int], listener: tuple[str, int]) -> str | None:
    """The inode of the dialing socket in the text of /proc/net/tcp; None if it is not there."""
    wanted = f" {_listed(dialer)} {_listed(listener)} "
    for line in table.splitlines():
        if wanted in line:
            inode = line.split()[9]
            return inode if inode != "0" else None
    return None


def owners(inode: str) -> list[int]:
    """The processes that hold this socket, as far as we may look into them."""
    wanted = f"socket:[{inode}]"
    found = []
    for pid in all_processes():
        with suppress(OSError):
            if any(_target(name) == wanted for name in Path(f"/proc/{pid}/fd").iterdir()):
                found.append(pid)
    return found


def _target(descriptor: Path) -> str:
    # It may be closed meanwhile: then it is not the one.
    with suppress(OSError):
        return str(descriptor.readlink())
    return ""


def find_dialer(
    dialer: tuple[str, int], listener: tuple[str, int], mark: str, stranger: str
) -> str | None:
    """
    The host that made a connection; None if the socket is gone already.

    Args:
        dialer: Where the connection comes from.
        listener: Where it goes to.
        mark: Of this network.
        stranger: What to say of a process that runs on none of its hosts.
    """
    inode = find_inode(Path(_TABLE).read_text(encoding="ascii"), dialer, listener)
    if inode is None:
        return None
    for pid in owners(inode):
        host = host_of(pid, mark)
        if host:
            return host
    return stranger
