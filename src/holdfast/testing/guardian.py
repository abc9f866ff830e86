"""
What ends the brokers of a test when the process of the test is gone, however it went.

A `with` block cannot: nothing of a process runs any more once a signal has ended it. So a process
of its own, made with the first broker, holds a handle on each and the end of a pipe whose other end
only the test's process has; when that is closed, it kills what still lives.

A handle is no number: a process that ended, and whose number another got, is not mistaken for it.
Where the system has no such handles (Linux has) brokers are left as they were.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_LINE_BYTES_MAX: Final = 4096


class Guardian:
    """The side of the test's process."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        # Out of the terminal's group, so that Ctrl-C does not end it before the test. Not a part of
        # this package when it runs: it starts before every test, so it loads nothing.
        self.process = subprocess.Popen(  # noqa: S603 - ours
            [sys.executable, "-I", "-S", str(Path(__file__))],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        atexit.register(self._end)

    @property
    def is_ours(self) -> bool:
        """Whether it watches for this process, and still runs; after a fork it is another's."""
        return self._owner == os.getpid() and self.process.poll() is None

    def watch(self, pid: int) -> None:
        """Have this process, a child of ours, end with us."""
        assert self.process.stdin is not None
        with suppress(OSError):  # Somebody ended it: nobody is worse off than without one.
            self.process.stdin.write(b"%d\n" % pid)
            self.process.stdin.flush()

    def _end(self) -> None:
        """See it off, so that the interpreter does not warn of a process that is left."""
        if self.is_ours and self.process.stdin is not None:
            self.process.stdin.close()
            with suppress(subprocess.TimeoutExpired):  # Who was forked has the pipe as well.
                self.process.wait(1)


_guardians: list[Guardian] = []


def end_with_us(pid: int) -> None:
    """Have a process that was started here end when this process ends."""
    if not hasattr(os, "pidfd_open"):
        return
    if not _guardians or not _guardians[0].is_ours:
        _guardians[:] = [Guardian()]
    _guardians[0].watch(pid)


def guard(source: int) -> None:
    """Hold the processes whose ids come from this pipe, and kill them when it is closed."""
    held: set[int] = set()
    rest = b""
    while True:
        ready, _, _ = select.select([source, *held], [], [])
        for handle in held.intersection(ready):  # It ended by itself.
            held.discard(handle)
            os.close(handle)
        if source in ready:
            data = os.read(source, _LINE_BYTES_MAX)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            held.update(filter(None, map(_handle, lines)))
    for handle in held:
        with suppress(ProcessLookupError):  # It ended just now.
            signal.pidfd_send_signal(handle, signal.SIGKILL)


def _handle(line: bytes) -> int | None:
    try:
        return os.pidfd_open(int(line))
    except ProcessLookupError:
        return None


if __name__ == "__main__":
    guard(sys.stdin.fileno())
