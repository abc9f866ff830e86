"""
A store's refusal that finds no room where less was asked for is followed by the same question.
"""

from __future__ import annotations

import pytest

from holdfast.spark.archive import store_answers
from holdfast.spark.archive.store_answers import asked_again

NO_ROOM = (
    "AWS Error INTERNAL_FAILURE during GetObject operation: Failed to flush response stream"
    " (eof: 0, bad: 1)"
)


class Store:
    """Answers by one error after another, and then."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0

    def __call__(self) -> bytes:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return b"22"


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited, without waiting."""
    found: list[float] = []
    monkeypatch.setattr(store_answers.time, "sleep", found.append)
    return found


def test_it_is_asked_again_with_growing_pauses(pauses: list[float]) -> None:
    """Five times, in three seconds together."""
    store = Store(*(OSError(NO_ROOM) for _ in range(5)))
    assert asked_again(store) == b"22"
    assert store.asked == 6
    assert sum(pauses) == pytest.approx(3.1)
    assert pauses == sorted(pauses)


def test_who_goes_on_refusing_is_told() -> None:
    """With the store's own words."""
    store = Store(*(OSError(NO_ROOM) for _ in range(6)))
    with pytest.raises(OSError, match="Failed to flush"):
        asked_again(store)
    assert store.errors == []


@pytest.mark.parametrize("error", [FileNotFoundError("gone"), OSError("AWS Error ACCESS_DENIED")])
def test_any_other_error_is_told_at_once(error: OSError, pauses: list[float]) -> None:
    """AWS's client has asked again already where that is of use."""
    store = Store(error)
    with pytest.raises(type(error), match=str(error)):
        asked_again(store)
    assert (store.asked, pauses) == (1, [])
