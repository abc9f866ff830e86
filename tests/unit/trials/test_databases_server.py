"""The servers of tests' own: whom they send a signal."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path
from typing import Any

import pytest

from trials.databases import server as module
from trials.databases.server import DatabaseServer


class _EndsAtOnce(DatabaseServer):
    """A server that ends by itself as soon as it is started."""

    name = "ends"
    user = "nobody"

    def prepare(self) -> None:
        """It has no data."""

    def command(self) -> list[str]:
        return ["true"]

    def is_ready(self) -> bool:
        return False

    def execute(self, statement: str, database: str) -> list[tuple[Any, ...]]:
        raise AssertionError((statement, database))

    def create(self, database: str) -> str:
        raise AssertionError(database)

    def url(self, database: str, port: int | None = None) -> str:
        raise AssertionError((database, port))


def test_one_that_ended_by_itself_is_sent_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it was asked how it ended, its number may be another process's; its folder goes."""
    sent: list[int] = []
    monkeypatch.setattr(module, "_send", lambda pid, _number: sent.append(pid))
    monkeypatch.setattr(module, "_family", lambda _pid: [os.getpid()])
    server = _EndsAtOnce()
    server.launch()
    assert server._process is not None
    server._process.wait(30)
    assert not server.is_running
    server.stop()
    server.remove()

    assert sent == []
    assert not server.folder.exists()


class _Counts(_EndsAtOnce):
    """A server of two threads that writes to a file for as long as it runs."""

    name = "counts"
    user = pwd.getpwuid(os.getuid()).pw_name

    def command(self) -> list[str]:
        program = (
            "import sys, threading, time\n"
            "def count():\n"
            "    while True:\n"
            "        print(file=sys.stdout, flush=True)\n"
            "for _ in range(4): threading.Thread(target=count).start()\n"
        )
        return [sys.executable, "-c", program]

    def is_ready(self) -> bool:
        return (self.folder / "log").stat().st_size > 0

    def states(self) -> set[str]:
        """What its threads are at."""
        assert self._process is not None, "it was started"
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/status")
        lines = [line for it in tasks for line in it.read_text().splitlines()]
        return {it.partition("\t")[2] for it in lines if it.startswith("State:")}


@pytest.mark.slow
def test_one_that_is_paused_does_nothing_more() -> None:
    """When `pause` returns all of its threads stand still; until then one may yet have worked."""
    server = _Counts()
    try:
        server.start()
        for _ in range(20):
            server.pause()
            assert {"T (stopped)"} == server.states()
            server.resume()
    finally:
        server.remove()
