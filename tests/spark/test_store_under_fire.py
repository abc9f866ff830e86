"""
An archive in an S3 server whose answers are lost, late, refused, cut off or not what was sent.

However it goes wrong, the run ends well or with one sentence; and once the store answers again the
archive has every entry once, byte for byte.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, product
from pathlib import Path
from random import Random

import pytest

from holdfast.cli.archive_run import ArchiveRun
from holdfast.errors import CorruptArchiveError, HoldfastError
from holdfast.spark.archive.places import place_options
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.archive.table import keep_table, table_files
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.source import LogSource
from holdfast.spark.pipelines.archive import ArchiveSettings
from holdfast.spark.pipelines.audit import prove_file
from holdfast.spark.source.batch_reader import BatchReader
from holdfast.spark.source.options import read_options
from trials.pipeline.paper_spark import PaperSpark
from trials.pipeline.s3_server import S3Server
from trials.pipeline.store_proxy import (
    Answer,
    Ask,
    Request,
    Rule,
    StoreProxy,
    cut_off,
    flipped,
    refused,
)
from trials.pipeline.written_log import WrittenLog, message, orders_log

pytestmark = pytest.mark.processes

MESSAGES = 6
ROUNDS = 4
SETTINGS = ArchiveSettings(compact_count_min=2)
READS = frozenset({"get", "list"})
WRITES = frozenset({"put", "copy", "delete"})
LATE_SECONDS = 4.0
"""Longer than AWS's client waits for an answer."""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def store(server: S3Server) -> Iterator[StoreProxy]:
    with StoreProxy(server) as proxy:
        yield proxy


@pytest.fixture
def log(tmp_path: Path) -> LogDirectory:
    # Bodies that nothing makes smaller: half of a data file is of them, and a bit of it tells.
    bodies = (Random(number).randbytes(2_000) for number in range(MESSAGES))
    return orders_log(tmp_path / "log", *bodies)


def grow(log: LogDirectory) -> None:
    with WrittenLog(Path(log.path)) as written:
        written.put(message(1, written.journal.last_index, b"more", b"", "p"))


def chains(source: LogSource) -> bytes:
    """What stands for every byte of all entries."""
    blocks = source.blocks(1, source.position().last_index)
    return b"".join(block.chains for block in blocks if isinstance(block, EntryBlock))


Meets = Callable[[Request], bool]


class Fire:
    """A rule by which some requests meet a fault."""

    def __init__(self, meets: Meets, fault: Rule) -> None:
        self._meets = meets
        self._fault = fault
        self.hits: list[Request] = []
        """Those that met it."""

    def __call__(self, request: Request, ask: Ask) -> Answer | None:
        """Answer a request."""
        if not self._meets(request):
            return ask()
        self.hits.append(request)
        return self._fault(request, ask)


def every(step: int, kinds: frozenset[str]) -> Meets:
    numbers = count(1)
    return lambda request: request.kind in kinds and next(numbers) % step == 0


def nth(number: int) -> Meets:
    numbers = count(1)
    return lambda _: next(numbers) == number


def first_commit() -> Meets:
    """The first version that is written of a table, asked for the first time."""
    numbers = count(1)
    return lambda request: (
        request.kind == "put"
        and "_delta_log/" in request.key
        and request.key.endswith(".json")
        and next(numbers) == 1
    )


def from_manifest(number: int) -> Meets:
    """All from the moment on at which so many manifests are to be published."""
    numbers = count(1)
    is_met: list[bool] = []

    def meets(request: Request) -> bool:
        is_manifest = request.kind == "put" and "_holdfast/0" in request.key
        if is_manifest and next(numbers) == number:
            is_met.append(True)
        return bool(is_met)

    return meets


def lost(_: Request, ask: Ask) -> Answer | None:
    """It is done, and nobody hears of it."""
    ask()
    return None


def late(_: Request, ask: Ask) -> Answer | None:
    answer = ask()
    time.sleep(LATE_SECONDS)
    return answer


def expired(_: Request, __: Ask) -> Answer | None:
    return refused(403, "ExpiredToken")


FIRES: dict[str, Callable[[], Fire]] = {
    "expired at the first manifest": lambda: Fire(from_manifest(1), expired),
    "expired at a merged manifest": lambda: Fire(from_manifest(3), expired),
    "answers to writing are lost": lambda: Fire(every(4, WRITES), lost),
    "writing meets a conflict": lambda: Fire(every(3, WRITES), lambda *_: refused(409)),
    "writing meets a precondition": lambda: Fire(every(4, WRITES), lambda *_: refused(412)),
    "what is read has another bit": lambda: Fire(every(5, READS), lambda _, ask: flipped(ask())),
    "what is read is cut off": lambda: Fire(every(9, READS), lambda _, ask: cut_off(ask())),
    "answers are late": lambda: Fire(every(30, READS | WRITES), late),
}


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """Whatever goes wrong is an error of one line, and does not say that a file is damaged."""
    said: HoldfastError | OSError | None = None
    try:
        yield
    except (HoldfastError, OSError) as error:
        said = error
    assert "\n" not in str(said).strip()
    assert type(said) is not CorruptArchiveError
    assert "was changed after it was written" not in str(said)


def run_of(log: LogDirectory, archive: Archive, settings: ArchiveSettings = SETTINGS) -> ArchiveRun:
    return ArchiveRun(PaperSpark(), log, archive, settings, None)


