"""A log read from a store: the same entries as from a directory, and every fault of it named."""

from __future__ import annotations

import pickle
import sqlite3
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.copying import patience
from holdfast.copying import reading as reading_of_stores
from holdfast.errors import (
    ConfigError,
    MissingEntriesError,
    RecordNotFoundError,
    StoreError,
    UnreachableError,
)
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Outcome
from holdfast.raidb.looking import LookedDatabase
from holdfast.spark.log import store_log as module
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.proof import chain_before_log, proven_blocks
from holdfast.spark.log.source import DamagedRange
from holdfast.spark.log.store_log import StoreLog, bases_of, require_apart, store_log
from holdfast.sql.opening import open_sql_log
from tests.stores.copied_log_suite import ANCHOR, entries_behind, take
from trials.pipeline.stored_log import IDENTITY, fill, fill_behind, written
from trials.pipeline.written_log import message

COUNT = 20


@pytest.fixture
def entries(tmp_path: Path) -> list[Entry]:
    return written(tmp_path / "log", *(message(1, it, b"x" * 2000) for it in range(1, COUNT)))


@pytest.fixture
def url(tmp_path: Path, entries: list[Entry]) -> str:
    fill([url_of(tmp_path)], entries)
    return url_of(tmp_path)


def url_of(tmp_path: Path, name: str = "a") -> str:
    return f"sqlite:///{tmp_path}/{name}.db"


def change(tmp_path: Path, statement: str) -> None:
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute(statement)
    connection.close()


def raws(log: StoreLog) -> list[bytes]:
    position = log.position()
    blocks = proven_blocks(log, position.first_index, position.last_index, None)
    return [block.raw(place) for block in blocks for place in range(len(block))]


def ranges(log: StoreLog, first: int, last: int) -> list[tuple[int, int, str]]:
    return [
        (it.first_index, it.last_index, it.error.reason if isinstance(it, DamagedRange) else "")
        for it in log.blocks(first, last)
    ]


def test_every_store_gives_what_was_stored(tmp_path: Path, entries: list[Entry]) -> None:
    """A file, a shared directory and three databases: the same bytes, and where they end."""
    places = [url_of(tmp_path)], [f"shared:{tmp_path}/s"], [url_of(tmp_path, it) for it in "pqr"]
    for words in places:
        fill(words, entries)
        log = pickle.loads(pickle.dumps(store_log(words)))
        position = log.position()
        assert (position.first_index, position.last_index) == (1, COUNT)
        assert position.last_timestamp == entries[-1].timestamp
        assert len(position.cluster_id) == 32
        assert raws(log) == [it.raw for it in entries]
        assert hash(log) == hash(store_log(words))


def test_what_was_dropped_is_no_part_of_it(tmp_path: Path) -> None:
    """The entry that stands for all before gives the chain, and is not given out."""
    entries = entries_behind(ANCHOR)
    fill_behind(url_of(tmp_path), ANCHOR, entries)
    log = store_log([url_of(tmp_path)])
    position = log.position()
    assert (position.first_index, position.last_index) == (41, 46)
    assert position.cluster_id == IDENTITY
    assert chain_before_log(log, position) == ANCHOR.chain.hex()
    chain = ANCHOR.chain
    assert len(list(proven_blocks(log, 41, 46, chain))) == 1
    with pytest.raises(RecordNotFoundError, match="entries 40 to 40 are no longer in"):
        list(log.blocks(40, 46))


def test_an_empty_log_has_a_position(tmp_path: Path) -> None:
    """A broker has laid it out and stored nothing."""
    log = open_sql_log(url_of(tmp_path), own_directory=tmp_path)
    log.open()
    log.close()
    position = store_log([url_of(tmp_path)]).position()
    assert (position.first_index, position.last_index, position.bases) == (1, 0, ())
    assert list(store_log([url_of(tmp_path)]).blocks(1, 0)) == []
    assert store_log([url_of(tmp_path)]).reach(1, 100) == 0


def test_rows_that_are_gone_or_rotten_are_named_and_the_rest_is_read(
    tmp_path: Path, url: str
) -> None:
    """One, several one after another, and the last ones."""
    change(tmp_path, "DELETE FROM holdfast_entries WHERE idx IN (3, 7, 8, 9, 19, 20)")
    change(tmp_path, "UPDATE holdfast_entries SET raw = zeroblob(200) WHERE idx = 12")
    log = store_log([url])
    assert ranges(log, 1, COUNT) == [
        (1, 2, ""),
        (3, 3, "the entry is missing"),
        (4, 6, ""),
        (7, 9, "the entry is missing"),
        (10, 11, ""),
        (12, 12, "there is no entry"),
        (13, 18, ""),
        (19, 20, "the entry is missing"),
    ]
    (damaged,) = log.blocks(12, 12)
    assert isinstance(damaged, DamagedRange)
    assert str(damaged.error) == f"entry 12 of {url}: there is no entry"
    assert not isinstance(damaged.error, MissingEntriesError), "that would be passed over"


def test_a_rotten_file_of_a_shared_directory_is_named_with_its_place(
    tmp_path: Path, entries: list[Entry]
) -> None:
    """The file and the byte; entries behind it are read on."""
    fill([f"shared:{tmp_path}/s"], entries)
    (segment,) = (tmp_path / "s" / "journal").iterdir()
    data = bytearray(segment.read_bytes())
    data[data.index(entries[4].raw) + 150] ^= 1
    segment.write_bytes(data)
    log = store_log([f"shared:{tmp_path}/s"])
    found = list(log.blocks(1, COUNT))
    assert [(it.first_index, it.last_index) for it in found] == [(1, 4), (5, 5), (6, COUNT)]
    damaged = found[1]
    assert isinstance(damaged, DamagedRange)
    assert damaged.error.segment == segment.name
    assert damaged.error.byte == bytes(data).index(entries[3].raw) + len(entries[3].raw)
    assert str(damaged.error).startswith(f"entry 5 of shared:{tmp_path}/s, {segment.name} byte ")


