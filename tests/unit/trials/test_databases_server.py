"""The servers of tests' own: whom they send a signal."""

from __future__ import annotations

import os
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
