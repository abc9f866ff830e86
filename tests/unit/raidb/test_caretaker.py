"""Who looks after the databases, and what an operator may ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from holdfast.errors import MirrorError, StoreError, UnreachableError
from holdfast.raidb.raidb_log import RaidbLog
from tests.stores.leased_log_suite import SECONDS, Writer
from tests.unit.raidb.several import Several, fill, until_left_out


@pytest.fixture
def several() -> Several:
    return Several()


def log_of(writer: Writer) -> RaidbLog:
    assert isinstance(writer.log, RaidbLog)
    return writer.log


def beside(writer: Writer, ask: Callable[[], None]) -> StoreError | None:
    """Let an operator ask while the holder gives signs of life; what is told."""
    told: list[StoreError] = []

    def run() -> None:
        try:
            ask()
        except StoreError as error:
            told.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 30
    while thread.is_alive() and time.monotonic() < deadline:
        writer.log.renew(SECONDS)
        thread.join(0.005)
    thread.join(1)
    return told[0] if told else None


def test_nothing_is_done_without_the_lease(several: Several) -> None:
    """Neither filled nor asked for."""
    log = several.log()
    log.caretaker.step()

    with pytest.raises(MirrorError, match="does not hold the lease"):
        log.caretaker.disable("a-member")


def test_a_database_is_disabled_and_enabled_by_its_place(several: Several) -> None:
    """The holder's thread does it, between two batches."""
    writer = several.writer()
    caretaker = log_of(writer).caretaker

    assert beside(writer, lambda: caretaker.disable("b-member")) is None
    assert several.states() == "active disabled active"
    assert beside(writer, lambda: caretaker.enable("b-member")) is None
    assert several.states() == "active joining active"
    assert beside(writer, lambda: caretaker.enable("a-member")) is None, "it is already"


def test_what_cannot_be_is_refused(several: Several) -> None:
    """An address that is none, one in use, and so many that the others are too few."""
    writer = several.writer()
    caretaker = log_of(writer).caretaker

    with pytest.raises(MirrorError, match="nowhere is none of the databases"):
        caretaker.disable("nowhere")
    with pytest.raises(MirrorError, match="a-member is in use: disable it"):
        caretaker.replace("a-member", "b-member")
    with pytest.raises(MirrorError, match="other is none of the databases that this broker"):
        caretaker.replace("a-member", "other")
    beside(writer, lambda: caretaker.disable("a-member"))
    beside(writer, lambda: caretaker.disable("b-member"))
    told = beside(writer, lambda: caretaker.disable("c-member"))
    assert told is not None
    assert "too few databases are left" in str(told)


def test_a_database_is_taken_out_for_good(several: Several) -> None:
    """Once it is not in use."""
    writer = several.writer()
    caretaker = log_of(writer).caretaker
    beside(writer, lambda: caretaker.disable("c-member"))

    assert beside(writer, lambda: caretaker.replace("c-member", "b-member")) is None
    assert several.states() == "active active"


def test_who_waits_is_told_when_the_lease_is_lost(several: Several) -> None:
    """Another one holds it: ask that one."""
    writer = several.writer()
    caretaker = log_of(writer).caretaker
    wanted = caretaker.want_soon({"a-member": "disabled"})

    caretaker.begin(None)
    assert wanted.is_done.is_set()
    assert isinstance(wanted.error, UnreachableError)


def test_its_thread_fills_a_database_that_came_back(several: Several) -> None:
    """By itself, while the holder gives signs of life."""
    writer = several.writer()
    several.databases[1].is_away = True
    entries = writer.sealed(b"one")
    until_left_out(several, lambda: writer.send(entries))
    several.databases[1].is_away = False
    caretaker = log_of(writer).caretaker
    assert caretaker.state("b-member") == ""
    caretaker.start()
    try:
        deadline = time.monotonic() + 60
        while several.states() != "active active active":
            assert time.monotonic() < deadline
            writer.log.renew(SECONDS)
            assert caretaker._thread is not None
            caretaker._thread.join(0.01)
    finally:
        caretaker.close()
    assert several.ends() == [1, 1, 1]


def test_what_its_own_thread_does_nobody_does_beside_it(several: Several) -> None:
    """Two that read over the same entry write it anew twice, and count it twice."""
    caretaker = log_of(several.writer()).caretaker
    caretaker.step()
    caretaker.scrub()
    caretaker.start()
    try:
        with pytest.raises(AssertionError, match="its own thread does that"):
            caretaker.step()
        with pytest.raises(AssertionError, match="its own thread does that"):
            caretaker.scrub()
    finally:
        caretaker.close()


def test_what_is_being_filled_is_told(several: Several) -> None:
    """How far it is, and why it does not go on."""
    writer = several.writer()
    several.databases[1].is_away = True
    entries = writer.sealed(b"one")
    until_left_out(several, lambda: writer.send(entries))
    caretaker = log_of(writer).caretaker
    caretaker.step()
    assert caretaker.state("b-member").startswith("failed: ")
    several.databases[1].is_away = False
    for _ in range(3):
        caretaker.step()
        writer.log.renew(SECONDS)
        if caretaker.state("b-member").startswith("joining"):
            break
    assert caretaker.state("b-member") == "joining: 0 of 0 entries"


def test_a_database_that_is_replaced_while_it_is_filled_is_filled_as_the_new_one(
    several: Several,
) -> None:
    """And keeps no other one from being filled: what is at its address is looked at again."""
    writer = several.writer()
    writer.append(*(b"%d" % number for number in range(40)))
    third = several.databases[2]

    def replace(name: str) -> None:
        third.__init__(name)  # type: ignore[misc] # an empty one in its place

    third.is_away = True
    entries = writer.sealed(b"more")
    until_left_out(several, lambda: writer.send(entries))
    replace("x")
    caretaker = log_of(writer).caretaker
    for _ in range(20):
        caretaker.step()
        writer.log.renew(SECONDS)
        if caretaker.state("x-member").startswith("joining"):
            break
    assert caretaker.state("x-member").startswith("joining")
    replace("y")
    fill(writer)
    assert third.member == "y-member"
    assert third.end == several.databases[0].end
    assert "y-member" in several.medium.newest.active
