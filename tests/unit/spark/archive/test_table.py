"""
The table of an archive: real files, the real package, and DuckDB as the engine that queries it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import duckdb
import duckdb_ext
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from holdfast.errors import ArchiveError, CorruptArchiveError, UnreadableArchiveError
from holdfast.journal.entry import KIND_NOOP
from holdfast.model.records import AcknowledgeRecord, QueueRecord
from holdfast.spark.archive import table as archive_table
from holdfast.spark.archive.cleaning import UNNAMED_SECONDS, retire, sweep
from holdfast.spark.archive.file_digest import DigestKind
from holdfast.spark.archive.manifests import Manifest
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.range_writer import DATA
from holdfast.spark.archive.store import Archive
from holdfast.spark.archive.table import TABLE_LOG, has_table, keep_table, table_files
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.written_ranges import LogRange, joined, merge_range, write_range
from trials.pipeline.written_log import FIRST_TIME, WrittenLog, message

DAY = 24 * 3600 * 1_000_000
LATER = 4_102_444_800_000_000
ENTRIES = 8
CLUSTER = "c" * 32


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> LogDirectory:
    """Two days; records of several kinds, an entry of two messages, and one of no record."""
    folder = tmp_path_factory.mktemp("log")
    with WrittenLog(folder) as written:
        written.put(QueueRecord(1, "orders"))
        written.put(message(1, 1, bytes(range(256)), b"shop:north\n", "p"))
        written.put(message(1, 2, b"two"), message(1, 3, b"three"))
        written.put(AcknowledgeRecord(1, [1, 3]))
        written.put(kind=KIND_NOOP)
        written.time += DAY
        for sequence in (4, 5, 6):
            written.put(message(1, sequence, b"%d" % sequence))
    return LogDirectory(str(folder))


class PaperArchive:
    """The log in ranges of two entries, published one after the other."""

    def __init__(self, log: LogDirectory, folder: Path) -> None:
        self.log = log
        self.folder = folder
        self.store = Archive.open(str(folder))
        self.ranges: list[Manifest] = []

    def grow(self, count: int = 1) -> None:
        """Publish so many ranges more."""
        for _ in range(count):
            first = 2 * len(self.ranges) + 1
            wanted = LogRange(first, first + 1, "00" * 16 if first == 1 else None)
            names = {1: "orders"}
            written = write_range(wanted, source=self.log, archive=self.store, names=names)
            self.ranges.append(joined([written], CLUSTER))
            self.store.publish(self.ranges[-1])

    def merge(self, count: int, start: int = 0) -> None:
        """Publish one range in place of so many."""
        group = self.ranges[start : start + count]
        merged = merge_range(group, archive=self.store, compression="snappy")
        self.store.publish(joined([merged], CLUSTER))

    def files(self) -> set[str]:
        """What the manifests name."""
        return {file.path for file in self.store.catalogue().files()}

    def rows(self) -> list[dict[str, Any]]:
        """What the manifests say is archived, with the day that is not in the files."""
        return [
            row | {"day": f"{row['entry_time']:%Y-%m-%d}"}
            for file in self.store.catalogue().files()
            for batch in self.store.batches(file)
            for row in batch.to_pylist()
        ]


@pytest.fixture
def paper(log: LogDirectory, tmp_path: Path) -> PaperArchive:
    return PaperArchive(log, tmp_path / "the archive")


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB, with its own reader of Delta tables; it loads nothing from elsewhere."""
    settings = {
        "extension_directory": f"{next(iter(duckdb_ext.__path__))}/extensions",
        "autoinstall_known_extensions": "false",
    }
    with duckdb.connect(config=settings) as connection:
        connection.execute("LOAD delta; SET TimeZone = 'UTC'")
        yield connection


def queried(engine: duckdb.DuckDBPyConnection, paper: PaperArchive) -> list[dict[str, Any]]:
    """All rows, as the engine gives them."""
    order = 'select * from delta_scan($1) order by "index", ordinal'
    table = engine.sql(order, params=[str(paper.folder)]).to_arrow_table()
    return [row | {"day": str(row["day"])} for row in table.to_pylist()]


