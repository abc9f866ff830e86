"""
The form of log lines.
"""

from __future__ import annotations

import io
import json
import logging

import structlog

from holdfast.cli.logging import set_up_logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_lines_carry_their_fields(quiet_logging) -> None:
    """
    One object per line, with level and time, also for a library's line and for a traceback.
    """
    stream = io.StringIO()
    set_up_logging("info", "json", stream)
    structlog.get_logger("holdfast.server").info("became leader", term=7)
    logging.getLogger("asyncio").warning("slow %s", "client")
    try:
        raise ValueError("inside")
    except ValueError:
        structlog.get_logger().exception("failed")
    first, second, third = map(json.loads, stream.getvalue().splitlines())
    assert (first["event"], first["term"], first["level"]) == ("became leader", 7, "info")
    assert (second["event"], second["level"]) == ("slow client", "warning")
    assert first["timestamp"].endswith("Z")
    assert "ValueError: inside" in third["exception"]


def test_lines_for_people_have_colours_on_a_terminal_only(quiet_logging) -> None:
    """
    A file or a pipe gets plain text.
    """
    for stream, coloured in ((io.StringIO(), False), (Terminal(), True)):
        set_up_logging("info", "human", stream)
        structlog.get_logger("holdfast").info("serving clients", stomp="127.0.0.1:61613")
        structlog.reset_defaults()
        assert ("\x1b[" in stream.getvalue()) is coloured
        assert "serving clients" in stream.getvalue()


def test_a_nodes_lines_have_the_same_form(quiet_logging) -> None:
    """
    They are made and written by another thread; the time is that at which they were said.
    """
    stream = io.StringIO()
    set_up_logging("info", "json", stream, in_thread=True)
    structlog.get_logger("holdfast.server").info("became leader", term=7)
    logging.getLogger("asyncio").warning("slow %s", "client")
    logging.getLogger().handlers[0].flush()
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["event"], first["term"], first["level"]) == ("became leader", 7, "info")
    assert (second["event"], second["level"]) == ("slow client", "warning")


def test_lines_below_the_level_are_not_written(quiet_logging) -> None:
    """
    The level holds for our lines and the libraries'.
    """
    stream = io.StringIO()
    set_up_logging("warning", "human", stream)
    structlog.get_logger().info("quiet")
    logging.getLogger("asyncio").info("quiet too")
    assert stream.getvalue() == ""
