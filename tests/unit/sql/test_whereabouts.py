"""Whether what is at the address of a file is the one that was used."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.sql import whereabouts
from holdfast.sql.url import SQLITE, StoreUrl
from holdfast.sql.whereabouts import Whereabouts
from tests.unit.sql.test_link import Connection

URL = StoreUrl(SQLITE, (), "/data/log.db")


class Opened(Connection):
    """A connection to a file that a test names."""

    is_in_file = True
    at: str | None = None
    """Which one is there now."""

    def __init__(self, file: str | None) -> None:
        super().__init__(None, 1.0)
        self.file = file

    @classmethod
    def file_of(cls, _url: StoreUrl) -> str | None:
        return cls.at


class Clock:
    now = 10.0

    def __call__(self) -> float:
        return self.now


def looked_at(clock: Clock, **named: Any) -> Whereabouts:
    return Whereabouts(URL, Opened, clock, **{"may_be_replaced": False, **named})


@pytest.fixture(autouse=True)
def there(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(Opened, "at", "first")
    return monkeypatch


def test_what_is_known_is_not_made_anew_and_what_is_not_may_be() -> None:
    """Nothing is known of a log that was never opened; a broker that knows it says so."""
    made = looked_at(Clock())
    assert made.approach(may_begin=True)
    assert not made.approach(may_begin=False)
    Opened.at = None
    assert made.approach(may_begin=True)
    with pytest.raises(StoreError, match=r"/data/log.db has no log"):
        made.approach(may_begin=False)
    Opened.at = "first"
    made.keep(Opened("first"))
    assert not made.approach(may_begin=True)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (None, "log.db is not there any more: see whether its file system is mounted"),
        ("second", "another file is at .*log.db than the one that was used"),
    ],
)
def test_another_one_is_waited_out_for_ever(found: str | None, sentence: str) -> None:
    """Also one that has been there for long: who goes on in it is an operator's to say."""
    clock = Clock()
    made = looked_at(clock)
    made.keep(Opened("first"))
    Opened.at = found
    for _ in range(3):
        with pytest.raises(UnreachableError, match=sentence):
            made.approach(may_begin=True)
        clock.now += 100.0
    Opened.at = "first"
    assert not made.approach(may_begin=True)


def test_one_of_several_may_be_another_after_a_while() -> None:
    """From when it was gone on; what was back meanwhile begins anew."""
    clock = Clock()
    made = looked_at(clock, may_be_replaced=True)
    made.keep(Opened("first"))
    Opened.at = None
    with pytest.raises(UnreachableError):
        made.approach(may_begin=True)
    clock.now += whereabouts.REPLACED_SECONDS - 1
    Opened.at = "first"
    assert not made.approach(may_begin=True)
    clock.now += 2
    Opened.at = "second"
    with pytest.raises(UnreachableError):
        made.approach(may_begin=True)
    clock.now += whereabouts.REPLACED_SECONDS
    assert made.approach(may_begin=True)
    made.greet(Opened("second"))
    made.keep(Opened("second"))
    with pytest.raises(UnreachableError):
        made.greet(Opened("third"))


def test_a_connection_to_another_one_is_not_used() -> None:
    """It came in its place between the look and the opening."""
    made = looked_at(Clock())
    made.greet(Opened("second"))
    made.keep(Opened("first"))
    made.greet(Opened("first"))
    for file in ("second", None):
        with pytest.raises(UnreachableError):
            made.greet(Opened(file))


def test_of_a_server_nothing_is_looked_at(there: pytest.MonkeyPatch) -> None:
    """What is at its address it says itself."""
    there.setattr(Opened, "is_in_file", False)
    made = looked_at(Clock())
    made.keep(Opened("first"))
    Opened.at = "second"
    assert made.approach(may_begin=False)
    made.greet(Opened("second"))
