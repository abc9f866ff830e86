"""The other hosts are asked together, for no longer than there is time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.environment.remote_server import Host
from holdfast.errors import UnreachableError
from holdfast.sql import asking
from holdfast.sql.asking import SPARED_SECONDS, Asking

ONE, TWO, THREE = Host("db1", 1), Host("db2", 2), Host("db3", 3)
LONG = 30.0


class Site:
    """Hosts that say their name, refuse, or are off: nothing comes from those before they are."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[str] = []
        self.off: dict[str, threading.Event] = {}
        self.failing: dict[str, Exception] = {}
        self.asking: Asking[str] = Asking(self.look, lambda: time.monotonic() + self.now)

    def look(self, host: Host) -> str:
        self.asked.append(host.name)
        if host.name in self.off:
            assert self.off[host.name].wait(LONG)
        if host.name in self.failing:
            raise self.failing[host.name]
        return host.name

    def answers_late(self, name: str) -> None:
        self.off[name].set()
        for it in threading.enumerate():
            if it.name == "holdfast-other-host":
                it.join(LONG)

    def ask(self, *hosts: Host, seconds: float = LONG, spares: bool = False) -> list[str]:
        said = self.asking.ask(hosts, seconds, spares_silent=spares)
        assert [it for it, _ in said] == [it for it in hosts if it in dict(said)]
        return [str(it) for _, it in said]


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    for it in made.off.values():
        it.set()


def test_each_says_what_it_is_in_the_order_of_the_hosts(site: Site) -> None:
    """One that refuses is named among them, and asked again the next time."""
    site.failing["db2"] = UnreachableError("db2:2: refused")
    for spares in (False, True, True):
        assert site.ask(ONE, TWO, THREE, spares=spares) == ["db1", "db2:2: refused", "db3"]


def test_those_that_are_silent_take_the_time_of_one(site: Site) -> None:
    """Asked one after the other each would take all of it; who answers is heard all the same."""
    site.off = {"db1": threading.Event(), "db3": threading.Event()}
    began = time.monotonic()
    said = site.ask(ONE, TWO, THREE, seconds=0.5)
    assert said == ["db1:1: no answer in time", "db2", "db3:3: no answer in time"]
    assert 0.5 <= time.monotonic() - began < 0.95


def test_who_was_silent_is_spared_for_a_while(site: Site) -> None:
    """By who can do without; who cannot asks it again, and hears it."""
    site.off["db1"] = threading.Event()
    site.ask(ONE, seconds=0.02)
    site.answers_late("db1")
    assert site.ask(ONE, TWO, spares=True) == ["db2"]
    assert site.ask(ONE, TWO) == ["db1", "db2"]
    site.now += SPARED_SECONDS
    assert site.ask(ONE, TWO, spares=True) == ["db1", "db2"]


def test_an_error_that_took_its_time_is_silence(site: Site, monkeypatch: Any) -> None:
    """A driver that gave up on a host that is off says so by an error, too."""
    monkeypatch.setattr(asking, "_SILENT_SECONDS", 0.0)
    site.failing["db1"] = UnreachableError("timed out")
    assert site.ask(ONE) == ["timed out"]
    assert site.ask(ONE, spares=True) == []


def test_one_that_is_still_asked_gets_no_second_thread(site: Site) -> None:
    """A name that is not found for minutes costs one thread; its late answer is for nobody."""
    site.off["db1"] = threading.Event()
    site.ask(ONE, seconds=0.02)
    for _ in range(3):
        assert site.ask(ONE) == ["db1:1: no answer since it was asked before"]
    assert site.asked == ["db1"]


def test_what_is_no_answer_at_all_comes_out_where_it_is_waited_for(site: Site) -> None:
    """An error of ours is not lost in a thread."""
    site.failing["db1"] = KeyError("ours")
    with pytest.raises(KeyError, match="ours"):
        site.ask(ONE)


def test_where_there_is_no_thread_nobody_is_asked(site: Site, monkeypatch: Any) -> None:
    """It says so as of a host that does not answer."""

    def refuse(_: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asking.Thread, "start", refuse)
    assert site.ask(ONE) == ["db1:1: it cannot be asked, can't start new thread"]
