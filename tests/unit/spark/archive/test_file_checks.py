"""Files are proven whole, several at a time; the first that is not what it was ends that."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event

import pytest

from holdfast.errors import CorruptArchiveError, UnreadableArchiveError
from holdfast.spark.archive import file_checks
from holdfast.spark.archive.file_checks import FILES_AT_ONCE, check_files
from holdfast.spark.archive.file_digest import DigestKind
from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.store import Archive

COUNT = 10 * FILES_AT_ONCE


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive.open(str(tmp_path))


@pytest.fixture
def files(tmp_path: Path) -> list[ArchivedFile]:
    """Files of some bytes each: what is in them is nobody's business here."""
    found = []
    for index in range(1, COUNT + 1):
        content = b"%d" % index * 100
        (tmp_path / f"{index}.parquet").write_bytes(content)
        found.append(
            ArchivedFile(
                path=f"{index}.parquet",
                day="2020-01-01",
                first_index=index,
                last_index=index,
                rows=1,
                messages=1,
                bytes=len(content),
                digest=Archive.open(str(tmp_path)).digest(f"{index}.parquet")[1],
                chain_before="",
                chain_after="",
            )
        )
    return found


def test_each_file_is_read_several_at_once(
    archive: Archive, files: list[ArchivedFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many wait for their store together: none would go on if they came one by one."""
    together, read = Barrier(FILES_AT_ONCE, timeout=60), []
    plain = Archive.digest

    def waiting(store: Archive, path: str, kind: DigestKind) -> tuple[int, str]:
        together.wait()
        read.append(path)
        return plain(store, path, kind)

    monkeypatch.setattr(Archive, "digest", waiting)
    check_files(archive, files)
    assert sorted(read) == sorted(file.path for file in files)


def test_a_damaged_file_is_named_and_few_are_read_behind_it(
    archive: Archive,
    files: list[ArchivedFile],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An archive of years is not read to its end to say that its first file is damaged."""
    (tmp_path / files[0].path).write_bytes(b"2" * 100)
    is_told = Event()
    read = []
    plain = Archive.digest

    class Threads(ThreadPoolExecutor):
        def __exit__(self, *error: object) -> None:
            is_told.set()
            super().__exit__(*error)

    def slow(store: Archive, path: str, kind: DigestKind) -> tuple[int, str]:
        if path != files[0].path:
            is_told.wait(timeout=60)
        read.append(path)
        return plain(store, path, kind)

    monkeypatch.setattr(file_checks, "ThreadPoolExecutor", Threads)
    monkeypatch.setattr(Archive, "digest", slow)
    with pytest.raises(
        CorruptArchiveError, match=r"^1\.parquet: the file is not what was archived"
    ):
        check_files(archive, files)
    assert len(set(read)) <= FILES_AT_ONCE + 1


def test_what_is_gone_or_not_given_is_told_as_such(
    archive: Archive, files: list[ArchivedFile], tmp_path: Path
) -> None:
    """A store that fails is not taken for damage."""
    (tmp_path / files[4].path).unlink()
    with pytest.raises(CorruptArchiveError, match=r"^5\.parquet: the file is missing") as caught:
        check_files(archive, files)
    assert not isinstance(caught.value, UnreadableArchiveError)
    (tmp_path / files[4].path).mkdir()
    with pytest.raises(UnreadableArchiveError, match=r"^5\.parquet: cannot be read"):
        check_files(archive, files)
