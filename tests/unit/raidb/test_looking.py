"""Databases that are looked at beside their broker: nothing in them changes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from holdfast.copying.looking import LookedLog, open_looked
from holdfast.errors import StoreError, UnreachableError
from holdfast.journal.entry import Entry
from holdfast.model.limits import MiB
from trials.pipeline.stored_log import fill, written
from trials.pipeline.written_log import message

SECONDS = 10.0


@pytest.fixture
def entries(tmp_path: Path) -> list[Entry]:
    return written(tmp_path / "log", *(message(1, number, b"body") for number in range(1, 9)))


def urls(tmp_path: Path, names: str = "abc") -> list[str]:
    return [f"sqlite:///{tmp_path}/{name}.db" for name in names]


def read(log: LookedLog) -> list[bytes]:
    holding = log.open_existing()
    after = holding.first_index - 1
    found: list[Entry] = []
    while after < holding.sure.index:
        found += log.entries(after, holding.sure.index, MiB, SECONDS)
        after = found[-1].index
    return [it.raw for it in found]


def dump(tmp_path: Path, name: str) -> list[str]:
    with sqlite3.connect(tmp_path / f"{name}.db") as connection:
        found = list(connection.iterdump())
    connection.close()
    return found


def test_a_database_that_is_held_is_read_and_not_written(
    tmp_path: Path, entries: list[Entry]
) -> None:
    """Its holder keeps the lease, with the same beat: it does not notice."""
    (url,) = urls(tmp_path, "a")
    fill([url], entries, is_given_back=False)
    before = dump(tmp_path, "a")
    log = open_looked([url])
    assert read(log) == [it.raw for it in entries]
    assert log.observe(SECONDS).claimant is not None
    log.close()
    assert dump(tmp_path, "a") == before


def test_several_are_one_log_and_each_of_them_a_copy(tmp_path: Path, entries: list[Entry]) -> None:
    """Together they are the log; one alone is read only by who wants to see that very copy."""
    fill(urls(tmp_path), entries)
    together = open_looked(urls(tmp_path))
    assert read(together) == [it.raw for it in entries]
    for url in urls(tmp_path):
        alone = open_looked([url], may_be_one_of_several=True)
        assert read(alone) == [it.raw for it in entries]
        assert alone.identity() == together.identity()
        alone.close()
        with pytest.raises(StoreError, match="is one of several databases"):
            open_looked([url]).open_existing()
    together.close()


def test_an_entry_that_one_database_lacks_is_taken_from_another(
    tmp_path: Path, entries: list[Entry]
) -> None:
    """As a broker does it."""
    fill(urls(tmp_path), entries)
    for name in "ab":
        with sqlite3.connect(tmp_path / f"{name}.db") as connection:
            connection.execute("DELETE FROM holdfast_entries WHERE idx = 4")
        connection.close()
    log = open_looked(urls(tmp_path))
    assert read(log) == [it.raw for it in entries]
    log.close()


def test_too_few_of_several_are_no_log(tmp_path: Path, entries: list[Entry]) -> None:
    """One of three may lack what was confirmed; those missing are named, and nothing is made."""
    fill(urls(tmp_path), entries)
    for name in "bc":
        (tmp_path / f"{name}.db").rename(tmp_path / f"{name}.gone")
    log = open_looked(urls(tmp_path))
    with pytest.raises(UnreachableError, match=r"b\.db.* cannot be used"):
        log.open_existing()
    log.close()
    assert not (tmp_path / "b.db").exists()


def test_one_that_is_named_and_is_not_of_it_keeps_nobody_from_reading(
    tmp_path: Path, entries: list[Entry]
) -> None:
    """One of two may not be enough, and the reason is that one, and not what was named beside."""
    fill(urls(tmp_path, "ab"), entries)
    (tmp_path / "b.db").rename(tmp_path / "b.gone")
    log = open_looked(urls(tmp_path, "abc"))
    with pytest.raises(UnreachableError, match=r"b\.db.* cannot be used") as raised:
        log.open_existing()
    assert "it is not known" not in str(raised.value)
    log.close()


def test_databases_of_different_logs_are_not_read_as_one(
    tmp_path: Path, entries: list[Entry]
) -> None:
    """Each would be the log of somebody."""
    for url in urls(tmp_path, "ab"):
        fill([url], entries)
    log = open_looked(urls(tmp_path, "ab"))
    with pytest.raises(StoreError, match="each with a log of its own"):
        log.open_existing()
    log.close()


def test_where_no_log_is_none_is_made(tmp_path: Path) -> None:
    """Neither a file nor tables in one that is there."""
    (url,) = urls(tmp_path, "a")
    for _ in range(2):
        log = open_looked([url])
        with pytest.raises(StoreError, match="holds no log"):
            log.open_existing()
        log.close()
        assert not (tmp_path / "a.db").exists() or dump(tmp_path, "a") == [
            "BEGIN TRANSACTION;",
            "COMMIT;",
        ]
        sqlite3.connect(tmp_path / "a.db").close()


def test_a_database_that_became_another_is_not_read_on(
    tmp_path: Path, entries: list[Entry]
) -> None:
    """What was read before would be of one log, what comes then of another."""
    one, other = urls(tmp_path, "ab")
    fill([one], entries)
    fill([other], entries)
    log = open_looked([one])
    log.open_existing()
    (tmp_path / "b.db").rename(tmp_path / "a.db")
    for name in ("a.db-wal", "a.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(StoreError):
        log.observe(SECONDS)
    with pytest.raises(StoreError, match="has another log now"):
        log.observe(SECONDS)
    log.close()
