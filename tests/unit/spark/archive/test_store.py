"""Data files and manifests on a disk, without Spark."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.errors import CorruptArchiveError, UnreadableArchiveError
from holdfast.model.records import QueueRecord
from holdfast.spark.archive import store
from holdfast.spark.archive.fetched_place import FetchedPlace
from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.store import Archive
from trials.pipeline.written_log import block_of, message

BLOCK = block_of([QueueRecord(1, "q")], [message(1, 1, b"a"), message(1, 2, b"b")])
START = bytes(16).hex()


def written(archive: Archive) -> ArchivedFile:
    writer = archive.writer(START, {})
    writer.add(BLOCK)
    (file,) = writer.finish()
    return file


def test_a_file_gives_its_entries_again(tmp_path: Path) -> None:
    """
    What is written is proven and read back, in whole and in part.
    """
    archive = Archive.open(str(tmp_path))

    file = written(archive)

    assert [BLOCK.raw(0), BLOCK.raw(1)] == [entry.raw for entry in archive.entries(file)]
    assert [2] == [entry.index for entry in archive.entries(file, 2)]
    assert [1] == [entry.index for entry in archive.entries(file, 0, 1)]
    assert (1, 2, 3, 2) == (file.first_index, file.last_index, file.rows, file.messages)
    assert "day=1970-01-01" in file.path
    archive.check(file)
    archive.check_size(file)


@pytest.mark.parametrize("spoil", ["cut", "flip", "gone", "other"])
def test_a_file_that_is_not_as_written_is_told(tmp_path: Path, spoil: str) -> None:
    """
    Missing, cut, rotten or replaced: the error names the file.
    """
    archive = Archive.open(str(tmp_path))
    file = written(archive)
    path = tmp_path / file.path
    data = path.read_bytes()
    if spoil == "gone":
        path.unlink()
    elif spoil == "other":
        pq.write_table(pq.read_table(path).slice(0, 1), path)
    else:
        path.write_bytes(data[:-9] if spoil == "cut" else data[:40] + b"\xff" + data[41:])

    with pytest.raises(CorruptArchiveError) as caught:
        archive.check(file)

    assert file.path == caught.value.path
    if spoil in {"cut", "gone", "other"}:
        with pytest.raises(CorruptArchiveError):
            archive.check_size(file)
        with pytest.raises(CorruptArchiveError):
            list(archive.entries(file))


def test_no_flipped_bit_makes_other_entries_or_an_error_of_others(tmp_path: Path) -> None:
    """
    Parquet believes most of its bytes: text that is none, nulls, columns of another name.
    """
    archive = Archive.open(str(tmp_path))
    file = written(archive)
    path = tmp_path / file.path
    whole = path.read_bytes()
    for place in range(0, len(whole), 41):
        data = bytearray(whole)
        data[place] ^= 0x80
        path.write_bytes(data)
        with suppress(CorruptArchiveError):
            assert [BLOCK.raw(0), BLOCK.raw(1)] == [it.raw for it in archive.entries(file)]
        with pytest.raises(CorruptArchiveError):
            archive.check(file)


@pytest.mark.parametrize("reads", [1, 2])
def test_what_a_store_does_not_give_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    """
    Whether it answers when it is asked again or not: the file was right.
    """
    archive = Archive.open(str(tmp_path))
    file = written(archive)
    open_input = Place.open_input
    left = [OSError("AWS Error SLOW_DOWN")] * reads

    def slow(self: Place, path: str):
        if left:
            raise left.pop()
        return open_input(self, path)

    monkeypatch.setattr(Place, "open_input", slow)
    with pytest.raises(UnreadableArchiveError, match="SLOW_DOWN"):
        list(archive.entries(file))
    for look in (archive.check, archive.check_size):
        left += [OSError("AWS Error SLOW_DOWN")]
        with pytest.raises(UnreadableArchiveError, match="SLOW_DOWN"):
            look(file)


@pytest.mark.parametrize("is_small", [True, False])
@pytest.mark.parametrize("kind", [Place, FetchedPlace])
def test_what_came_otherwise_once_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Place], is_small: bool
) -> None:
    """
    A store that errs once is asked again, and is no reason to end an archiver or to restore a file.
    """
    archive = Archive(kind(str(tmp_path)))
    file = written(archive)
    data = (tmp_path / file.path).read_bytes()
    open_input = Place.open_input
    spoilt: list[bytes] = []
    monkeypatch.setattr(
        Place,
        "open_input",
        lambda self, path: pa.BufferReader(spoilt.pop()) if spoilt else open_input(self, path),
    )
    monkeypatch.setattr(store, "WHOLE_BYTES_MAX", 1 << 20 if is_small else 0)

    for look in (Archive.check, lambda it, of: list(it.proven_batches(of, ["index"], 0, 9))):
        spoilt.append(data[:40] + bytes([data[40] ^ 1]) + data[41:])
        with pytest.raises(UnreadableArchiveError, match="read again it was right"):
            look(Archive(kind(str(tmp_path))), file)
        assert not spoilt


def test_what_comes_otherwise_each_time_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Of a file that is damaged the same bytes come again; of one that is not a store may err twice.
    """
    archive = Archive.open(str(tmp_path))
    file = written(archive)
    data = (tmp_path / file.path).read_bytes()
    places = count(40)

    def spoilt(_: Place, __: str) -> pa.BufferReader:
        place = next(places)
        return pa.BufferReader(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])

    monkeypatch.setattr(Place, "open_input", spoilt)
    for look in (archive.check, lambda it: list(archive.batches(it))):
        with pytest.raises(UnreadableArchiveError, match="otherwise each time"):
            look(file)

    monkeypatch.setattr(Place, "open_input", lambda *_: pa.BufferReader(data[:-1] + b"2"))
    for look in (archive.check, lambda it: list(archive.batches(it))):
        with pytest.raises(CorruptArchiveError) as caught:
            look(file)
        assert CorruptArchiveError is caught.type
