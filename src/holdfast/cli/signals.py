"""
Signals that would end a node without a word.

SIGTERM and SIGINT are the node's own: it stops as it should. What else reaches a server is a
terminal that closes (SIGHUP), a tool that believes every daemon reads its settings anew (SIGHUP,
SIGUSR1, SIGUSR2), and a key of the terminal (SIGQUIT); all of these end a process at once where
nobody takes them. Here each is a line in the log, and those that mean an end are an orderly one.
A SIGHUP of a tool makes a node read its certificates anew, where it has any.

Invariants:
    The handler only puts a number into a queue that may be entered again: it may interrupt the
    logging of a line, and logs nothing itself.
    What the parent ignores for this process (nohup) stays ignored.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.cli.logging import get_logger, logging_flushed

STRAY: Final = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)
_TERMINAL: Final = "/dev/tty"


class HangUps:
    """What a SIGHUP is for that is not the end of a terminal."""

    def __init__(self) -> None:
        self.reload: Callable[[], None] | None = None
        """Called on a thread of its own; None: nothing is read anew."""


@contextmanager
def stray_signals_told() -> Iterator[HangUps]:
    """While the block lasts no such signal ends the process without a line in the log."""
    hang_ups = HangUps()
    arrived: queue.SimpleQueue[signal.Signals | None] = queue.SimpleQueue()
    taken = [it for it in STRAY if signal.getsignal(it) is signal.SIG_DFL]
    had_terminal = _has_terminal()
    teller = threading.Thread(
        target=_tell_all, args=(arrived, had_terminal, hang_ups), name="signals", daemon=True
    )
    teller.start()
    for number in taken:
        signal.signal(number, lambda number, _: arrived.put(signal.Signals(number)))
    try:
        yield hang_ups
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
        arrived.put(None)
        teller.join()


def _tell_all(
    arrived: queue.SimpleQueue[signal.Signals | None], had_terminal: bool, hang_ups: HangUps
) -> None:
    while (number := arrived.get()) is not None:
        is_hung_up = number == signal.SIGHUP and had_terminal and not _has_terminal()
        if number == signal.SIGHUP and not is_hung_up and hang_ups.reload is not None:
            hang_ups.reload()
        else:
            _tell(number, is_end=is_hung_up or number == signal.SIGQUIT)


def _tell(number: signal.Signals, *, is_end: bool) -> None:
    log = get_logger()
    if not is_end:
        log.warning(
            "signal ignored: settings are read when the node starts, SIGTERM stops it",
            signal=number.name,
        )
        return
    with logging_flushed():
        reason = "its terminal is gone" if number == signal.SIGHUP else "as an operator asked"
        log.warning("a signal ends this node", signal=number.name, reason=reason)
    os.kill(os.getpid(), signal.SIGTERM)


def _has_terminal() -> bool:
    """Whether the process belongs to a terminal that is still there."""
    try:
        os.close(os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