def test_another_engine_reads_every_row_of_the_archive(
    paper: PaperArchive, engine: duckdb.DuckDBPyConnection
) -> None:
    """All columns of all kinds of record, and the day, as they are; no data file is copied."""
    paper.grow(4)
    before = sorted(paper.folder.rglob("*.parquet"))
    state = keep_table(paper.store)
    assert (state.version, state.last_index, state.added) == (0, ENTRIES, len(before))
    found = queried(engine, paper)
    assert found == paper.rows()
    assert {row["day"] for row in found} == {"2023-11-14", "2023-11-15"}
    assert found[4]["sequences"] == [1, 3]
    assert sorted(paper.folder.rglob("*.parquet")) == before
    chosen = """select body from delta_scan($1)
        where day = '2023-11-15' and destination = 'orders' and "index" < 7"""
    assert engine.execute(chosen, [str(paper.folder)]).fetchall() == [(b"4",)]


def test_the_packages_own_reader_gives_the_same(paper: PaperArchive) -> None:
    """And the counts that it takes from the statistics alone."""
    paper.grow(4)
    keep_table(paper.store)
    table = DeltaTable(str(paper.folder))
    found = table.to_pyarrow_table().sort_by([("index", "ascending"), ("ordinal", "ascending")])
    rows = [row | {"day": str(row["day"])} for row in found.to_pylist()]
    assert rows == paper.rows()
    assert table.count() == len(rows)


@pytest.mark.parametrize("name", ["50% off", "a%b", "x?y#z", "trailing ", "päth-日本"])
def test_the_table_stands_in_the_archive_whatever_its_name(
    name: str, log: LogDirectory, tmp_path: Path
) -> None:
    """As other engines' URLs name it, too."""
    paper = PaperArchive(log, tmp_path / "to" / name)
    paper.grow()
    assert keep_table(paper.store).files == len(table_files(paper.store)) == 1
    assert (paper.folder / "_delta_log").is_dir()
    assert [paper.folder] == list((tmp_path / "to").iterdir())
    rows = DeltaTable(paper.folder.as_uri()).to_pyarrow_table()
    assert rows.num_rows == len(paper.rows())


@pytest.mark.parametrize("name", ["a%20b", "a\\b"])
def test_a_path_that_the_package_takes_for_another_is_refused(
    name: str, log: LogDirectory, tmp_path: Path
) -> None:
    """It would write to the other folder, which may be another archive; and tidying goes on."""
    paper = PaperArchive(log, tmp_path / "to" / name)
    paper.grow()
    with pytest.raises(ArchiveError, match="another path"):
        keep_table(paper.store)
    assert [paper.folder] == list((tmp_path / "to").iterdir())
    assert not (paper.folder / "_delta_log").exists()
    assert table_files(paper.store) == frozenset()


def test_each_run_adds_what_is_new_in_one_version(
    paper: PaperArchive, engine: duckdb.DuckDBPyConnection
) -> None:
    """And nothing where nothing is."""
    paper.grow(1)
    assert keep_table(paper.store).version == 0
    paper.grow(2)
    state = keep_table(paper.store)
    # The third range is of two days, so of two files.
    assert (state.version, state.added, state.removed, state.files) == (1, 3, 0, 4)
    assert keep_table(paper.store).version == 1
    assert queried(engine, paper) == paper.rows()


def test_a_merged_range_comes_as_the_others_go(
    paper: PaperArchive, engine: duckdb.DuckDBPyConnection
) -> None:
    """In one version, so that no query finds entries twice or not at all; not as new rows."""
    paper.grow(4)
    keep_table(paper.store)
    before = queried(engine, paper)
    paper.merge(4)
    state = keep_table(paper.store)
    assert (state.version, state.added, state.removed, state.files) == (1, 2, 5, 2)
    assert queried(engine, paper) == before
    log = (paper.folder / TABLE_LOG / f"{1:020d}.json").read_text()
    assert log.count('"dataChange":false') == 7
    assert '"dataChange":true' not in log


def test_what_was_cut_off_is_made_good_by_the_next_run(
    paper: PaperArchive, engine: duckdb.DuckDBPyConnection
) -> None:
    """
    Killed between manifest and table, again and again, with ranges merged meanwhile.
    """
    paper.grow(2)
    keep_table(paper.store)
    paper.grow(2)
    paper.merge(2)
    paper.merge(4)
    retire(paper.store, now_microseconds=LATER)
    keep_table(paper.store)
    assert table_files(paper.store) == paper.files()
    assert queried(engine, paper) == paper.rows()


