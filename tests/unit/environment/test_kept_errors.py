"""An error that is kept without its frames keeps nothing of what was in their hands."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from holdfast.environment.kept_errors import without_frames


class Held:
    """Something that a frame has."""


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def fail(kept: list[weakref.ref[Held]]) -> None:
    held = Held()
    kept.append(weakref.ref(held))
    raise OSError("first")


def fail_by_another(kept: list[weakref.ref[Held]]) -> None:
    held = Held()
    kept.append(weakref.ref(held))
    try:
        fail(kept)
    except OSError as error:
        again = ValueError("second")
        again.__cause__ = error
        error.__context__ = again  # As drivers make them: in a circle.
        raise again from error


def test_what_the_frames_had_goes_at_once() -> None:
    """Of the error and of its cause; what it says stays."""
    kept: list[weakref.ref[Held]] = []
    with pytest.raises(ValueError, match="second") as caught:
        fail_by_another(kept)
    error = caught.value
    assert all(it() is not None for it in kept), "the frames have it yet"

    assert without_frames(error) is error
    assert [it() for it in kept] == [None, None]
    assert str(error.__cause__) == "first"
    assert error.__traceback__ is None


def test_frames_that_still_run_keep_what_they_have() -> None:
    """It is called while the error is handled."""
    held = Held()
    try:
        fail([])
    except OSError as error:
        without_frames(error)
    assert isinstance(held, Held)
