"""
Signals that end a process where nobody takes them. A real terminal closes in the integration tests.
"""

from __future__ import annotations

import os
import signal

import pytest

from holdfast.cli import signals
from holdfast.cli.logging import set_up_logging
from holdfast.cli.signals import STRAY, stray_signals_told


@pytest.fixture
def ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], quiet_logging: None
) -> list[int]:
    """What the process would have sent itself."""
    sent: list[int] = []
    real = os.kill

    def kill(process: int, number: int) -> None:
        if number == signal.SIGTERM:
            sent.append(number)
        else:
            real(process, number)

    monkeypatch.setattr(os, "kill", kill)
    return sent


def receive(number: signal.Signals) -> None:
    """The log goes to standard error; the block ends when all that came is told."""
    set_up_logging("info", "human")
    with stray_signals_told():
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_what_is_not_meant_for_a_node_is_a_line(number, ends, capsys, monkeypatch) -> None:
    """A tool that rotates logs sends SIGHUP; a node lives on, and says it came."""
    monkeypatch.setattr(signals, "_has_terminal", lambda: True)
    receive(number)
    err = capsys.readouterr().err
    assert "signal ignored" in err
    assert number.name in err
    assert ends == []


def test_a_terminal_that_closes_ends_a_node_in_order(ends, capsys, monkeypatch) -> None:
    """It was there when the node started, and is not now: the line comes before the end."""
    seen = iter([True, False])
    monkeypatch.setattr(signals, "_has_terminal", lambda: next(seen))
    receive(signal.SIGHUP)
    assert "its terminal is gone" in capsys.readouterr().err
    assert ends == [signal.SIGTERM]


def test_quitting_by_a_key_ends_a_node_in_order(ends, capsys) -> None:
    """Somebody means it to end; a picture of its memory on the disk is no help."""
    receive(signal.SIGQUIT)
    assert "SIGQUIT" in capsys.readouterr().err
    assert ends == [signal.SIGTERM]


def test_what_is_ignored_stays_ignored(ends, capsys) -> None:
    """`nohup holdfast serve`; and afterwards everything is as it was."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        receive(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert capsys.readouterr().err == ""
    assert all(signal.getsignal(it) is signal.SIG_DFL for it in STRAY)


def test_a_hang_up_has_certificates_read_again_where_there_are_any(ends, capsys) -> None:
    """Whoever sends it knows why, as with other servers; the other signals are what they were."""
    asked: list[int] = []
    set_up_logging("info", "human")
    with stray_signals_told() as hang_ups:
        hang_ups.reload = lambda: asked.append(1)
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGUSR1)
    assert asked == [1]
    err = capsys.readouterr().err
    assert "SIGUSR1" in err
    assert "SIGHUP" not in err
    assert ends == []