def beside(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], Any], times: int = 1) -> None:
    """Something happens between a look at the manifests and the commit, so many times."""
    plain, left = archive_table.change_of, [happens] * times

    def late(*given: Any) -> Any:
        change = plain(*given)
        if left:
            left.pop()()
        return change

    monkeypatch.setattr(archive_table, "change_of", late)


@pytest.mark.parametrize(("count", "start"), [(4, 0), (2, 2)], ids=["named already", "new"])
def test_who_comes_too_late_goes_on_from_what_is_there(
    paper: PaperArchive,
    engine: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    start: int,
) -> None:
    """
    It would add files of which the other has a merged one, and rows would stand there twice.
    """
    paper.grow(2)
    keep_table(paper.store)
    paper.grow(2)

    def other() -> None:
        paper.merge(count, start)
        keep_table(paper.store)

    beside(monkeypatch, other)
    assert keep_table(paper.store).version == 1
    assert table_files(paper.store) == paper.files()
    assert queried(engine, paper) == paper.rows()


def test_two_that_make_the_table_at_once_make_one(
    paper: PaperArchive, engine: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One wins; the other goes on from there, whichever it is."""
    paper.grow(1)
    beside(monkeypatch, lambda: (paper.grow(1), keep_table(paper.store)))
    keep_table(paper.store)
    shutil.rmtree(paper.folder / TABLE_LOG)
    paper.grow(2)
    together, ends = Barrier(2), []

    def work() -> None:
        together.wait()
        ends.append(keep_table(Archive.open(str(paper.folder))).version)

    threads = [Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == [0, 0]
    assert queried(engine, paper) == paper.rows()


def test_who_is_always_too_late_says_so(
    paper: PaperArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rather than try for ever."""
    paper.grow(1)
    keep_table(paper.store)

    def other() -> None:
        schema = archive_table._schema()
        DeltaTable(str(paper.folder)).create_write_transaction([], "append", schema, ["day"])

    paper.grow(1)
    beside(monkeypatch, other, archive_table.ATTEMPTS_MAX)
    with pytest.raises(ArchiveError, match="Let only one archiver run"):
        keep_table(paper.store)


def test_a_manifest_that_is_lost_takes_no_row_from_the_table(
    paper: PaperArchive, engine: duckdb.DuckDBPyConnection
) -> None:
    """Of the last one nothing else shows that it is missing."""
    paper.grow(4)
    keep_table(paper.store)
    before = queried(engine, paper)
    (paper.folder / "_holdfast" / paper.ranges[-1].name).unlink()
    with pytest.raises(ArchiveError, match="table has entries 7 to 8, which the manifests do not"):
        keep_table(paper.store)
    assert queried(engine, paper) == before


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [flipped, Path.unlink], ids=["a flipped bit", "missing"])
def test_a_file_that_is_not_what_was_archived_is_named_in_no_table(
    paper: PaperArchive, engine: duckdb.DuckDBPyConnection, damage: Callable[[Path], None]
) -> None:
    """The engine that queries it would give what it finds; here the error names the file."""
    paper.grow(1)
    path = paper.ranges[0].files[0].path
    good = (paper.folder / path).read_bytes()
    damage(paper.folder / path)
    with pytest.raises(CorruptArchiveError, match=path):
        keep_table(paper.store)
    assert not has_table(paper.store)

    (paper.folder / path).write_bytes(good)
    keep_table(paper.store)
    before = queried(engine, paper)
    paper.grow(1)
    path = paper.ranges[1].files[0].path
    damage(paper.folder / path)
    with pytest.raises(CorruptArchiveError, match=path):
        keep_table(paper.store)
    assert queried(engine, paper) == before


def test_a_damaged_merged_file_takes_the_place_of_no_good_ones(
    paper: PaperArchive, engine: duckdb.DuckDBPyConnection
) -> None:
    """The table names those that are still there, as they were."""
    paper.grow(4)
    keep_table(paper.store)
    before = queried(engine, paper)
    paper.merge(4)
    (first, *_) = paper.files() - table_files(paper.store)
    flipped(paper.folder / first)
    with pytest.raises(CorruptArchiveError, match="is not what was archived"):
        keep_table(paper.store)
    assert queried(engine, paper) == before


