"""
Become another program that dies with whoever started it.

Run as a script: `python -I -S launch.py PARENT COMMAND...`. It asks the kernel for SIGKILL at the
end of the thread that started it, makes sure that this thread's process was not gone already, and
becomes the command: same process id, nothing left of Python. Imports nothing of Holdfast, so that
it takes milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def launch(parent: int, command: list[str]) -> None:
    """Become the command; exit at once if the parent is gone. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        sys.exit(f"the parent {parent} is gone")
    os.execvp(command[0], command)  # noqa: S606 - the caller names the program


if __name__ == "__main__":
    launch(int(sys.argv[1]), sys.argv[2:])
