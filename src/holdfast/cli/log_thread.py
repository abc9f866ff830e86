"""
Log lines leave by a thread of their own, so that a log that cannot be written holds nobody up.

The log may be a file on a disk that is full or frozen, or a pipe that nobody reads. Whoever logs
there is the loop, the journal's writer or the housekeeper, and none of them may wait for that.

Invariants:
    To log never waits, and never fails.
    At most `count_max` lines wait. What does not fit is counted, and the log says how many as soon
    as it can be written again.
    At the end of the process what waits is written, if that takes no longer than a moment.
"""

from __future__ import annotations

import logging
import queue
import threading
from typing import Final, TextIO

LINES_MAX: Final = 10_000
"""Lines that wait while the log cannot be written."""
FLUSH_SECONDS_MAX: Final = 2.0
"""How long the end of the process waits for them."""


class LogThread(logging.Handler):
    """Hands records to a thread that formats and writes them, in order."""

    def __init__(self, stream: TextIO, count_max: int = LINES_MAX) -> None:
        """Write to this stream; the thread starts with the first line."""
        super().__init__()
        self._stream = stream
        self._lines: queue.Queue[logging.LogRecord] = queue.Queue(count_max)
        self._thread: threading.Thread | None = None
        self._untold = 0
        self.dropped_count = 0
        """Lines that were not written because too many waited, or the stream refused them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line; it is counted instead if there is no room for it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
            self._thread.start()
        try:
            self._lines.put_nowait(record)
        except queue.Full:
            self._drop()

    def flush(self) -> None:
        """Wait until what was logged is written, but not for long."""
        lines = self._lines
        with lines.all_tasks_done:
            lines.all_tasks_done.wait_for(lambda: not lines.unfinished_tasks, FLUSH_SECONDS_MAX)

    def _drop(self) -> None:
        # Under the handler's lock when a line is logged; the writing thread only adds.
        self.dropped_count += 1
        self._untold += 1

    def _run(self) -> None:
        while True:
            record = self._lines.get()
            self._write(record)
            if self._untold:
                untold, self._untold = self._untold, 0
                self._write(_told(untold))
            self._lines.task_done()

    def _write(self, record: logging.LogRecord) -> None:
        try:
            self._stream.write(f"{self.format(record)}\n")
            self._stream.flush()
        except (OSError, ValueError):  # full, gone, or closed
            self._drop()
        except Exception:  # noqa: BLE001 - a line that cannot be formatted costs itself only
            self.handleError(record)


def _told(count: int) -> logging.LogRecord:
    text = "%d log lines are missing here: the log could not be written"
    return logging.LogRecord("holdfast", logging.WARNING, "", 0, text, (count,), None)
