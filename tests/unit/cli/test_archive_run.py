"""
What a run of the archiver outlives, and what ends it; its tasks run in this process.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import archive_run
from holdfast.cli.archive_run import ArchiveRun
from holdfast.errors import ArchiveError, LinkLostError, NoWorkerError, RecordNotFoundError
from holdfast.spark.archive.manifest_reader import ManifestReader
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.range_writer import DATA
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.holds import Hold
from holdfast.spark.pipelines.archive import ArchiveSettings
from holdfast.spark.pipelines.written_ranges import LogRange, joined, write_range
from trials.pipeline.paper_spark import PaperSpark
from trials.pipeline.written_log import WrittenLog, message, orders_log


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


def run_turns(
    spark: PaperSpark,
    source: Any,
    to: Path,
    turns: int,
    first: Callable[[], None] = lambda: None,
) -> ArchiveRun:
    """Run continuously for so many turns; `first` happens after the first of them."""
    left = iter(range(turns - 1, -1, -1))

    def wait(_: float) -> bool:
        still = next(left)
        if still == turns - 1:
            first()
        if not still:
            run.stopping.set()
        return True

    store = Archive.open(str(to))
    run = ArchiveRun(spark, source, store, ArchiveSettings(), None, wait=wait)
    run.loop(1.0)
    return run


BODIES = [b"%d" % number for number in range(9)]


def test_a_link_that_fails_in_a_task_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It comes back from Spark wrapped in text, and is told as a link that failed here is."""
    spark = PaperSpark()
    spark.failures = [("holdfast.errors.LinkLostError", "node a does not answer")] * 2
    run = run_turns(spark, orders_log(tmp_path / "log", *BODIES), tmp_path / "to", 3)
    assert run.progress.messages == 9
    told = capsys.readouterr().err
    assert told.count("waiting for the cluster: node a does not answer") == 2