def test_what_the_cleaner_drops_meanwhile_is_no_damage(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is gone as from a node: the reader is told so, and may go on behind it."""
    monkeypatch.setattr(reading_of_stores, "READ_BYTES", 5_000)
    log = store_log([url])
    reading = log.blocks(1, COUNT)
    assert next(reading).last_index == 3
    broker = open_sql_log(url, own_directory=tmp_path)
    broker.open()
    take(broker)
    while broker.drop_before(10, 10.0):
        pass
    with pytest.raises(RecordNotFoundError, match="which begins with entry 11"):
        next(reading)
    assert broker.renew(10.0) is Outcome.STORED, "who reads takes no lease"
    broker.close()
    assert log.position().first_index == 11


def test_a_store_that_fails_for_a_while_is_asked_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is missing of what was planned; one that stays away is an error."""
    monkeypatch.setattr(patience, "PAUSE_SECONDS", 0.0)
    answer, failures = LookedDatabase.entries, [3]

    def entries(log: LookedDatabase, *arguments: int) -> list[Entry]:
        if failures[0]:
            failures[0] -= 1
            raise UnreachableError("it is away")
        return answer(log, *arguments)

    monkeypatch.setattr(LookedDatabase, "entries", entries)
    assert ranges(store_log([url]), 1, COUNT) == [(1, COUNT, "")]
    failures[0] = -1
    times = iter(range(0, 1000, 10))
    monkeypatch.setattr(patience.time, "monotonic", lambda: float(next(times)))
    with pytest.raises(UnreachableError, match="it is away"):
        ranges(store_log([url]), 1, COUNT)


def test_an_unreachable_store_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens there; the sentence has the place, and no password."""
    monkeypatch.setattr(module, "POSITION_SECONDS", 0.0)
    log = store_log(["postgresql://u:pa55word@127.0.0.1:1/db"])
    with pytest.raises(UnreachableError) as raised:
        log.position()
    assert "postgresql://u@127.0.0.1:1/db" in str(raised.value)
    assert "pa55word" not in f"{raised.value} {log!r} {log}"


def test_addresses_that_are_the_same_database_are_found_out(tmp_path: Path, url: str) -> None:
    """A database that is compared with itself proves nothing."""
    other = url_of(tmp_path, "b")
    fill([other], written(tmp_path / "o", message(1, 1)))
    require_apart([store_log([url]), store_log([other])])
    with pytest.raises(ConfigError, match="are one database"):
        require_apart([store_log([it]) for it in (url, other, f"sqlite:///{tmp_path}/./a.db")])
    with pytest.raises(ConfigError, match="more than once"):
        store_log([url, url])
    with pytest.raises(StoreError, match="holds no log"):
        require_apart([store_log([url_of(tmp_path, "none")])])


def test_reach_is_about_as_many_bytes_as_are_asked_for(
    tmp_path: Path, url: str, entries: list[Entry]
) -> None:
    """At least one entry, at most the last; damage does not stop it."""
    log = store_log([url])
    size = len(entries[5].raw)
    assert log.reach(3, 1) == 3
    assert log.reach(3, 4 * size) == 6
    assert log.reach(3, 1 << 30) == COUNT
    change(tmp_path, "DELETE FROM holdfast_entries WHERE idx IN (3, 4, 10)")
    assert log.reach(2, 4 * size) == 7
    assert log.reach(9, 1 << 30) == COUNT


@pytest.mark.parametrize("last", [1, 255, 256, 20_000, 1_000_000])
def test_ranges_are_cut_at_the_same_places_in_copies_of_other_lengths(last: int) -> None:
    """Not too many, none empty, and each but the ends where a shorter copy has it too."""
    bases = bases_of(1, last)
    assert bases[0] == 1
    assert len(bases) <= module.PARTS_MAX + 1
    assert all(one < two <= last for one, two in pairwise(bases))
    assert set(bases) <= set(bases_of(1, last + 3))
    assert set(bases[1:]) <= set(bases_of(3, last)) | {2}


def test_blocks_are_entries_in_one_buffer(url: str) -> None:
    """What stands behind works on arrays."""
    (block,) = store_log([url]).blocks(4, 6)
    assert isinstance(block, EntryBlock)
    assert (block.first_index, block.last_index, len(block)) == (4, 6, 3)


def test_what_one_database_has_beyond_the_others_is_not_read(
    tmp_path: Path, entries: list[Entry]
) -> None:
    """It was never confirmed, and is cut off when that one comes back; alone it is shown."""
    *stored, last = entries
    urls = [url_of(tmp_path, name) for name in "abc"]
    fill(urls, stored)
    change(
        tmp_path,
        "INSERT INTO holdfast_entries SELECT idx + 1, part, term, first_record, record_count,"
        f" {len(last.raw)}, stored_at, x'{last.raw.hex()}' FROM holdfast_entries WHERE idx ="
        f" {last.index - 1}",
    )
    change(
        tmp_path,
        f"UPDATE holdfast_lease SET last_index = {last.index}, last_chain = '{last.chain.hex()}'",
    )
    together, alone = store_log(urls), store_log(urls[:1], is_one_of_several=True)
    assert together.position().last_index == last.index - 1
    assert raws(together) == [it.raw for it in stored]
    assert raws(alone) == [it.raw for it in entries]
