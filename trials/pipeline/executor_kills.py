r"""
Kill Spark's executors, or a Python worker alone, by process id, at a chosen place of their work.

    kills = ExecutorKills(folder)         # before Spark starts; kills.settings are Spark's
    kills.order(OPEN, r"\.parquet")
    ...                                   # a job begins
    kills.strike()                        # waits until a worker is there, and kills its executor
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from trials.pipeline.stalled_worker import ORDER, STALL_VARIABLE, STARTUP, TAKEN

EXECUTOR: Final = "CoarseGrainedExecutorBackend"
WAIT_SECONDS: Final = 240.0
_POLL_SECONDS: Final = 0.02


class ExecutorKills:
    """Orders for the workers of one application, all on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.killed: list[int] = []
        """The process ids of what is dead."""
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(STARTUP)

    @property
    def settings(self) -> dict[str, str]:
        """What Spark must be told, so that its workers look for orders."""
        return {
            f"spark.executorEnv.{STALL_VARIABLE}": str(self.folder),
            "spark.executorEnv.PYTHONPATH": str(self.folder),
        }

    def order(self, event: str, pattern: str) -> None:
        """Let the first worker stop that comes to an event whose text has this pattern."""
        draft = self.folder / "draft"
        draft.write_text(json.dumps({"event": event, "pattern": pattern}))
        draft.rename(self.folder / ORDER)

    def strike(self, seconds: float = WAIT_SECONDS) -> int:
        """
        Wait until a worker has stopped, and kill its executor.

        Raises:
            TimeoutError: None came there.
        """
        worker = self._stopped(seconds)
        executor = executor_of(worker)
        for process in (executor, worker):
            with suppress(ProcessLookupError):  # the worker may have noticed by itself
                os.kill(process, signal.SIGKILL)
        self.killed.append(executor)
        return executor

    def strike_worker(
        self, seconds: float = WAIT_SECONDS, *, again: tuple[str, str] | None = None
    ) -> int:
        """
        Wait until a worker has stopped, and kill that alone: its executor, or driver, goes on.

        Args:
            again: The order for the next one, which may come at once.

        Raises:
            TimeoutError: None came there.
        """
        worker = self._stopped(seconds)
        if again is not None:
            self.order(*again)
        os.kill(worker, signal.SIGKILL)
        self.killed.append(worker)
        return worker

    def strike_driver(self, driver: int, seconds: float = WAIT_SECONDS) -> None:
        """
        Wait until a worker has stopped, and kill the group of its driver, and then the worker.

        Raises:
            TimeoutError: None came there.
        """
        worker = self._stopped(seconds)
        os.killpg(driver, signal.SIGKILL)
        with suppress(ProcessLookupError):  # it may have noticed by itself
            os.kill(worker, signal.SIGKILL)
        self.killed.append(driver)

    def _stopped(self, seconds: float) -> int:
        deadline = time.monotonic() + seconds
        while not (taken := list(self.folder.glob(f"{TAKEN}*"))):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no worker came to {(self.folder / ORDER).read_text()}")
            time.sleep(_POLL_SECONDS)
        taken[0].unlink()
        return int(taken[0].name.removeprefix(TAKEN))

    def withdraw(self) -> None:
        """Take back an order that nobody has taken, and end whoever waits for one."""
        (self.folder / ORDER).unlink(missing_ok=True)
        for taken in self.folder.glob(f"{TAKEN}*"):
            taken.unlink()
            with suppress(ProcessLookupError):
                os.kill(int(taken.name.removeprefix(TAKEN)), signal.SIGKILL)


def executor_of(worker: int) -> int:
    """
    Give the executor above a Python worker.

    Raises:
        LookupError: There is none.
    """
    process = worker
    while process > 1:
        if EXECUTOR in Path(f"/proc/{process}/cmdline").read_text():
            return process
        # The name in parentheses may hold anything; what follows it are plain fields.
        status = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        process = int(status[1])
    raise LookupError(f"process {worker} is no worker of an executor")
