"""The command `archive-table`, and the table beside a run of the archiver; without Spark."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from holdfast.cli import archive as archive_command
from holdfast.cli import archive_run
from holdfast.cli.archive_run import ArchiveRun
from holdfast.cli.archive_table import PACKAGES, KeptTable
from holdfast.cli.main import main
from holdfast.errors import ArchiveError
from holdfast.model.records import QueueRecord
from holdfast.spark.archive import table as archive_table
from holdfast.spark.archive.store import Archive
from holdfast.spark.archive.table import has_table, keep_table, table_files
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.archive import ArchiveSettings, archive_once
from trials.pipeline.paper_spark import PaperSpark
from trials.pipeline.written_log import WrittenLog, clean_first_segment, message


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def log(tmp_path: Path) -> LogDirectory:
    with WrittenLog(tmp_path / "log") as written:
        written.put(QueueRecord(1, "orders"))
    return LogDirectory(str(tmp_path / "log"))


@pytest.fixture
def store(tmp_path: Path) -> Archive:
    return Archive.open(str(tmp_path / "to"))


A_SEGMENT = bytes(40_000)
"""Of two such bodies the second one begins another file of the log."""


def grow(log: LogDirectory, body: bytes = b"x") -> None:
    """One message more."""
    with WrittenLog(Path(log.path)) as written:
        written.put(message(1, written.journal.last_index, body))


def archived(log: LogDirectory, store: Archive) -> set[str]:
    """Archive without a table; gives what the manifests name."""
    archive_once(PaperSpark(), log, store)
    return files(store)


def files(store: Archive) -> set[str]:
    return {file.path for file in store.catalogue().files()}


def run_of(log: LogDirectory, store: Archive, *, wanted: bool, turns: int = 1) -> ArchiveRun:
    """A run that ends by itself after so many turns; the log grows after each."""

    def wait(_: float) -> bool:
        nonlocal turns
        turns -= 1
        grow(log)
        if not turns:
            run.stopping.set()
        return True

    settings = ArchiveSettings(compact_count_min=3)
    run = ArchiveRun(PaperSpark(), log, store, settings, None, wait=wait)
    run.table.is_wanted = wanted
    return run


def main_code(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def test_the_command_makes_a_table_and_brings_it_up_to_date(
    log: LogDirectory, store: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what it did, to programs and to people."""
    archived(log, store)
    assert main_code(["archive-table", str(store), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    state = {"version": 0, "files": 1, "first_index": 1, "last_index": 1, "missing": []}
    changed = {"added": 1, "removed": 0}
    assert told == {"archive": str(store), "table": {"format": "delta"} | state | changed}
    grow(log)
    assert table_files(store) < archived(log, store)
    assert main_code(["archive-table", str(store)]) == 0
    told = capsys.readouterr().out
    assert "delta, version 1, entries 1 to 2" in told
    assert "2; 1 added, 0 removed" in told
    assert table_files(store) == files(store)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["nowhere"], 2, "ARCHIVE: there is no archive in"),
        (["ftp://x"], 2, "ARCHIVE: ftp://x: paths begin with /"),
        (["to", "--conf", "x"], 2, "--conf: expected KEY=VALUE"),
        (["to"], 1, "nothing is archived in to yet"),
    ],
)
def test_what_makes_no_table_is_one_sentence(
    arguments: list[str],
    code: int,
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And leaves nothing behind."""
    (tmp_path / "to" / "_holdfast").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert main_code(["archive-table", *arguments]) == code
    error = capsys.readouterr().err
    assert told in error.replace(f"{tmp_path}/", "")
    assert error.count("\n") == 1
    assert not list(tmp_path.rglob("_delta_log"))


@pytest.mark.parametrize(
    "command",
    [["archive-table", "x"], ["archive", "--to", "x", "--path", "log", "--table", "delta"]],
)
def test_without_the_extra_one_sentence_says_what_to_install(
    command: list[str],
    log: LogDirectory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything is read or written, or Spark starts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    assert main_code(command) == 2
    assert capsys.readouterr().err == (
        "holdfast: a Delta table needs what is not installed (deltalake);"
        " install it with: pip install 'holdfast[delta]'\n"
    )


def test_the_extra_installs_what_a_table_needs() -> None:
    """With what Spark needs: an archive is written by it."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    assert "holdfast[spark]" in extras["delta"]
    needs = [each.partition(">")[0] for each in [*extras["delta"], *extras["spark"]]]
    assert set(PACKAGES) <= set(needs)


def test_an_unknown_format_is_a_mistake(
    log: LogDirectory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is told before Spark starts, with what there is."""
    monkeypatch.chdir(tmp_path)
    assert main_code(["archive", "--to", "x", "--path", "log", "--table", "iceberg"]) == 2
    assert "--table: 'iceberg' is not known; there is delta" in capsys.readouterr().err


def test_a_run_keeps_the_table_with_the_archive(log: LogDirectory, store: Archive) -> None:
    """After every turn the table names what the manifests name; ranges are merged meanwhile."""
    run = run_of(log, store, wanted=True, turns=5)
    run.loop(1.0)
    assert run.progress.compacted
    assert table_files(store) == files(store)
    assert run.table.state is not None
    assert (run.table.state.last_index, run.table.failure) == (5, "")
    assert run.table.state.added - run.table.state.removed == len(files(store))


def test_ranges_are_merged_as_a_version_of_their_own(log: LogDirectory, store: Archive) -> None:
    """So who follows the table is told what is new as new, and nothing of what was merged."""
    run_of(log, store, wanted=True, turns=4).loop(1.0)
    folder = Path(str(store)) / "_delta_log"
    versions = [path.read_text() for path in sorted(folder.glob("*.json"))]
    kinds = {('"dataChange":true' in it, '"dataChange":false' in it) for it in versions}
    assert kinds == {(True, False), (False, True)}


def test_an_archive_that_has_a_table_keeps_it(log: LogDirectory, store: Archive) -> None:
    """Without being told again: whoever queries it would not notice that it stands still."""
    archived(log, store)
    run_of(log, store, wanted=False).loop(None)
    assert not has_table(store)
    keep_table(store)
    grow(log)
    run_of(log, store, wanted=False).loop(None)
    assert table_files(store) == files(store)
    assert len(files(store)) == 2


def test_a_table_that_was_cut_off_is_made_good_though_nothing_is_new(
    log: LogDirectory, store: Archive
) -> None:
    """The archiver was killed between its manifest and the table."""
    archived(log, store)
    keep_table(store)
    grow(log)
    archived(log, store)
    run_of(log, store, wanted=True).loop(None)
    assert table_files(store) == files(store)


@pytest.mark.parametrize("moment", ["before its manifest", "before its table"])
def test_of_two_archivers_at_once_neither_spoils_the_table(
    moment: str, log: LogDirectory, store: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The other one has a whole turn meanwhile, of more entries, and merges; rows stand there once.
    """
    for _ in range(3):
        grow(log)
        archived(log, store)
    keep_table(store)
    grow(log)
    others = 3

    def other() -> None:
        nonlocal others
        if others:
            others -= 1
            grow(log)
            run_of(log, store, wanted=True).loop(None)

    place, name = (Archive, "publish") if moment == "before its manifest" else (KeptTable, "follow")
    plain = getattr(place, name)

    def late(*given: Any) -> Any:
        other()
        return plain(*given)

    monkeypatch.setattr(place, name, late)
    run = run_of(log, store, wanted=True, turns=3)
    run.loop(1.0)
    assert others == 0
    assert run.table.failure == ""
    assert table_files(store) == files(store)
    indexes = DeltaTable(str(store)).to_pyarrow_table()["index"].to_pylist()
    assert sorted(indexes) == list(range(1, store.catalogue().last_index + 1))


def test_what_ends_a_turn_does_not_leave_the_table_behind(
    log: LogDirectory, store: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The range is published and then the store answers with an error: the next turn follows."""
    plain, calls = archive_run.archive_once, []

    def failing(*given: Any, **options: Any) -> Any:
        calls.append(plain(*given, **options))
        if len(calls) == 2:
            raise OSError("SLOW_DOWN")
        return calls[-1]

    def wait(_: float) -> bool:
        if len(calls) == 1:
            grow(log)
        if len(calls) == 3:
            run.stopping.set()
        return True

    monkeypatch.setattr(archive_run, "archive_once", failing)
    run = ArchiveRun(PaperSpark(), log, store, ArchiveSettings(), None, wait=wait)
    run.table.is_wanted = True
    run.loop(1.0)
    assert len(files(store)) == 2
    assert table_files(store) == files(store)


@pytest.mark.parametrize("error", [ArchiveError("403 Forbidden"), OSError("403 Forbidden")])
def test_a_table_that_fails_keeps_nothing_from_being_archived(
    error: Exception,
    log: LogDirectory,
    store: Archive,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is told once, tried again each turn, and made good when it can be."""
    run = run_of(log, store, wanted=True, turns=4)
    plain, failures = archive_table.keep_table, [error] * 3

    def failing(archive: Archive) -> Any:
        if failures:
            raise failures.pop()
        return plain(archive)

    monkeypatch.setattr(archive_table, "keep_table", failing)
    run.loop(1.0)
    assert run.progress.last_index == 4
    told = capsys.readouterr().err
    assert told.count("warning: the table is not up to date: 403 Forbidden") == 1
    assert table_files(store) == files(store)


def test_a_table_that_failed_to_the_end_fails_the_command(
    log: LogDirectory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was archived is told all the same; without --table it is a warning alone."""
    monkeypatch.setattr(archive_command, "open_spark", lambda *_, **__: nullcontext(PaperSpark()))
    monkeypatch.setattr("holdfast.spark.archive.places.hadoop_options", lambda _: ())
    to = tmp_path / "to"
    command = ["archive", "--to", str(to), "--path", log.path, "--uncertain-end", "--json"]
    assert main_code([*command, "--table", "delta"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["entries"] == 1
    assert told["table"] == {
        "format": "delta",
        "version": 0,
        "files": 1,
        "first_index": 1,
        "last_index": 1,
        "missing": [],
        "added": 1,
        "removed": 0,
    }
    shutil.rmtree(to / "_delta_log")
    DeltaTable.create(str(to), pa.schema([("n", pa.int64())]))
    grow(log)
    assert main_code([*command, "--table", "delta"]) == 1
    output = capsys.readouterr()
    assert json.loads(output.out)["entries"] == 1
    assert "the table is not up to date: the table in" in output.err
    grow(log)
    assert main_code(command) == 0
    assert "the table is not up to date" in capsys.readouterr().err


def test_a_gap_is_told_where_the_table_is(
    log: LogDirectory, store: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command to people and programs, and once by an archiver that goes on."""
    for _ in range(6):
        archived(log, store)
        grow(log, A_SEGMENT)
    manifests = sorted((Path(str(store)) / "_holdfast").iterdir())
    for lost in (manifests[2], manifests[4]):
        lost.unlink()

    assert main_code(["archive-table", str(store)]) == 0
    assert "entries 3 to 3, 5 to 5, missing from the archive" in capsys.readouterr().out
    assert main_code(["archive-table", str(store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["table"]["missing"] == [[3, 3], [5, 5]]
    history = DeltaTable(str(store)).history(1)[0]
    assert history["missingEntries"] == "3 to 3, 5 to 5"

    while log.position().first_index <= 5:
        clean_first_segment(Path(log.path))
    run = run_of(log, store, wanted=True, turns=3)
    run.settings = replace(run.settings, accept_gap=True)
    run.loop(1.0)
    told = capsys.readouterr().err
    assert told.count("warning: the table lacks entries 3 to 3, 5 to 5, as the archive does") == 1


def test_a_damaged_file_keeps_nothing_from_being_archived(
    log: LogDirectory, store: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is in no table, and that is said; the table stands still until it is brought back."""
    archived(log, store)
    keep_table(store)
    grow(log)
    (path,) = archived(log, store) - table_files(store)
    damaged = Path(str(store)) / path
    good = damaged.read_bytes()
    damaged.write_bytes(good[:-1])

    run_of(log, store, wanted=True).loop(None)
    assert f"the table is not up to date: {path}: the file is not" in capsys.readouterr().err
    assert len(table_files(store)) == 1
    assert main_code(["archive-table", str(store)]) == 1
    assert capsys.readouterr().err.startswith(f"holdfast: {path}: the file is not what was")
    damaged.write_bytes(good)
    assert main_code(["archive-table", str(store)]) == 0
    assert table_files(store) == files(store)


def test_a_kept_table_is_looked_for_again(log: LogDirectory, store: Archive) -> None:
    """One that somebody makes beside a running archiver is kept from the next look on."""
    archived(log, store)
    table = KeptTable(store)
    table.look()
    table.follow(1)
    assert table.state is None
    keep_table(store)
    table.look()
    assert table.state is not None
