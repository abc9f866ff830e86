"""
One flipped bit in a file of an archive, at each kind of place in it: whoever reads it is told.

Nothing that was archived is gone afterwards, and once the bit is mended all is as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from holdfast.errors import ArchiveError, CorruptArchiveError, HoldfastError
from holdfast.model.records import QueueRecord
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.archive.table import keep_table
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.archive import ArchiveSettings, archive_once, compact
from holdfast.spark.pipelines.audit import audit
from holdfast.spark.pipelines.restore import RestoreSettings, restore
from holdfast.spark.source.batch_reader import BatchReader
from holdfast.spark.source.options import read_options
from trials.pipeline.paper_spark import PaperSpark
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import FIRST_TIME, STEP_MICROSECONDS, WrittenLog, message

MESSAGES: Final = 8
PER_RANGE: Final = 3
IN_THE_MIDDLE: Final = FIRST_TIME + 4 * STEP_MICROSECONDS
"""When the fifth entry was sealed, of the second of three ranges."""
MERGING: Final = ArchiveSettings(compact_count_min=2)
WHOLE_FILE: Final = 0
FOOTER_END_BYTES: Final = 8
"""The length of Parquet's footer, and the mark behind it."""


class Flipped:
    """An archive of three ranges, and its files in the middle."""

    def __init__(self, folder: Path) -> None:
        draw = Random(10)
        with WrittenLog(folder / "log") as log:
            log.put(QueueRecord(1, "orders"))
            for sequence in range(1, MESSAGES + 1):
                log.put(message(1, sequence, draw.randbytes(60), b"a:b\n", "p"))
        self.log = LogDirectory(str(folder / "log"))
        self.folder = folder
        self.archive = archived_log(self.log, folder / "archive", per_range=PER_RANGE)
        self.root = folder / "archive"
        self.manifest = sorted((self.root / "_holdfast").iterdir())[1]
        self.data = self.root / self.archive.catalogue().ranges[1].files[0].path
        self.names = self.there()

    def there(self) -> dict[str, int]:
        """All files, and how long they are."""
        return {str(it): it.stat().st_size for it in self.root.rglob("*") if it.is_file()}

    @contextmanager
    def at(self, file: Path, place: int) -> Iterator[None]:
        """Flip one bit of this byte, and mend it at the end."""
        whole = file.read_bytes()
        file.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :]
        )
        yield
        file.write_bytes(whole)

    def again(self) -> Archive:
        """The archive to somebody who has read nothing of it."""
        return Archive.open(str(self.root))

    def read(self, view: str, **options: str) -> list[Any]:
        """Load as Spark's tasks do."""
        columns = "index,destination,message_id,body" if view == "messages" else "*"
        given = {"path": str(self.root), "view": view, "columns": columns, **options}
        reader = BatchReader(read_options(given))
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        return [row for batch in batches for row in batch.to_pylist()]


def audited(paper: Flipped) -> None:
    spark: Any = PaperSpark()
    found = audit(spark, [], paper.again(), with_account=False)
    if not found.is_sound:
        places = " ".join(f"{it.place} {it.reason}" for it in found.findings)
        raise CorruptArchiveError(places, path=found.verdict)


def restored(paper: Flipped, moment: int | None = None) -> None:
    to = paper.folder / "restored"
    spark: Any = PaperSpark()
    try:
        restore(spark, paper.again(), to, RestoreSettings(as_of_time=moment))
    finally:
        assert not to.exists()


READERS: Final[dict[str, Callable[[Flipped], object]]] = {
    "audit": audited,
    "restore": restored,
    "restore of a moment": lambda paper: restored(paper, IN_THE_MIDDLE),
    "load": lambda paper: paper.read("messages"),
    "load of the rest": lambda paper: paper.read("messages", failOnDataLoss="false"),
    "load of entries": lambda paper: paper.read("entries"),
    "load of what lives": lambda paper: paper.read("backlog"),
    "table": lambda paper: keep_table(paper.again()),
}


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Flipped:
    return Flipped(tmp_path_factory.mktemp("flipped"))


