"""
Which host dialed a loopback connection: found by the process that owns the dialing socket.

All hosts of the proxies' network share one loopback, and the broker does not choose the address it
dials from. But the kernel lists each socket with its inode, each process lists its descriptors, and
each program of a host carries the host's name in its environment.
"""

from __future__ import annotations

import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path

from trials.chaos.leftovers import host_of, marked

_TABLE = "/proc/net/tcp"

# <linux/netlink.h>, <linux/inet_diag.h>
_NETLINK_SOCK_DIAG = 4
_BY_FAMILY = 20
_IS_REQUEST = 1
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = b"\xff" * 8
_QUESTION = struct.Struct("=IHH8xBBxxI4s4s12x4s12x4x8s")
"""Length, kind, flags; family, protocol, states; both ports, both addresses, cookie."""
_ANSWER = struct.Struct("=4xH10x68xI")
"""Kind; inode."""
_ANSWER_SECONDS = 1.0


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


def ask_inode(dialer: tuple[str, int], listener: tuple[str, int]) -> str | None:
    """The same by one question to the kernel, which reads no table; None also if it cannot say."""
    question = _QUESTION.pack(
        _QUESTION.size,
        _BY_FAMILY,
        _IS_REQUEST,
        socket.AF_INET,
        socket.IPPROTO_TCP,
        _ALL_STATES,
        struct.pack("!HH", dialer[1], listener[1]),
        socket.inet_aton(dialer[0]),
        socket.inet_aton(listener[0]),
        _NO_COOKIE,
    )
    with (
        suppress(OSError),
        socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as kernel,
    ):
        kernel.settimeout(_ANSWER_SECONDS)
        kernel.send(question)
        answer = kernel.recv(4096)
        if len(answer) >= _ANSWER.size:
            kind, inode = _ANSWER.unpack_from(answer)
            return str(inode) if kind == _BY_FAMILY and inode else None
    return None


class DialerFinder:
    """Finds the hosts of one network's connections; remembers its programs, to be quick."""

    def __init__(self, mark: str, stranger: str) -> None:
        """`stranger` is what to say of a process that runs on none of the hosts."""
        self._mark = mark
        self._stranger = stranger
        self._programs: set[int] = set()

    def find(self, dialer: tuple[str, int], listener: tuple[str, int]) -> str | None:
        """The host that made the connection from here to there; None if its end is gone already."""
        inode = ask_inode(dialer, listener)
        if inode is None:
            inode = find_inode(Path(_TABLE).read_text(encoding="ascii"), dialer, listener)
        if inode is None:
            return None
        wanted = f"socket:[{inode}]"
        host = self._owner(wanted)
        if host is None:
            self._programs = set(marked(self._mark))
            host = self._owner(wanted)
        return host or self._stranger

    def _owner(self, wanted: str) -> str | None:
        for pid in self._programs:
            with suppress(OSError):
                if any(_target(name) == wanted for name in Path(f"/proc/{pid}/fd").iterdir()):
                    # The number may be another process's by now.
                    return host_of(pid, self._mark)
        return None


def _target(descriptor: Path) -> str:
    # It may be closed meanwhile: then it is not the one.
    with suppress(OSError):
        return str(descriptor.readlink())
    return ""
