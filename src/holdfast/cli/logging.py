"""
How the node's log lines look: structlog in front, the standard library behind.

Lines for people on a terminal have colours; `--log-format json` gives one JSON object per line.
Libraries that log through the standard library (uvicorn, asyncio) come out in the same form. The
log goes to standard error, so that standard output stays for results.

structlog would take rich, wherever it finds it, to draw tracebacks; ours are plain. To import that
takes a node a twelfth of its start, so it is not to be found meanwhile: whoever logs in `cli` has
structlog from here.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from holdfast.cli.log_thread import LogThread
from holdfast.config.node_settings import LogFormat, LogLevel

# What is None among the modules cannot be imported.
_rich = sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
import structlog  # noqa: E402 - as said above

if _rich is None:
    del sys.modules["rich"]

if TYPE_CHECKING:
    from structlog.typing import Processor

EVENT_COLUMNS = 36


def get_logger() -> Any:
    """The log of the commands."""
    return structlog.get_logger("holdfast")


def set_up_logging(
    level: LogLevel,
    log_format: LogFormat,
    stream: TextIO | None = None,
    *,
    in_thread: bool = False,
) -> None:
    """
    Send every log line of the process to `stream` (standard error) in one form.

    A node has them written `in_thread`: a log that cannot be written must not hold its loop up.
    """
    stream = stream or sys.stderr
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(number),
        cache_logger_on_first_use=True,
    )
    terminal = LogThread(stream) if in_thread else logging.StreamHandler(stream)
    terminal.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers(log_format, is_terminal=stream.isatty()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [terminal]
    root.setLevel(number)


@contextmanager
def logging_flushed() -> Iterator[None]:
    """At the end let all that was logged be written, before anything else is said."""
    try:
        yield
    finally:
        for handler in logging.getLogger().handlers:
            handler.flush()


def _renderers(log_format: LogFormat, *, is_terminal: bool) -> list[Processor]:
    if log_format == "json":
        return [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ]
    plain = structlog.dev.plain_traceback
    return [
        structlog.dev.ConsoleRenderer(
            colors=is_terminal, pad_event_to=EVENT_COLUMNS, exception_formatter=plain
        )
    ]