def places_of_a_manifest(file: Path) -> list[int]:
    """In each line its mark, its key, its value, and what ends it."""
    content = file.read_bytes()
    found = {0, len(content) - 1}
    for line in re.finditer(rb" *(\"[^\"]+\")(: )?([^\n]*)", content):
        key, value = line.span(1), line.span(3)
        found |= {key[0], sum(key) // 2, sum(value) // 2, max(value[1] - 1, value[0])}
    return sorted(found)


def places_of_data(file: Path) -> list[int]:
    """In each column its first page's header, the middle and the end; and all over the footer."""
    content, footer = file.read_bytes(), pq.ParquetFile(file).metadata
    found = {WHOLE_FILE, *range(len(content) - FOOTER_END_BYTES, len(content))}
    for number in range(footer.num_columns):
        column = footer.row_group(0).column(number)
        begin = column.data_page_offset
        if column.has_dictionary_page:
            begin = column.dictionary_page_offset
        size = column.total_compressed_size
        found |= {begin + 2, begin + size // 2, begin + size - 1}
    end = len(content) - FOOTER_END_BYTES
    return sorted(found | set(range(end - footer.serialized_size, end, 97)))


@pytest.mark.parametrize("reader", READERS)
def test_a_manifest_is_named(reader: str, paper: Flipped) -> None:
    """What only it told of is not taken for what the archive never got."""
    for place in places_of_a_manifest(paper.manifest):
        with paper.at(paper.manifest, place), pytest.raises(HoldfastError) as told:
            READERS[reader](paper)
        assert paper.manifest.name in str(told.value), place
        assert "\n" not in str(told.value)
    assert paper.names == paper.there()


@pytest.mark.parametrize("reader", READERS.keys() - {"load of entries", "load of what lives"})
def test_a_data_file_is_named(reader: str, paper: Flipped) -> None:
    """Its digest is compared before a row of it is given, or it is left out of anything."""
    for place in places_of_data(paper.data):
        with paper.at(paper.data, place), pytest.raises(HoldfastError) as told:
            READERS[reader](paper)
        assert paper.data.name in str(told.value), place
        assert "\n" not in str(told.value)
    assert paper.names == paper.there()


@pytest.mark.parametrize("view", ["entries", "backlog"])
def test_an_entry_is_what_it_was_or_the_file_is_named(view: str, paper: Flipped) -> None:
    """Who rebuilds entries proves them by the chain: what no entry is made of may be anything."""
    whole, unnamed, told = paper.read(view), [], 0
    for place in places_of_data(paper.data):
        with paper.at(paper.data, place):
            try:
                assert whole == paper.read(view), place
            except HoldfastError as error:
                told += 1
                unnamed += [place] * (paper.data.name not in str(error))
    assert [] == unnamed
    assert told > len(places_of_data(paper.data)) // 2


@pytest.mark.parametrize("file", ["manifest", "data"])
def test_nothing_is_merged_with_it(file: str, paper: Flipped) -> None:
    """The archiver ends with the file's name, or leaves alone what is not whole."""
    damaged = paper.manifest if file == "manifest" else paper.data
    places = places_of_a_manifest(damaged) if file == "manifest" else places_of_data(damaged)
    for place in places:
        with paper.at(damaged, place):
            if file == "manifest":
                assert 0 == compact(PaperSpark(), paper.again(), MERGING)
                with pytest.raises(ArchiveError) as told:
                    archive_once(PaperSpark(), paper.log, paper.again())
            else:
                with pytest.raises(ArchiveError) as told:
                    compact(PaperSpark(), paper.again(), MERGING)
        assert damaged.name in str(told.value), place
    assert paper.names == paper.there()


def test_no_replay_or_report_leaves_out_what_a_damaged_manifest_had(paper: Flipped) -> None:
    """They go on behind what was never archived, and this was."""
    with paper.at(paper.manifest, 0):
        source = ArchivedSource.open(str(paper.root))
        with pytest.raises(ArchiveError, match=paper.manifest.name):
            source.stretches()


def test_a_queue_that_only_a_damaged_manifest_names_is_no_queue_without_a_name(
    tmp_path: Path,
) -> None:
    """A condition on the name would leave its messages out; damage that is shown shows them."""
    with WrittenLog(tmp_path / "log") as log:
        log.put(QueueRecord(1, "orders"))
        log.put(QueueRecord(2, "late"))
        log.put(message(2, 1))
    archived_log(LogDirectory(str(tmp_path / "log")), tmp_path / "archive", per_range=1)
    for manifest in (tmp_path / "archive" / "_holdfast").iterdir():
        content = manifest.read_text()
        if '"late"' in content:
            manifest.write_text(content.replace('"late"', '"mate"'))
            damaged = manifest.name

    def read(**options: str) -> list[Any]:
        given = {"path": str(tmp_path / "archive"), "start_index": "3", **options}
        reader = BatchReader(read_options(given | {"columns": "destination,sequence"}))
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        return [row for batch in batches for row in batch.to_pylist()]

    with pytest.raises(ArchiveError, match=damaged):
        read()
    (row,) = read(mode="report")
    assert (None, 1) == (row["destination"], row["sequence"])


def test_mended_it_is_as_it_was(paper: Flipped) -> None:
    """None of these tests has left a mark."""
    audited(paper)
    assert MESSAGES == len(paper.read("messages"))
