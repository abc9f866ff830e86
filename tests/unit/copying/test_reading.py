"""A log in a store, read from end to end: what is damaged has its place, what was dropped none."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.copying import reading
from holdfast.copying.looking import open_looked
from holdfast.copying.reading import LostEntries, each_entry, next_part, verify
from holdfast.errors import CorruptEntryError, RecordNotFoundError, StoreError
from holdfast.journal.entry import Entry
from holdfast.sql.opening import open_sql_log
from tests.stores.copied_log_suite import take
from trials.pipeline.stored_log import fill, written
from trials.pipeline.written_log import message

COUNT = 20


class Torn:
    """A log of which these entries are damaged."""

    def __init__(self, damaged: set[int], first: int = 1) -> None:
        self.damaged = damaged
        self.asked = 0
        self.first = first

    def entries(self, after: int, through: int, *_: object) -> list[Any]:
        self.asked += 1
        if after + 1 in self.damaged:
            raise CorruptEntryError("rotten", index=after + 1)
        return [SimpleNamespace(index=after + 1)]

    def observe(self, seconds_max: float) -> Any:
        sure = SimpleNamespace(index=1_000_000)
        return SimpleNamespace(first_index=self.first, sure=sure, end=sure)


def through(damaged: set[int], first: int, last: int) -> tuple[int, int]:
    log: Any = Torn(damaged)
    lost = next_part(log, first, last, "it")
    assert isinstance(lost, LostEntries)
    return lost.last_index, log.asked


@pytest.fixture
def entries(tmp_path: Path) -> list[Entry]:
    return written(tmp_path / "log", *(message(1, it, b"x" * 2000) for it in range(1, COUNT)))


@pytest.fixture
def url(tmp_path: Path, entries: list[Entry]) -> str:
    url = f"sqlite:///{tmp_path}/a.db"
    fill([url], entries)
    return url


def test_damage_is_looked_for_by_leaps() -> None:
    """Its end is found in few questions, and never before a damaged entry that follows at once."""
    assert through({5}, 5, 100)[0] == 5
    assert through({5, 6, 7}, 5, 100)[0] == 7
    assert through({100}, 100, 100)[0] == 100
    found, asked = through(set(range(5, 10_001)), 5, 1_000_000)
    assert found == 10_000
    assert asked < 40
    assert through(set(range(5, 101)), 5, 100)[0] == 100


def test_lost_entries_are_told_with_their_place() -> None:
    """As a sentence, and as the error of the first of them."""
    lost = LostEntries(3, 5, "rotten", "shared:/s", "1.segment", 4096)
    assert str(lost) == "entries 3 to 5 of shared:/s, 1.segment byte 4,096: rotten"
    assert str(lost.error()) == "entry 3 of shared:/s, 1.segment byte 4,096: rotten"
    assert (lost.error().index, lost.error().byte) == (3, 4096)
    assert str(LostEntries(3, 3, "rotten", "db")) == "entry 3 of db: rotten"


def test_what_was_dropped_before_it_was_read_is_no_damage() -> None:
    """A reader of parts is told; who reads all goes on behind it."""
    log: Any = Torn(set(range(1, 8)), first=7)
    with pytest.raises(RecordNotFoundError, match="entries 3 to 3 are no longer in it, which be"):
        next_part(log, 3, 10, "it")
    assert [it.index for it in each_entry(log, 3, 10, "it")] == [8, 9, 10]


def test_a_log_that_is_cleaned_while_it_is_verified_is_whole(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain goes on behind what was dropped, and the reader takes no lease."""
    monkeypatch.setattr(reading, "READ_BYTES", 5_000)
    broker = open_sql_log(url, own_directory=tmp_path)
    broker.open()
    take(broker)
    log = open_looked([url])
    seen: list[tuple[int, int]] = []

    def visit(done: int, total: int) -> None:
        if not seen:
            while broker.drop_before(10, 10.0):
                pass
        seen.append((done, total))

    found = verify(log, visit)
    assert found.damage == ()
    assert (found.first_index, found.last_index, found.entries) == (1, COUNT, 13)
    assert seen[-1] == (COUNT, COUNT)
    assert (found.holder, found.is_released) != ("", True)
    log.close()
    broker.close()


def test_only_the_chain_tells_that_an_entry_is_anothers(tmp_path: Path, url: str) -> None:
    """Its checksums are right; the one behind it does not follow on it either."""
    others = written(tmp_path / "o", *(message(1, it, b"other") for it in range(1, COUNT)))
    with sqlite3.connect(tmp_path / "a.db") as connection:
        raw = bytes(others[8].raw)
        connection.execute("UPDATE holdfast_entries SET raw = ? WHERE idx = 9", (raw,))
    connection.close()
    log = open_looked([url])
    found = verify(log)
    assert [(it.first_index, it.last_index) for it in found.damage] == [(9, 9), (10, 10)]
    log.close()


def test_what_the_first_entry_follows_on_is_verified_too(tmp_path: Path, url: str) -> None:
    """Of a cleaned log nobody can begin with it where that is damaged, and no copy be made."""
    broker = open_sql_log(url, own_directory=tmp_path)
    broker.open()
    take(broker)
    while broker.drop_before(10, 10.0):
        pass
    first = broker.observe(10.0).first_index + 1
    broker.close()
    with sqlite3.connect(tmp_path / "a.db") as connection:
        (raw,) = connection.execute(
            "SELECT raw FROM holdfast_entries WHERE idx = ?", (first - 1,)
        ).fetchone()
        rotten = bytes([raw[0] ^ 1]) + raw[1:]
        connection.execute("UPDATE holdfast_entries SET raw = ? WHERE idx = ?", (rotten, first - 1))
    connection.close()
    log = open_looked([url])
    (damage,) = verify(log).damage
    assert (damage.first_index, damage.last_index) == (first - 1, first - 1)
    assert "a new one cannot begin with it" in damage.reason
    log.close()


def test_an_empty_log_and_none(tmp_path: Path) -> None:
    """The first is whole; the second is an error."""
    url = f"sqlite:///{tmp_path}/e.db"
    broker = open_sql_log(url, own_directory=tmp_path)
    broker.open()
    broker.close()
    log = open_looked([url])
    found = verify(log)
    assert (found.first_index, found.last_index, found.entries, found.damage) == (1, 0, 0, ())
    log.close()
    log = open_looked([f"sqlite:///{tmp_path}/none.db"])
    with pytest.raises(StoreError, match="holds no log"):
        verify(log)
    log.close()
