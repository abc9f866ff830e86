"""
Which kind of place a log is read from, by what the options name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import ArchiveError
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.store_log import store_log
from holdfast.spark.source.open_source import open_source, parts_of
from holdfast.spark.source.options import read_options
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import orders_log


def test_a_url_is_a_cluster() -> None:
    """Nobody is asked before something is read."""
    assert isinstance(open_source(read_options({"url": "http://a:1,http://b:2"})), RemoteLog)


def test_a_path_is_a_directory(tmp_path: Path) -> None:
    """Whether there is a log in it shows when it is read."""
    assert open_source(read_options({"path": str(tmp_path)})) == LogDirectory(str(tmp_path))


def test_addresses_are_a_store() -> None:
    """Of one database, or of several that hold the same."""
    found = open_source(read_options({"store": "sqlite:////a sqlite:////b"}))
    assert found == store_log(["sqlite:////a", "sqlite:////b"])


def test_manifests_make_an_archive(tmp_path: Path) -> None:
    """A folder for manifests without one is an archive that is not there."""
    (tmp_path / "_holdfast").mkdir()
    with pytest.raises(ArchiveError, match="no archive"):
        open_source(read_options({"path": str(tmp_path)}))


def test_a_task_is_given_the_files_of_an_archive_and_else_nothing(tmp_path: Path) -> None:
    """What is no archive it opens by itself."""
    log = orders_log(tmp_path / "log", b"1", b"2", b"3")
    archived_log(log, tmp_path / "archive", per_range=2)
    archive = open_source(read_options({"path": str(tmp_path / "archive")}))
    ranges = [(1, 2), (3, 4)]
    assert [(each, None) for each in ranges] == list(parts_of(log, ranges))
    parts = [part for _, part in parts_of(archive, ranges)]
    assert [(1,), (3,)] == [tuple(it.first_index for it in part.files) for part in parts if part]
