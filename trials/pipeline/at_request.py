"""
Something that happens just before a request of the pipeline's own client, chosen by its number.

For tests of what a node that dies at a question leaves behind: the same questions are asked each
time, so a first run without it tells which there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any
from unittest import mock

from holdfast.spark.log import admin_link


class AtRequest:
    """Takes note of every request, and lets something happen before one."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """What was asked for since it was set."""

        self._number = 0
        self._happen: Callable[[], object] = lambda: None

    def set(self, number: int = 0, happen: Callable[[], object] = lambda: None) -> None:
        """Let it happen at that request from now on; the first one is 1, and 0 none."""
        self.asked, self._number, self._happen = [], number, happen

    def firsts(self) -> dict[str, int]:
        """Of each kind of question that was asked since, the number of the first one."""
        found: dict[str, int] = {}
        for number, each in enumerate(self.asked, 1):
            found.setdefault(each, number)
        return found

    def note(self, method: str, path: str) -> None:
        """Take note of a request that is about to be sent."""
        self.asked.append(f"{method} {_kind(path.partition('?')[0])}")
        if len(self.asked) == self._number:
            self._happen()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear of every request of this process meanwhile."""
        at = self

        class Noted(HTTPConnection):
            def request(self, method: str, url: str, *rest: Any, **options: Any) -> None:
                at.note(method, url)
                super().request(method, url, *rest, **options)

        with mock.patch.object(admin_link, "HTTPConnection", Noted):
            yield


def _kind(path: str) -> str:
    """Without the name of a hold, which is another each time."""
    return "/holds/NAME" if path.startswith("/holds/") else path
