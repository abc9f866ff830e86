"""
Loopback ports for brokers that tests, demos and benches start, also by several programs at once.

A port that was free a moment ago may be taken by the time its broker binds it: by another program
that asks in the same way, or by the kernel for an outgoing connection. So a program claims a block
of ports for as long as it lives, below those that the kernel gives to outgoing connections.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Final

_LOOPBACK: Final = "127.0.0.1"
_FIRST: Final = 10_000
_BLOCK: Final = 200
"""Ports of a block; a port is given again only after all the others."""
_KERNEL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_KERNEL_FIRST: Final = 32_768
_claims: dict[int, _Claim] = {}


class NoFreePortError(RuntimeError):
    """Every block of ports is claimed, or all ports of this program's block are in use."""


def free_ports(count: int) -> list[int]:
    """
    Give `count` different loopback ports that nobody listens on, and that no other program which
    asks here is given while this one lives. Raises NoFreePortError.
    """
    process = os.getpid()
    if process not in _claims:  # A child of a fork claims a block of its own.
        _claims.clear()
        _claims[process] = _Claim(_default_folder())
    return _claims[process].take(count)


class _Claim:
    """One block; the claim ends with the process, or when it is closed."""

    def __init__(self, folder: Path) -> None:
        self._file, self.first = _claim(folder)
        self._ports: Iterator[int] = cycle(range(self.first, self.first + _BLOCK))

    def take(self, count: int) -> list[int]:
        """Give ports that can be bound now. Raises NoFreePortError."""
        taken: list[int] = []
        for _ in range(_BLOCK):
            if len(taken) == count:
                break
            port = next(self._ports)
            if _can_bind(port):
                taken.append(port)
        if len(taken) < count:
            raise NoFreePortError(
                f"{count} free ports are needed, and ports {self.first} to "
                f"{self.first + _BLOCK - 1} have {len(taken)}; end what was left running"
            )
        return taken

    def close(self) -> None:
        """Give the block back."""
        os.close(self._file)


def _default_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"holdfast-ports-{os.getuid()}"


def _claim(folder: Path) -> tuple[int, int]:
    """Lock a block that nobody holds: the descriptor of its lock, and its first port."""
    folder.mkdir(mode=0o700, exist_ok=True)
    blocks = list(range(_FIRST, _first_of_kernel() - _BLOCK + 1, _BLOCK))
    random.SystemRandom().shuffle(blocks)  # Also other users of the machine keep apart.
    for first in blocks:
        descriptor = os.open(folder / str(first), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
        else:
            return descriptor, first
    raise NoFreePortError(f"every block of ports is claimed in {folder}; end what was left running")


def _first_of_kernel() -> int:
    with suppress(OSError, ValueError, IndexError):
        return max(int(_KERNEL_RANGE.read_text().split()[0]), _FIRST + _BLOCK)
    return _KERNEL_FIRST


def _can_bind(port: int) -> bool:
    with socket.socket() as probe, suppress(OSError):
        probe.bind((_LOOPBACK, port))
        return True
    return False
