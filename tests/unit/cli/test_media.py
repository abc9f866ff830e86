"""`holdfast store verify` and `dump` of a log in a database, in several, in a shared directory."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from holdfast.journal.entry import Entry
from tests.unit.spark.log.test_store_log import ANCHOR, entries_behind
from trials.pipeline.stored_log import fill, fill_behind, written
from trials.pipeline.written_log import message


def url_of(folder: Path, name: str) -> str:
    return f"sqlite:///{folder}/{name}.db"


def change(folder: Path, name: str, statement: str) -> None:
    with sqlite3.connect(folder / f"{name}.db") as connection:
        connection.execute(statement)
    connection.close()


@pytest.fixture
def entries(tmp_path: Path) -> list[Entry]:
    return written(tmp_path / "log", *(message(1, it) for it in range(1, 9)))


def test_a_store_is_verified_as_a_directory_is(run, tmp_path: Path, entries: list[Entry]) -> None:
    """What it is, who holds it, its range and its chain; the verdict in the last line."""
    for place in (url_of(tmp_path, "a"), f"shared:{tmp_path}/s"):
        fill([place], entries)
        assert run("store", "verify", place) == 0
        first, second, third, last = run.out.splitlines()
        assert "epoch 1, given back by writer" in first
        assert second.startswith("9 entries, ")
        assert second.endswith("from 1 to 9, last record 9")
        assert third == f"term {entries[-1].term}, chain {entries[-1].chain.hex()}"
        assert last == "everything stored is whole"


def test_rows_that_are_gone_rotten_or_changed_end_with_1(
    run, tmp_path: Path, entries: list[Entry]
) -> None:
    """Each by its entries, for people and for programs."""
    place = url_of(tmp_path, "a")
    fill([place], entries)
    change(tmp_path, "a", "DELETE FROM holdfast_entries WHERE idx IN (3, 4)")
    change(tmp_path, "a", "UPDATE holdfast_entries SET raw = zeroblob(200) WHERE idx = 7")
    assert run("store", "verify", place) == 1
    assert f"damaged: entries 3 to 4 of {place}: the entry is missing" in run.out
    assert f"damaged: entry 7 of {place}: there is no entry" in run.out
    assert run.out.endswith("the log is damaged\n")
    assert run("store", "verify", place, "--json") == 1
    told = json.loads(run.out)
    assert told["clean"] is False
    assert [(it["first_index"], it["last_index"]) for it in told["damage"]] == [(3, 4), (7, 7)]


def test_an_entry_of_another_log_is_found_by_the_chain(
    run, tmp_path: Path, entries: list[Entry]
) -> None:
    """Its own checksums are right: only what comes before tells."""
    place = url_of(tmp_path, "a")
    fill([place], entries)
    others = written(tmp_path / "other", *(message(1, it, b"else") for it in range(1, 9)))
    with sqlite3.connect(tmp_path / "a.db") as connection:
        raw = bytes(others[4].raw)
        connection.execute("UPDATE holdfast_entries SET raw = ? WHERE idx = 5", (raw,))
    connection.close()
    assert run("store", "verify", place) == 1
    assert f"damaged: entry 5 of {place}: it does not follow on the one before it" in run.out
    assert f"entry 6 of {place}: it does not follow" in run.out


def test_a_log_whose_beginning_was_dropped_is_whole(run, tmp_path: Path) -> None:
    """The entry that stands for all before it gives the chain, and is none itself."""
    place = url_of(tmp_path, "a")
    fill_behind(place, ANCHOR, entries_behind(ANCHOR))
    assert run("store", "verify", place, "--json") == 0
    told = json.loads(run.out)
    assert (told["first_index"], told["last_index"], told["entries"]) == (41, 46, 6)


def test_databases_of_one_log_are_verified_and_compared(
    run, tmp_path: Path, entries: list[Entry]
) -> None:
    """Each by itself; one that is behind is told by its range, one that differs ends with 1."""
    places = [url_of(tmp_path, it) for it in "abc"]
    fill(places, entries)
    assert run("store", "verify", " ".join(places)) == 0
    assert run.out.count("9 entries, ") == 3
    assert "compared through entry 9: the same" in run.out
    assert run("store", "verify", places[0]) == 1, "it may lack what the others have"
    assert "name all of them" in run.err
    others = written(tmp_path / "other", *(message(1, it, b"else") for it in range(1, 9)))
    with sqlite3.connect(tmp_path / "b.db") as connection:
        connection.executemany(
            "UPDATE holdfast_entries SET raw = ? WHERE idx = ?",
            [(bytes(it.raw), it.index) for it in others],
        )
    connection.close()
    assert run("store", "verify", " ".join(places), "--json") == 1
    told = json.loads(run.out)
    assert (told["clean"], told["alike"], told["compared_through"]) == (False, False, 9)
    assert [len(it["damage"]) for it in told["copies"]] == [0, 1, 0], "but for where it ends"


def test_a_copy_of_a_database_is_compared_with_it(
    run, tmp_path: Path, entries: list[Entry]
) -> None:
    """It says that it is that database; whoever looks at a doubtful one has a copy to compare."""
    place = url_of(tmp_path, "a")
    fill([place], entries)
    (tmp_path / "b.db").write_bytes((tmp_path / "a.db").read_bytes())
    assert run("store", "verify", f"{place} {url_of(tmp_path, 'b')}") == 0
    assert "compared through entry 9: the same" in run.out
    assert "two of these say that they are the same database" in run.err
    change(tmp_path, "b", "DELETE FROM holdfast_entries WHERE idx = 4")
    assert run("store", "verify", f"{place} {url_of(tmp_path, 'b')}") == 1


def test_a_last_entry_that_the_lease_does_not_know_is_found(
    run, tmp_path: Path, entries: list[Entry]
) -> None:
    """Nothing comes behind it whose chain would tell."""
    place = url_of(tmp_path, "a")
    fill([place], entries)
    others = written(tmp_path / "other", *(message(1, it, b"else") for it in range(1, 9)))
    change(tmp_path, "a", "DELETE FROM holdfast_entries WHERE idx = 8")
    with sqlite3.connect(tmp_path / "a.db") as connection:
        raw = bytes(others[8].raw)
        connection.execute("UPDATE holdfast_entries SET raw = ? WHERE idx = 9", (raw,))
    connection.close()
    assert run("store", "verify", place) == 1
    assert f"entry 9 of {place}: it is not the entry with which the log ends" in run.out


def test_what_is_not_one_log_is_refused(run, tmp_path: Path, entries: list[Entry]) -> None:
    """A database twice, two logs, nothing there, a shared directory by its path; no password."""
    one, two = url_of(tmp_path, "a"), url_of(tmp_path, "b")
    fill([one], entries)
    fill([two], written(tmp_path / "o", message(1, 1)))
    assert run("store", "verify", f"{one} sqlite:///{tmp_path}/./a.db") == 2
    assert "are one database: name it once" in run.err
    assert run("store", "verify", f"{one} {two}") == 2
    assert "are no copies of one log" in run.err
    assert run("store", "verify", url_of(tmp_path, "none")) == 1
    assert "holds no log" in run.err
    fill([f"shared:{tmp_path}/s"], entries)
    assert run("store", "verify", str(tmp_path / "s")) == 2
    assert f"write shared:{tmp_path}/s" in run.err
    assert run("store", "verify", f"mirrors:{tmp_path}/x,{tmp_path}/y") == 2
    assert run("store", "verify", "oracle://u:pa55word@h/db") == 2
    assert "pa55word" not in run.err + run.out


def test_records_are_shown_from_a_store(run, tmp_path: Path, entries: list[Entry]) -> None:
    """As from a directory, of a range, beside damage; several databases are one log."""
    places = [url_of(tmp_path, it) for it in "abc"]
    fill(places, entries)
    assert run("store", "dump", " ".join(places), "--format", "jsonl", "--to-index", "3") == 0
    rows = [json.loads(line) for line in run.out.splitlines()]
    assert [(it["index"], it["type"], it["queue"]) for it in rows] == [
        (1, "queue", "orders"),
        (2, "message", "orders"),
        (3, "message", "orders"),
    ]
    fill([f"shared:{tmp_path}/s"], entries)
    assert run("store", "dump", f"shared:{tmp_path}/s", "--from-index", "9", "--bodies") == 0
    assert len(run.out.splitlines()) == 2
    place = url_of(tmp_path, "z")
    fill([place], entries)
    change(tmp_path, "z", "DELETE FROM holdfast_entries WHERE idx = 4")
    assert run("store", "dump", place, "--format", "jsonl") == 1
    assert f"damaged: entry 4 of {place}: the entry is missing" in run.err
    assert len(run.out.splitlines()) == 8
