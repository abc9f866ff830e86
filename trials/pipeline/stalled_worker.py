"""
Stop one of Spark's Python workers in the middle of a task, so that a test can kill its executor.

Every worker is asked at its start to look for orders in a folder (`STALL_VARIABLE`). An order names
an event of Python's own audit hooks and a pattern; the one worker that comes there first takes the
order, leaves its process id, and does nothing more. So an executor dies at a chosen place of its
task's work, however fast or slow the machine is.

Events beside Python's own: `transport.write` after asyncio has taken bytes for a connection.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

STALL_VARIABLE: Final = "STALL_FOLDER"
ORDER: Final = "order"
TAKEN: Final = "taken-"
"""With the process id behind it."""
OPEN, HTTP_SEND, WRITE = "open", "http.client.send", "transport.write"
EVENTS: Final = (OPEN, HTTP_SEND, WRITE)
STARTUP: Final = "import trials.pipeline.stalled_worker as each\neach.install()\n"
"""What a `sitecustomize.py` on the workers' path must say."""
_SLEEP_SECONDS: Final = 3600.0


class Stall:
    """The hook of one worker."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_looking = False

    def look(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Called for every event; returns but in the worker that takes the order."""
        if event not in EVENTS or self._is_looking:
            return
        self._is_looking = True  # Looking opens a file, which is an event, too.
        try:
            with suppress(OSError, ValueError):
                self._take(event, arguments)
        finally:
            self._is_looking = False

    def _take(self, event: str, arguments: tuple[Any, ...]) -> None:
        order = self._folder / ORDER
        wanted = json.loads(order.read_text())
        if event != wanted["event"] or not re.search(wanted["pattern"], _text(arguments)):
            return
        # Of several that come here at once one can rename it.
        order.rename(self._folder / f"{TAKEN}{os.getpid()}")
        time.sleep(_SLEEP_SECONDS)


def _text(arguments: tuple[Any, ...]) -> str:
    words = (each.decode("latin-1") if isinstance(each, bytes) else str(each) for each in arguments)
    return " ".join(words)


def install() -> None:
    """Look from now on, if this process is told where."""
    folder = os.environ.get(STALL_VARIABLE)
    if folder is None:
        return
    _tell_of_writes()
    sys.addaudithook(Stall(Path(folder)).look)


def _tell_of_writes() -> None:
    transport: Any = asyncio.selector_events._SelectorSocketTransport  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
    write = transport.write

    def told(self: Any, data: bytes) -> None:
        write(self, data)
        sys.audit(WRITE, bytes(data))

    transport.write = told