def test_a_worker_that_dies_again_and_again_is_tried_again_ever_more_seldom(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What Spark tells of it is said in one line each time; once it works the interval is back."""
    spark = PaperSpark()
    crashed = ("org.apache.spark.SparkException", "Python worker exited unexpectedly (crashed).")
    spark.failures = [crashed] * 8
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 10:
            run.stopping.set()
        return True

    source = orders_log(tmp_path / "log", *BODIES)
    store = Archive.open(str(tmp_path / "to"))
    run = ArchiveRun(spark, source, store, ArchiveSettings(), None, wait=wait)
    run.loop(1.0)

    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 1, 1]
    assert run.progress.messages == 9
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 8
    assert all("waiting for Spark: a Python worker of Spark's died" in line for line in told)
    assert told[2].endswith("; again in 4 s")


def test_a_python_that_cannot_be_started_is_waited_for_once_it_has_worked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it never could, trying again cannot help; later somebody may be at work on it."""
    missing = ("java.io.IOException", 'Cannot run program "/no/python": error=2\n')
    spark = PaperSpark()
    spark.failures = [missing]
    source = orders_log(tmp_path / "log", *BODIES)
    with pytest.raises(NoWorkerError, match="/no/python"):
        run_turns(spark, source, tmp_path / "to", 3)

    def break_it() -> None:
        spark.failures = [missing]
        orders_log(tmp_path / "log", b"more")

    run = run_turns(spark, source, tmp_path / "to", 3, break_it)
    assert run.progress.messages == 10
    assert capsys.readouterr().err.count("waiting for Spark: Spark cannot start its Python") == 1


def test_a_store_that_answers_with_an_error_is_waited_for_once_it_has_worked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the start it is a mistake in the command, and ends it."""
    spark = PaperSpark()
    fault = ("OSError", "When uploading part: AWS Error SLOW_DOWN")
    spark.failures = [fault]
    with pytest.raises(OSError, match="SLOW_DOWN"):
        run_turns(spark, orders_log(tmp_path / "log", *BODIES), tmp_path / "to", 1)

    def grow() -> None:
        with WrittenLog(tmp_path / "log") as written:
            written.put(message(1, 10, b"more", b"", "p"))
        spark.failures = [fault]

    run = run_turns(spark, LogDirectory(str(tmp_path / "log")), tmp_path / "to", 3, grow)
    assert run.progress.last_index == 11
    assert "waiting for the archive: When uploading part" in capsys.readouterr().err


def test_a_store_that_gives_a_file_the_next_time_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    An error while archived files are read again, to be merged or replaced, is no damage to them.
    """
    to = tmp_path / "to"
    source = orders_log(tmp_path / "log", *BODIES)
    archive = Archive.open(str(to))
    for wanted in (LogRange(1, 3, bytes(16).hex()), LogRange(4, 6, None)):
        written = write_range(wanted, source=source, archive=archive, names={})
        archive.publish(joined([written], source.position().cluster_id))
    open_input, faults = Place.open_input, [OSError("AWS Error SLOW_DOWN")]

    def slow(self: Place, path: str) -> Any:
        if path.startswith(DATA) and faults:
            raise faults.pop()
        return open_input(self, path)

    monkeypatch.setattr(Place, "open_input", slow)
    settings = ArchiveSettings(compact_count_min=2)
    run = ArchiveRun(PaperSpark(), source, archive, settings, None)
    run._wait = lambda _: run.stopping.set() or True
    run.loop(1.0)
    with WrittenLog(tmp_path / "log") as log:
        log.put(message(1, 10, b"more", b"", "p"))
    run._attempt()

    assert not faults
    assert "waiting for the archive" in capsys.readouterr().err
    assert (11, 1) == (run.progress.last_index, len(archive.catalogue().ranges))


@pytest.mark.parametrize("interval", [None, 1.0], ids=["once", "continuously"])
def test_what_cannot_be_tidied_keeps_nothing_from_being_archived(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    interval: float | None,
) -> None:
    """A store may let nothing be moved or removed, for good: then the log would never be taken."""
    to = tmp_path / "to"
    run_turns(PaperSpark(), orders_log(tmp_path / "log", *BODIES), to, 1)
    left_over = next((to / DATA).rglob("*.parquet")).with_name(f"{1:020d}-left-over.parquet")
    left_over.write_bytes(b"cut off")
    os.utime(left_over, (0, 0))

    def refused(*_: str) -> None:
        raise OSError("AWS Error ACCESS_DENIED during DeleteObject")

    monkeypatch.setattr(Place, "move", refused)
    with WrittenLog(tmp_path / "log") as written:
        written.put(message(1, 10, b"more", b"", "p"))
    source, store = LogDirectory(str(tmp_path / "log")), Archive.open(str(to))
    run = ArchiveRun(PaperSpark(), source, store, ArchiveSettings(), None)
    run._wait = lambda _: run.stopping.set() or True
    run.loop(interval)
    assert run.progress.last_index == 11
    assert left_over.exists()
    assert "the archive is not tidied" in capsys.readouterr().err


@pytest.mark.parametrize("others", [2, 40], ids=["shorter", "longer"])
def test_a_cluster_that_lost_archived_entries_ends_the_run(tmp_path: Path, others: int) -> None:
    """Promoted by force: it has other entries there, fewer or more of them than are archived."""
    spark, store = PaperSpark(), tmp_path / "to"
    run_turns(spark, orders_log(tmp_path / "log", *BODIES), store, 1)
    before = sorted(store.rglob("*"))
    promoted = orders_log(tmp_path / "promoted", *BODIES[:5], *[b"other"] * others)
    with pytest.raises(ArchiveError, match=r"promoted by force(.|\n)*up to 10\)"):
        run_turns(spark, promoted, store, 5)
    assert sorted(store.rglob("*")) == before


def test_a_promotion_under_the_tasks_is_told_as_what_it_is(tmp_path: Path) -> None:
    """They only see that an entry does not continue the log."""
    spark, store = PaperSpark(), tmp_path / "to"
    run_turns(spark, orders_log(tmp_path / "log", *BODIES[:5]), store, 1)
    grown = orders_log(tmp_path / "grown", *BODIES)
    promoted = orders_log(tmp_path / "promoted", *BODIES[:4], *[b"other"] * 6)

    class Promoted(LogDirectory):
        looks = 0

        def position(self) -> Any:
            Promoted.looks += 1
            return (grown if Promoted.looks == 1 else promoted).position()

        def blocks(self, first_index: int, last_index: int) -> Any:
            is_task = first_index > 6
            place = promoted if is_task or Promoted.looks > 1 else grown
            return place.blocks(first_index, last_index)

    with pytest.raises(ArchiveError, match="promoted by force"):
        run_turns(spark, Promoted(str(tmp_path / "grown")), store, 2)


def test_a_node_that_is_behind_is_waited_for(tmp_path: Path) -> None:
    """It has the same entries, fewer of them: nothing is wrong."""
    spark, store = PaperSpark(), tmp_path / "to"
    run_turns(spark, orders_log(tmp_path / "log", *BODIES), store, 1)
    run = run_turns(spark, orders_log(tmp_path / "behind", *BODIES[:5]), store, 2)
    assert run.progress.last_index == 10
    run = run_turns(spark, orders_log(tmp_path / "ahead", *BODIES, b"one", b"more"), store, 1)
    assert run.progress.last_index == 12


def test_once_a_link_that_fails_ends_the_run(tmp_path: Path) -> None:
    """Whoever asked for it sees it, and may ask again."""

    class Away(LogDirectory):
        def position(self) -> Any:
            raise LinkLostError("no node answers")

    store = Archive.open(str(tmp_path / "to"))
    run = ArchiveRun(PaperSpark(), Away(str(tmp_path)), store, ArchiveSettings(), None)
    with pytest.raises(LinkLostError):
        run.loop(None)


def test_a_hold_is_renewed_while_the_store_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage may last longer than the hold does without its reader, who is there."""
    renewed: list[int] = []

    class PaperHold(Hold):
        def move(self, index: int, *, or_first: bool = False) -> int:
            return index

        def renew_if_due(self, index: int) -> None:
            renewed.append(index)
            raise RecordNotFoundError("it has ended; what that means is not said here")

    def away(*_: str) -> None:
        raise OSError("AWS Error SLOW_DOWN")

    hold = PaperHold(RemoteLog(("a:1",)), "n")
    source = orders_log(tmp_path / "log", *BODIES)
    run = ArchiveRun(PaperSpark(), source, Archive.open(str(tmp_path)), ArchiveSettings(), hold)
    run.progress.commits = 1
    run._move_hold(7)
    run._wait = lambda _: (len(renewed) == 2 and run.stopping.set()) or True
    monkeypatch.setattr(Place, "files", away)
    run.loop(1.0)

    assert [7, 7] == renewed


def test_the_snapshot_is_looked_at_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start, as a process before may have left much to do, and after many commits."""
    looked: list[int] = []
    monkeypatch.setattr(archive_run, "UNREAD_MIN", 3)
    monkeypatch.setattr(
        ManifestReader, "renew_snapshot", lambda _: looked.append(run.progress.commits)
    )
    source = orders_log(tmp_path / "log", *BODIES)

    def wait(_: float) -> bool:
        with WrittenLog(tmp_path / "log") as written:
            number = 10 + run.progress.commits
            written.put(message(1, number, b"more", b"", "p"))
        if run.progress.commits == 8:
            run.stopping.set()
        return True

    store = Archive.open(str(tmp_path / "to"))
    run = ArchiveRun(PaperSpark(), source, store, ArchiveSettings(), None, wait=wait)
    run.loop(1.0)

    assert [1, 4, 7] == looked
