"""
Become another program that dies with whoever started it.

Run as a script: `python -I -S launch.py PARENT COMMAND...`. It asks the kernel for SIGKILL at the
end of the thread that started it, makes sure that this thread's process was not gone already, and
becomes the command: same process id, nothing left of Python. Imports nothing of Holdfast, so that
it takes milliseconds.

UPTIME_VARIABLE in its environment makes the command believe that its machine started so many
seconds earlier. Monotonic clocks of two machines have nothing in common, those of two processes of
one machine everything: without it, nobody would notice a broker that believes another's clock.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

UPTIME_VARIABLE = "CHAOS_UPTIME"
"""Seconds to be added to the monotonic clock, where the kernel lets us (a time namespace)."""

_PR_SET_PDEATHSIG = 1
_CLONE_NEWTIME = 0x80


def launch(parent: int, command: list[str]) -> None:
    """Become the command; exit at once if the parent is gone. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        sys.exit(f"the parent {parent} is gone")
    age_machine(libc, os.environ.get(UPTIME_VARIABLE, "0"))
    os.execvp(command[0], command)  # noqa: S606 - the caller names the program


def age_machine(libc: ctypes.CDLL, seconds: str) -> None:
    """Let the monotonic clock of what we become be so much ahead; nothing where we may not."""
    if seconds == "0" or libc.unshare(_CLONE_NEWTIME) != 0:
        return
    with suppress(OSError), Path("/proc/self/timens_offsets").open("w") as offsets:
        offsets.write(f"monotonic {seconds} 0\nboottime {seconds} 0\n")


if __name__ == "__main__":
    launch(int(sys.argv[1]), sys.argv[2:])
