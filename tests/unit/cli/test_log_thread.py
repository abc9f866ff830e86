"""
A log that cannot be written holds nobody up.
"""

from __future__ import annotations

import errno
import io
import logging
import threading

import pytest

from holdfast.cli import log_thread
from holdfast.cli.log_thread import LogThread


class FrozenStream(io.StringIO):
    """A file on a file system that is frozen until it is thawed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = threading.Event()
        self.is_thawed = threading.Event()

    def write(self, text: str) -> int:
        self.is_asked.set()
        assert self.is_thawed.wait(30)
        return super().write(text)


@pytest.fixture
def logger():
    made = logging.Logger("test")  # noqa: LOG001 - of its own, so that no other handler sees it
    made.setLevel(logging.INFO)
    return made


def test_lines_are_written_in_order(logger) -> None:
    """Each with its arguments, all of them before the process ends."""
    stream = io.StringIO()
    handler = LogThread(stream)
    logger.addHandler(handler)
    for number in range(500):
        logger.info("line %d", number)
    handler.flush()
    assert [f"line {number}" for number in range(500)] == stream.getvalue().splitlines()


def test_a_frozen_file_system_holds_nobody_up(logger) -> None:
    """
    The loop logs on. What does not fit is counted, and told where it is missing.
    """
    stream = FrozenStream()
    handler = LogThread(stream, count_max=10)
    logger.addHandler(handler)
    logger.info("first")
    assert stream.is_asked.wait(30)  # The thread hangs in it now.
    for number in range(25):
        logger.info("line %d", number)
    assert 15 == handler.dropped_count

    stream.is_thawed.set()
    handler.flush()
    written = stream.getvalue().splitlines()
    assert ["first", "15 log lines are missing here: the log could not be written"] == written[:2]
    assert [f"line {number}" for number in range(10)] == written[2:]


def test_the_end_of_the_process_does_not_wait_for_it(logger, monkeypatch) -> None:
    """A process that is told to end does so, whatever its log hangs on."""
    monkeypatch.setattr(log_thread, "FLUSH_SECONDS_MAX", 0.01)
    stream = FrozenStream()
    handler = LogThread(stream)
    logger.addHandler(handler)
    logger.info("never written")
    handler.flush()
    assert "" == stream.getvalue()
    stream.is_thawed.set()


def test_a_stream_that_refuses_costs_its_lines_only(logger) -> None:
    """A full disk, a pipe that nobody reads: the next line may get through, and tells."""

    class Refusing(io.StringIO):
        left = 2

        def write(self, text: str) -> int:
            if self.left:
                self.left -= 1
                raise OSError(errno.ENOSPC, "no space left")
            return super().write(text)

    stream = Refusing()
    handler = LogThread(stream)
    logger.addHandler(handler)
    for text in ("lost", "heard"):
        logger.info(text)
    handler.flush()
    assert 2 == handler.dropped_count
    assert "heard" in stream.getvalue()
    assert "log lines are missing here" in stream.getvalue()


def test_a_line_that_cannot_be_formatted_costs_itself(logger, monkeypatch) -> None:
    """It is our mistake, and must not end the thread."""
    monkeypatch.setattr(logging, "raiseExceptions", False)
    stream = io.StringIO()
    handler = LogThread(stream)
    logger.addHandler(handler)
    logger.info("%d", "no number")
    logger.info("next")
    handler.flush()
    assert "next\n" == stream.getvalue()
