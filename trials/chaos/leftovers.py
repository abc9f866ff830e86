"""
Find and end what the programs of a chaos network themselves left behind.

The programs die with their host's thread, but a program may have started another. All of them carry
the network's mark in their environment, by which they are found; nobody else carries it.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from trials.chaos.host_thread import HOST_VARIABLE

_END_SECONDS = 10.0
_POLL_SECONDS = 0.005


def new_mark() -> str:
    """A mark that no other network has."""
    return f"chaos-{os.getpid()}-{secrets.token_hex(6)}"


def host_of(pid: int, mark: str) -> str | None:
    """On which host of this network a process runs; None if on none."""
    wanted = f"{HOST_VARIABLE}={mark}".encode()
    with suppress(OSError):
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if variable.startswith(wanted):
                return variable[len(wanted) + 1 :].decode()
    return None


def marked(mark: str) -> Iterator[int]:
    """The processes that carry this mark and still live."""
    for pid in all_processes():
        if pid != os.getpid() and host_of(pid, mark) is not None:
            yield pid


def all_processes() -> Iterator[int]:
    """Every process of this machine, ours or not."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def end_marked(mark: str) -> None:
    """
    Kill every process that carries this mark, and wait until all are gone.

    Raises:
        TimeoutError: One did not end.
    """
    deadline = time.monotonic() + _END_SECONDS
    while pids := list(marked(mark)):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"these processes do not end: {pids}")
        time.sleep(_POLL_SECONDS)