def test_a_store_that_does_not_give_a_file_leaves_the_table_as_it_is(
    paper: PaperArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is not taken for damage; the next time all is there."""
    paper.grow(1)
    plain = Place.open_input

    def failing(place: Place, path: str) -> Any:
        if path.startswith(DATA):
            raise OSError("SLOW_DOWN")
        return plain(place, path)

    with monkeypatch.context() as patch:
        patch.setattr(Place, "open_input", failing)
        with pytest.raises(UnreadableArchiveError, match="SLOW_DOWN"):
            keep_table(paper.store)
    assert keep_table(paper.store).added == 1


def test_who_comes_too_late_reads_no_file_again(
    paper: PaperArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is archived is read once for the table, and nothing once more."""
    paper.grow(2)
    read = Counter[str]()
    plain = Archive.digest

    def counted(store: Archive, path: str, kind: DigestKind) -> tuple[int, str]:
        read[path] += 1
        return plain(store, path, kind)

    monkeypatch.setattr(Archive, "digest", counted)
    beside(
        monkeypatch,
        lambda: DeltaTable.create(str(paper.folder), archive_table.COLUMNS, partition_by=["day"]),
    )
    assert keep_table(paper.store).version == 1
    keep_table(paper.store)
    assert read == dict.fromkeys(paper.files(), 1)


def test_tidying_takes_no_file_that_the_table_names(
    paper: PaperArchive, engine: duckdb.DuckDBPyConnection
) -> None:
    """
    A table that was not kept up names files that others replaced: they stay until it is.
    """
    paper.grow(4)
    keep_table(paper.store)
    paper.merge(4)
    retire(paper.store, now_microseconds=LATER)
    much_later = LATER + 2 * UNNAMED_SECONDS * 1_000_000
    assert sweep(paper.store, now_microseconds=much_later, keep_seconds=0.0) == 0
    assert queried(engine, paper) == paper.rows()
    keep_table(paper.store)
    assert sweep(paper.store, now_microseconds=much_later, keep_seconds=0.0) == 5
    assert queried(engine, paper) == paper.rows()


@pytest.mark.parametrize("trouble", ["no package", "unreadable"])
def test_nothing_is_taken_while_the_table_cannot_be_read(
    paper: PaperArchive, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who cannot tell what a query reads removes nothing."""
    paper.grow(4)
    keep_table(paper.store)
    paper.merge(4)
    retire(paper.store, now_microseconds=LATER)
    if trouble == "no package":
        monkeypatch.setattr(archive_table, "is_installed", lambda: False)
    else:
        (paper.folder / TABLE_LOG / f"{0:020d}.json").write_text("{")
    much_later = LATER + 2 * UNNAMED_SECONDS * 1_000_000
    assert sweep(paper.store, now_microseconds=much_later, keep_seconds=0.0) == 0
    with pytest.raises(ArchiveError, match=r"the table of .*the archive"):
        keep_table(paper.store)


def facts(paper: PaperArchive) -> list[dict[str, Any]]:
    """All that the table says of its files, but for when they were named."""
    rows = pa.table(DeltaTable(str(paper.folder)).get_add_actions(flatten=True))
    return rows.drop(["modification_time"]).sort_by("path").to_pylist()


def test_a_flipped_bit_in_the_tables_log_is_made_good_or_told(paper: PaperArchive) -> None:
    """
    No checksum guards the log, not where it names a file and says what is in it.
    """
    paper.grow(2)
    keep_table(paper.store)
    right = facts(paper)
    folder = paper.folder / TABLE_LOG
    log = folder / f"{0:020d}.json"
    plain = log.read_bytes()
    about_files = plain.index(b'{"add"')
    end = plain.index(b"\n", about_files)
    flips = [*range(0, about_files, 501), *range(about_files, end, 5)]
    ends = Counter[str]()
    for place in flips:
        data = bytearray(plain)
        data[place] ^= 1 << place % 8
        shutil.rmtree(folder)
        folder.mkdir()
        log.write_bytes(data)
        try:
            version = keep_table(paper.store).version
        except ArchiveError as error:
            ends["told" if "have it made anew" in str(error) else str(error)] += 1
        else:
            assert facts(paper) == right, (place, bytes(data[place - 20 : place + 20]))
            ends["made good" if version else "no matter"] += 1
    assert set(ends) == {"made good", "told", "no matter"}
    assert min(ends.values()) > 5, ends


def test_what_a_checkpoint_says_wrongly_is_made_good(
    paper: PaperArchive, engine: duckdb.DuckDBPyConnection
) -> None:
    """A file of another day and with other entries than it has: queries would miss its rows."""
    paper.grow(2)
    keep_table(paper.store)
    right = facts(paper)
    untrue = AddAction(
        path=right[0]["path"],
        size=right[0]["size_bytes"],
        partition_values={"day": "2020-01-01"},
        modification_time=1,
        data_change=False,
        stats='{"numRecords":1,"minValues":{"index":1000},"maxValues":{"index":1000}}',
    )
    table = DeltaTable(str(paper.folder))
    table.create_write_transaction([untrue], "append", archive_table._schema(), ["day"])
    table.create_checkpoint()
    assert queried(engine, paper) != paper.rows()
    state = keep_table(paper.store)
    assert (state.version, state.files, state.added, state.removed) == (2, 2, 1, 0)
    assert facts(paper) == right
    assert queried(engine, paper) == paper.rows()
    log = (paper.folder / TABLE_LOG / f"{2:020d}.json").read_text()
    assert '"dataChange":true' not in log


def test_a_vacuum_removes_nothing_of_ours(
    paper: PaperArchive, engine: duckdb.DuckDBPyConnection
) -> None:
    """
    Not by its default, though a table that was not kept up lacks files; and never manifests.
    """
    paper.grow(2)
    keep_table(paper.store)
    paper.grow(2)
    for path in paper.folder.rglob("*.parquet"):
        os.utime(path, (time.time() - 20 * 24 * 3600,) * 2)
    table = DeltaTable(str(paper.folder))
    with pytest.raises(Exception, match="minimum retention"):
        table.vacuum(retention_hours=24, dry_run=False, full=True)
    assert table.vacuum(dry_run=False, full=True) == []
    keep_table(paper.store)
    before = sorted(paper.folder.rglob("_holdfast/*"))
    (paper.folder / "_set_aside").mkdir()
    (paper.folder / "_set_aside" / "x.parquet").touch()
    DeltaTable(str(paper.folder)).vacuum(0, False, False, full=True)
    assert sorted(paper.folder.rglob("_holdfast/*")) == before
    assert (paper.folder / "_set_aside" / "x.parquet").exists()
    assert queried(engine, paper) == paper.rows()


def test_what_others_did_to_the_table_is_undone(
    paper: PaperArchive, engine: duckdb.DuckDBPyConnection
) -> None:
    """Files that an OPTIMIZE wrote leave it, and those of the archive come back."""
    paper.grow(4)
    keep_table(paper.store)
    DeltaTable(str(paper.folder)).optimize.compact()
    assert not table_files(paper.store) & paper.files()
    keep_table(paper.store)
    assert table_files(paper.store) == paper.files()
    assert queried(engine, paper) == paper.rows()


def test_a_table_is_known_by_its_checkpoint_too(paper: PaperArchive) -> None:
    """Its first versions go after a day; what it names is still told."""
    paper.grow(1)
    assert not has_table(paper.store)
    assert table_files(paper.store) == frozenset()
    keep_table(paper.store)
    paper.grow(1)
    keep_table(paper.store)
    DeltaTable(str(paper.folder)).create_checkpoint()
    (paper.folder / TABLE_LOG / f"{0:020d}.json").unlink()
    assert has_table(paper.store)
    assert table_files(paper.store) == paper.files()
    paper.grow(1)
    assert keep_table(paper.store).version == 2


def test_an_archive_without_a_range_makes_no_table(paper: PaperArchive) -> None:
    """There is no cluster yet whose log it is."""
    with pytest.raises(ArchiveError, match=r"nothing is archived in .* yet"):
        keep_table(paper.store)
    assert not paper.folder.exists()


def test_a_table_of_other_columns_is_not_touched(paper: PaperArchive) -> None:
    """One of somebody else's, or of a version that archived something else."""
    schema = pa.schema([("index", pa.int64())])
    DeltaTable.create(str(paper.folder), schema)
    paper.grow(1)
    with pytest.raises(ArchiveError, match=r"has other columns\. Remove that folder"):
        keep_table(paper.store)


def test_the_table_has_the_times_of_the_log(paper: PaperArchive) -> None:
    """In microseconds and UTC."""
    paper.grow(1)
    keep_table(paper.store)
    column = DeltaTable(str(paper.folder)).to_pyarrow_table()["entry_time"]
    assert column.type == pa.timestamp("us", "UTC")
    assert column.cast(pa.int64()).to_pylist()[0] == FIRST_TIME
