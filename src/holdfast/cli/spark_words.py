"""
What Spark itself writes: kept from a person's terminal, and told when something went wrong.

Java takes this process's standard error over when it is started and writes warnings of its own
there, a dozen lines before anything has happened. So it gets a pipe instead, of which a thread
keeps the end. With `--verbose`, and where Spark runs already (`spark-submit`), nothing is changed.

Invariants:
    The pipe is read for as long as the process lives: who writes to it is never held up.
    What is kept has an upper bound.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.spark.session import is_submitted

KEPT_BYTES: Final = 64 * 1024
LINES_TOLD: Final = 20
_STANDARD_ERROR: Final = 2
_READ_BYTES: Final = 8 * 1024


class SparkWords:
    """The end of what Spark has written so far."""

    def __init__(self) -> None:
        self._kept = bytearray()

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Within the block a process that is started has our pipe for its standard error."""
        if is_submitted():
            yield
            return
        reading, writing = os.pipe()
        before = os.dup(_STANDARD_ERROR)
        threading.Thread(target=self._listen, args=(reading,), daemon=True).start()
        os.dup2(writing, _STANDARD_ERROR)
        os.close(writing)
        try:
            yield
        finally:
            os.dup2(before, _STANDARD_ERROR)
            os.close(before)

    def last(self) -> list[str]:
        """Give the last lines."""
        lines = self._kept.decode(errors="replace").splitlines()
        return [line for line in lines if line.strip()][-LINES_TOLD:]

    def _listen(self, reading: int) -> None:
        with os.fdopen(reading, "rb", buffering=0) as words:
            while heard := words.read(_READ_BYTES):
                self._kept += heard
                del self._kept[:-KEPT_BYTES]
