"""
The file of who did what: a line of JSON for each, written by a thread of its own.

What operators change stands in a second one as well, which nobody else's lines turn over: of
members, transfers and promotions there is no other record.

Invariants:
    Nobody waits for the disk to note something.
    What could not be noted is counted, and the count is noted once that is possible.
    What clients cause leaves room for what operators do, also where the disk hangs.

`note` and `close` are the loop's, all else the thread's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final

from holdfast.environment.clock import Clock
from holdfast.server.audit_bounds import AuditBounds, Kind, Line, Moment, line_of
from holdfast.server.line_file import LineFile

CHANGES_SUFFIX: Final = ".changes"

WAITING_COUNT_MAX: Final = 10_000
"""Lines that wait for the disk; of what clients cause half as many."""

AT_ONCE_MAX: Final = 500
CLOSE_SECONDS_MAX: Final = 2.0


class _Book:
    """One of the files, and what never came to it as there was no room."""

    def __init__(self, file: LineFile) -> None:
        self.file = file
        self.dropped_count = 0
        """The loop's."""
        self._told_count = 0

    def write(self, lines: list[bytes]) -> None:
        dropped = self.dropped_count
        self.file.write(lines, dropped - self._told_count)
        self._told_count = dropped


class AuditFile:
    """The files of one node."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """
        Open them, and begin to write.

        Raises:
            ConfigError: One cannot be written.
        """
        self._clock = clock
        self._bounds = AuditBounds()
        self._queue: SimpleQueue[Line | None] = SimpleQueue()
        self._all = self._book(path)
        self._changes = self._book(path.with_name(f"{path.name}{CHANGES_SUFFIX}"))
        self._thread = Thread(target=self._run, name="holdfast-audit", daemon=True)
        self._thread.start()

    def _book(self, path: Path) -> _Book:
        return _Book(LineFile(path, self._clock.monotonic, self._line_of_lost))

    def note(self, fields: Mapping[str, str], kind: Kind) -> None:
        """Write one line, in its time; of what clients cause as much as may be, and how often."""
        for line in self._bounds.lines(fields, kind, self._now()):
            self._put(line)

    def close(self) -> None:
        """Write what waits, unless the disk hangs."""
        for line in self._bounds.rest(self._now()):
            self._put(line)
        self._queue.put(None)
        self._thread.join(CLOSE_SECONDS_MAX)

    def _put(self, line: Line) -> None:
        room = WAITING_COUNT_MAX if line.is_change else WAITING_COUNT_MAX // 2
        if self._queue.qsize() < room:
            self._queue.put(line)
            return
        self._all.dropped_count += 1
        self._changes.dropped_count += line.is_change

    def _run(self) -> None:
        while True:
            noted = list(self._taken())
            lines = [it for it in noted if it is not None]
            self._write(lines)
            if None in noted:
                self._all.file.close()
                self._changes.file.close()
                return

    def _taken(self) -> Iterator[Line | None]:
        """Wait for something to be noted, and give it with what else there is."""
        yield self._queue.get()
        with suppress(Empty):
            for _ in range(AT_ONCE_MAX - 1):
                yield self._queue.get_nowait()

    def _write(self, lines: list[Line]) -> None:
        self._all.write([it.text for it in lines])
        self._changes.write([it.text for it in lines if it.is_change])

    def _now(self) -> Moment:
        return Moment(self._clock.monotonic(), self._clock.wall_microseconds())

    def _line_of_lost(self, count: int) -> bytes:
        fields = {"action": "lines lost", "outcome": str(count)}
        return line_of(self._clock.wall_microseconds(), fields)