def run_under_fire(log: LogDirectory, archive: Archive) -> None:
    """Archive several times, merging from the second on."""
    for _ in range(ROUNDS):
        with told_in_one_line():
            run_of(log, archive).loop(None)
        grow(log)


@pytest.mark.parametrize("fire", FIRES)
def test_after_the_fire_each_entry_is_there_once(
    fire: str, log: LogDirectory, store: StoreProxy
) -> None:
    """
    What was published is whole, what was not is archived then, and nothing stands there twice.
    """
    path = f"s3a://backup/{fire.replace(' ', '-')}"
    archive = Archive.open(path, place_options(store.options))
    rule = FIRES[fire]()
    store.rule = rule
    run_under_fire(log, archive)
    assert rule.hits
    store.rule = lambda _, ask: ask()
    run_of(log, archive).loop(None)

    catalogue = archive.catalogue(with_snapshot=False)
    assert () == catalogue.breaks
    assert chains(log) == chains(ArchivedSource(archive, catalogue))
    for file in catalogue.files():
        assert not prove_file(file, archive=archive)[0]


def read(archive: Archive, store: StoreProxy, view: str) -> list[tuple[int, bytes | None]]:
    """Read as Spark's tasks do."""
    columns = "index,chain" if view == "entries" else "index,body"
    options = {"path": str(archive), "view": view, "columns": columns, **store.options}
    reader = BatchReader(read_options(options))
    return [
        tuple(row.values())  # type: ignore[misc]
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]


def flipped_at(eighth: int) -> Callable[[Answer], Answer]:
    return lambda answer: flipped(answer, len(answer.body) * eighth // 8)


@pytest.mark.parametrize("view", ["messages", "entries"])
def test_a_reader_gets_what_was_archived_or_is_told(
    view: str, log: LogDirectory, store: StoreProxy
) -> None:
    """
    Whatever is cut off or has another bit: no row is another one, and none is missing.
    """
    archive = Archive.open(f"s3a://backup/read-{view}", place_options(store.options))
    run_of(log, archive).loop(None)
    store.requests.clear()
    whole = read(archive, store, view)
    assert len(whole) == MESSAGES + (view == "entries")
    asked = [place for place, kind in enumerate(store.kinds, 1) if kind in READS]
    for number, spoil in product(asked, [cut_off, *map(flipped_at, range(8))]):
        rule = Fire(nth(number), lambda _, ask: spoil(ask()))  # noqa: B023 - met at once
        store.rule = rule
        with told_in_one_line():
            assert whole == read(archive, store, view)
        assert rule.hits


def hiding(number: int) -> Rule:
    """In a listing's answer the name of one file has another bit: it is no manifest's any more."""

    def rule(_: Request, ask: Ask) -> Answer:
        answer = ask()
        names = [found.end() - 1 for found in re.finditer(rb"\.json", answer.body)]
        return flipped(answer, names[number]) if number < len(names) else answer

    return rule


def test_a_manifest_that_one_answer_hides_is_not_missed(
    log: LogDirectory, store: StoreProxy
) -> None:
    """
    Without it an archive would be a shorter one that looks whole, or have a gap that is none.
    """
    archive = Archive.open("s3a://backup/hidden-to-readers", place_options(store.options))
    run = run_of(log, archive, ArchiveSettings())
    for _ in range(3):
        run._turn()
        grow(log)
    whole = archive.catalogue()
    assert (3, ()) == (len(whole.ranges), whole.breaks)
    for number, of_all in product(range(3), (1, 2)):
        listings = count(1)
        rule = Fire(
            lambda it: it.kind == "list" and next(listings) == of_all,  # noqa: B023 - met at once
            hiding(number),
        )
        store.rule = rule
        assert whole == archive.catalogue()
        assert rule.hits


def test_an_archiver_takes_no_hidden_manifest_for_a_rival_or_a_gap(
    log: LogDirectory, store: StoreProxy
) -> None:
    """
    It would end over it for good, with a sentence that is not true.
    """
    archive = Archive.open("s3a://backup/hidden-to-archivers", place_options(store.options))
    run = run_of(log, archive, ArchiveSettings())
    for _ in range(3):
        run._turn()
        grow(log)
    hits = 0
    for of_turn, number in product(range(1, 4), range(4)):
        listings = count(1)
        rule = Fire(
            lambda it: it.kind == "list" and next(listings) == of_turn,  # noqa: B023 - met at once
            hiding(-1 - number),
        )
        store.rule = rule
        run._turn()
        hits += len(rule.hits)
        grow(log)
    store.rule = lambda _, ask: ask()
    assert 12 == hits
    run._turn()
    catalogue = archive.catalogue()
    assert () == catalogue.breaks
    assert chains(log) == chains(ArchivedSource(archive, catalogue))


def test_a_table_knows_its_own_commit_whose_answer_was_lost(
    log: LogDirectory, store: StoreProxy
) -> None:
    """
    Asked again, the store says that the version is there already: it is ours and no rival's.
    """
    archive = Archive.open("s3a://backup/own-commit", place_options(store.options))
    run_of(log, archive).loop(None)
    for version in range(2):
        rule = Fire(first_commit(), lost)
        store.rule = rule
        state = keep_table(archive)
        store.rule = lambda _, ask: ask()
        assert len(rule.hits) == 1
        assert (version, version + 1) == (state.version, state.files)
        assert table_files(archive) == {file.path for file in archive.catalogue().files()}
        grow(log)
        run_of(log, archive, ArchiveSettings())._turn()
