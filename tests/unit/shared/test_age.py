"""Whether a shared directory went back in time, and how long that is waited out."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from holdfast.errors import UnreachableError
from holdfast.shared.age import OLDER_SECONDS, Age, Look


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("older", [Look(1, 9, 9), Look(2, 4, 9), Look(2, 5, 6)], ids=str)
def test_an_older_state_is_waited_out_for_so_long(
    older: Look, caplog: pytest.LogCaptureFixture
) -> None:
    """An epoch, a beat or an entry less; after that what is in the log decides, and it is told."""
    clock = Clock()
    age = Age(Path("/share"), clock)
    age.saw(Look(2, 5, 7))
    for clock.now in (3.0, 3.0 + OLDER_SECONDS - 0.1):
        with pytest.raises(UnreachableError, match=r"/share went back in time: .*is waited for"):
            age.require_none_older(older)
    clock.now = 3.0 + OLDER_SECONDS
    with caplog.at_level(logging.WARNING, "holdfast.shared"):
        age.require_none_older(older)
    assert "the newer one has not come back" in caplog.text
    age.require_none_older(older)


def test_what_was_there_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    """The next older state is waited for as long as the first one."""
    clock = Clock()
    age = Age(Path("/share"), clock)
    age.saw(Look(2, 5, 7))
    for clock.now in (0.0, OLDER_SECONDS, 2 * OLDER_SECONDS):
        with pytest.raises(UnreachableError):
            age.require_none_older(Look(2, 4, 7))
        age.require_none_older(Look(2, 5, 7))
    assert not caplog.text


def test_what_is_newer_is_no_older() -> None:
    """A later epoch begins its beats anew, and may cut off what was not sure."""
    age = Age(Path("/share"), Clock())
    age.saw(Look(2, 5, 7))
    age.require_none_older(Look(3, 1, 6))
    age.saw(Look(3, 1, 6))
    with pytest.raises(UnreachableError):
        age.require_none_older(Look(2, 9, 9))
