"""
Holdfast's commands one after the other in one process, with one Spark for all of them.

Starting Spark and its first worker takes longer than most commands do. So the first one that wants
Spark starts it, with its own settings, and it ends with the process. It is another process than the
test's, which may have a Spark too.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Final, NamedTuple, Self

from pyspark.sql import SparkSession

from holdfast.cli.main import main

_END_SECONDS: Final = 10.0


class Ended(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str


class CommandLine:
    """
    One process; use as a context manager. One command at a time.

    Args:
        environment: What it has in its environment beside what this process has.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ | dict(environment or {})

    def __enter__(self) -> Self:
        """Start it."""
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", __name__],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        """End it, its Java and what that has started."""
        self._process.terminate()
        try:
            self._process.communicate(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()

    def begin(self, *words: str) -> None:
        """Begin a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def terminate(self) -> None:
        """Ask the command that runs to end, as an operator does."""
        self._process.send_signal(signal.SIGTERM)

    def ended(self) -> Ended:
        """Wait until the command has ended."""
        assert self._process.stdout is not None
        return Ended(*json.loads(self._process.stdout.readline()))


def run(words: list[str]) -> Ended:
    """Run one command here."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code: object = main(words)
        except SystemExit as ended:
            code = ended.code or 0
    assert isinstance(code, int)
    return Ended(code, out.getvalue(), err.getvalue())


def _stay(_: SparkSession) -> None:
    """A command has ended; the next one has Spark as it is."""


def serve() -> None:
    """Run what is asked for, line by line, until nobody asks any more."""
    SparkSession.stop = _stay  # type: ignore[assignment,method-assign]
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(json.loads(line))) + "\n")
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


if __name__ == "__main__":
    serve()
