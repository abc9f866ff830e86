"""
One line for each client that is refused something, and not too many lines.
"""

from __future__ import annotations

from types import SimpleNamespace

from structlog.testing import capture_logs

from holdfast.server.refusal_log import LINES_PER_SECOND_MAX, RefusalLog


def session(port: int) -> SimpleNamespace:
    """A session with a socket, as far as the log looks at it."""
    connection = SimpleNamespace(peer=f"192.0.2.7:{port}")
    return SimpleNamespace(id=f"n1-1-{port}", connection=connection)


def test_a_line_says_who_and_why() -> None:
    """
    Address, code and the sentence that the client was told.
    """
    clock = SimpleNamespace(monotonic=lambda: 5.0)
    told = RefusalLog(clock)
    with capture_logs() as lines:
        told(session(7), "unknown-command", "unknown command 'NONSENSE'")
        told(SimpleNamespace(id="n1-1-8", connection=None), "ignored-option", "x" * 9000)
    assert lines[0] == {
        "event": "client refused",
        "log_level": "info",
        "client": "192.0.2.7:7",
        "session": "n1-1-7",
        "code": "unknown-command",
        "reason": "unknown command 'NONSENSE'",
    }
    assert (lines[1]["event"], lines[1]["client"]) == ("wish of a client ignored", "?")
    assert len(lines[1]["reason"]) == 300


def test_a_storm_of_refusals_does_not_flood_the_log() -> None:
    """
    So many lines a second; the next second's first line says how many were left out.
    """
    now = [5.0]
    told = RefusalLog(SimpleNamespace(monotonic=lambda: now[0]))
    with capture_logs() as lines:
        for port in range(1000):
            told(session(port), "unknown-command", "no")
        now[0] = 6.0
        told(session(1), "unknown-command", "no")
        told(session(2), "unknown-command", "no")
    assert len(lines) == LINES_PER_SECOND_MAX + 2
    assert lines[-2]["left_out"] == 1000 - LINES_PER_SECOND_MAX
    assert "left_out" not in lines[-1]
