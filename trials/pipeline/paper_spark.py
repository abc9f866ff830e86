"""
A Spark on paper: what archiver and audit ask of a session, with the tasks run where it stands.

For tests of what is around the tasks; a failure comes back as text, as Spark's does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_IN_A_TASK = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times
Traceback (most recent call last):
  File "worker.py", line 1, in main
{}: {}
\tat org.apache.spark.api.python (Worker.scala:1)
"""


class PaperSpark:
    """Session and context in one."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, str]] = []
        """Class and text of what the next jobs end with."""

        self.cancelled: list[str] = []
        """Tags of the jobs that were cancelled."""

    @property
    def sparkContext(self) -> PaperSpark:  # noqa: N802 - Spark's name
        """The context."""
        return self

    @property
    def defaultParallelism(self) -> int:  # noqa: N802 - Spark's name
        """How many tasks would run at once."""
        return 2

    def parallelize(self, work: list[Any], _: int) -> _Work:
        """Give work, one piece per task."""
        return _Work(self, work)

    def addJobTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        """Name the jobs of this thread."""

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        """Cancel jobs of this name; here they run on, as what cannot be stopped does."""
        self.cancelled.append(tag)

    def stop(self) -> None:
        """End the session."""


class _Work:
    def __init__(self, spark: PaperSpark, work: list[Any]) -> None:
        self._spark = spark
        self._work = work

    def map(self, task: Callable[[Any], Any]) -> _Work:
        if self._spark.failures:
            raise RuntimeError(_IN_A_TASK.format(*self._spark.failures.pop(0)))
        return _Work(self._spark, [task(each) for each in self._work])

    def flatMap(self, task: Callable[[Any], list[Any]]) -> _Work:  # noqa: N802 - Spark's name
        return _Work(self._spark, [found for each in self.map(task).collect() for found in each])

    def collect(self) -> list[Any]:
        return self._work
