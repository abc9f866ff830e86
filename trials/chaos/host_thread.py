"""
One thread per host, from which all programs of that host are started.

A program inherits the network namespace of the thread that starts it, and the kernel ends it when
that thread ends (see launch.py). So a thread that lives as long as its host is both the way onto
the host and the certainty that nothing stays behind, whatever becomes of this process.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

HOST_VARIABLE = "CHAOS_HOST"
"""Names the host in the environment of its programs, and of those that they start."""

_LAUNCH = Path(__file__).with_name("launch.py")
_END_SECONDS = 10.0

_Task = tuple[Callable[[], Any], "Future[Any]"]


class HostThread:
    """Runs what it is given on its host, one after the other; `close` ends the host's programs."""

    def __init__(self, name: str, mark: str, enter: Callable[[], None]) -> None:
        """
        Start the thread.

        Args:
            name: The host.
            mark: What HOST_VARIABLE shall say in its programs.
            enter: Called first in the new thread, to move it onto the host. May raise.
        """
        self.name = name
        self._mark = mark
        self._programs: list[subprocess.Popen[bytes]] = []
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        entered: Future[None] = Future()
        self._tasks.put((enter, entered))
        self._thread = threading.Thread(target=self._serve, name=f"host-{name}", daemon=True)
        self._thread.start()
        entered.result()

    def run(self, call: Callable[[], Any]) -> Any:
        """Run this on the host, and give what it returns or raise what it raises."""
        if not self._thread.is_alive():
            raise RuntimeError(f"the host {self.name} is gone")
        answer: Future[Any] = Future()
        self._tasks.put((call, answer))
        return answer.result()

    def spawn(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program on the host; it is killed at the latest when this thread ends."""
        environment = dict(options.pop("env", None) or os.environ) | {HOST_VARIABLE: self._mark}
        # Whoever interrupts the runner at a terminal means the runner.
        options.setdefault("start_new_session", True)
        full = [sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), *command]
        process: subprocess.Popen[bytes] = self.run(
            lambda: subprocess.Popen(full, env=environment, **options)  # noqa: S603 - ours
        )
        self._programs.append(process)
        return process

    def close(self) -> None:
        """End the thread, and thereby every program that was started from it; reap them all."""
        self._tasks.put(None)
        self._thread.join(_END_SECONDS)
        for process in self._programs:
            process.kill()  # if it was so young that the kernel did not know yet to end it
            process.wait(_END_SECONDS)

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            call, answer = task
            try:
                answer.set_result(call())
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
                answer.set_exception(error)
            del task, call, answer
