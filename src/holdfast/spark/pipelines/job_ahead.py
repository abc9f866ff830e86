"""
A job of Spark's that runs while the driver does something else.

Owned by the thread that begins it: it takes the outcome once, or gives the job up.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
_CANCEL_AGAIN_SECONDS: Final = 0.2


class JobAhead(Generic[T]):
    """Work that uses a Spark context, begun in a thread of its own."""

    def __init__(self, context: Any, work: Callable[[], T]) -> None:
        self._context = context
        self._work = work
        self._tag = f"holdfast-ahead-{uuid.uuid4().hex}"
        self._outcome: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-ahead", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            # Each thread has tags of its own: only this job is cancelled by it.
            self._context.addJobTag(self._tag)
            self._outcome.append(self._work())
        except BaseException as error:  # noqa: BLE001 - whoever takes the outcome hears of it
            self._error = error

    def wait(self, seconds: float) -> bool:
        """Wait for so long at most; whether the outcome is there."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def take(self) -> T:
        """Wait for the outcome, or raise what the work raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._outcome[0]

    def give_up(self) -> T | None:
        """
        Cancel what still runs, and wait until nothing does.

        Gives the outcome if it was there already; its error, if it had one, is nobody's concern.
        What the tasks of a cancelled job had done by then nobody knows.
        """
        while self._thread.is_alive():
            # Only a job that was submitted already is cancelled.
            self._context.cancelJobsWithTag(self._tag)
            self._thread.join(_CANCEL_AGAIN_SECONDS)
        return self._outcome[0] if self._outcome else None
