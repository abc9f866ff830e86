"""
What is told on standard error while messages are on their way.
"""

from __future__ import annotations

import asyncio

import pytest
from rich.console import Console

from holdfast.cli import message_progress, output
from holdfast.cli.message_progress import Tally, progress_shown


class SteppedClock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_a_tally_tells_count_time_and_rate() -> None:
    """One message is singular; no time at all is no rate."""
    tally = Tally()
    assert not tally.has_started
    tally.stop()
    assert tally.rate == 0
    tally._clock = clock = SteppedClock()
    tally.start()
    clock.now = 2.0
    tally.count = 5_000
    tally.stop()
    assert tally.has_started
    assert tally.line("sent") == "sent 5,000 messages in 2.00 s (2,500 per second)"
    tally.count = 1
    assert tally.line("received") == "received 1 message in 2.00 s (0 per second)"


def test_a_bar_shows_only_when_it_takes_long_and_somebody_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pipe sees nothing, quick work neither; long work on a terminal shows its count."""
    screen = Console(force_terminal=True, width=100, record=True, quiet=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(output, "error_console", lambda: screen)
    monkeypatch.setattr(message_progress, "LOOK_SECONDS", 0.001)
    count = 0

    async def work(*, seconds_patience: float, is_quiet: bool) -> None:
        nonlocal count
        monkeypatch.setattr(message_progress, "PATIENCE_SECONDS", seconds_patience)
        count = 0
        async with progress_shown("sending", 70, lambda: count, is_quiet=is_quiet):
            for _ in range(50):
                count += 1
                await asyncio.get_running_loop().run_in_executor(None, str)

    asyncio.run(work(seconds_patience=60, is_quiet=False))
    asyncio.run(work(seconds_patience=0.0001, is_quiet=True))
    assert "sending" not in screen.export_text()
    asyncio.run(work(seconds_patience=0.0001, is_quiet=False))
    assert "/70" in screen.export_text()


def test_interruptions_read_as_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    """What happened, and how much is waiting for the next broker."""
    lost = message_progress.Interrupted("stomp://a:1", "a hung up", 1500)
    found = message_progress.Resumed("stomp://b:1", 0.25, 1500, "b", 4)
    message_progress._tell(False, message_progress._interruption(lost))
    message_progress._tell(False, message_progress._resumption(found))
    message_progress._tell(True, "not this")
    assert capsys.readouterr().err.splitlines() == [
        "holdfast: interrupted: a hung up; 1,500 unconfirmed",
        "holdfast: resumed at stomp://b:1 (b) after 0.25 s",
    ]
