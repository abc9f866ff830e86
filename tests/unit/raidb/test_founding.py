"""The first set."""

from __future__ import annotations

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.raidb.founding import complete
from tests.stores.leased_log_suite import SECONDS, Writer, read_all
from tests.unit.raidb.several import Several, fill
from trials.leased.model_databases import ModelDatabase
from trials.leased.model_log import ModelLog
from trials.leased.passage import DirectPassage


def alone(database: ModelDatabase, *bodies: bytes) -> Writer:
    """The database as the only one of a log, with these entries."""
    writer = Writer(ModelLog(database, DirectPassage()))
    writer.take()
    writer.append(*bodies)
    return writer


def test_new_databases_are_all_of_the_first_set() -> None:
    """It stands in each of them, with the id that the first one had."""
    several = Several()
    log = several.log()

    assert several.states() == "active active active"
    assert {it.identity for it in several.databases} == {"a" * 32}
    assert log.identity() == "a" * 32
    assert log.observe(SECONDS).epoch == 0


def test_nothing_is_founded_without_all_of_them() -> None:
    """Nobody knows yet whether the one that is away has a log."""
    several = Several()
    several.databases[2].is_away = True

    with pytest.raises(UnreachableError, match="all of them are needed to begin"):
        several.log()
    assert all(it.written is None for it in several.databases)


def test_a_founding_that_was_broken_off_is_completed() -> None:
    """What stands in the first one is written in the others by whoever comes next."""
    several = Several()
    databases = several.reached()
    rows = databases.read(3.0)
    for it in several.databases[1:]:
        it.is_away = True
    complete(databases, rows, 3.0, several.clock)
    assert [it.written is None for it in several.databases] == [False, True, True]
    for it in several.databases:
        it.is_away = False

    several.log()
    assert len({it.written for it in several.databases}) == 1


def test_one_that_has_a_log_fills_the_others() -> None:
    """A log in one database becomes one in several: that one counts alone until they are filled."""
    several = Several()
    entries = alone(several.databases[1], b"one", b"two").stored
    several.databases[1].is_released = True
    writer = Writer(several.log(), "b")

    assert several.states() == "joining active joining"
    assert writer.take().end.index == 2
    assert writer.epoch == 2
    fill(writer)
    assert several.states() == "active active active"
    assert read_all(several.log()) == entries


def test_two_that_have_each_a_log_are_refused() -> None:
    """Nobody can tell which one is wanted."""
    several = Several()
    alone(several.databases[0], b"one")
    alone(several.databases[2], b"two")

    with pytest.raises(StoreError, match="a-member, c-member have each a log of their own"):
        several.log()
