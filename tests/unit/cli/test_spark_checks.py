"""
What a look tells before Spark starts; that the commands look is tested with each of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.spark_checks import (
    check_archive_from,
    check_archive_to,
    check_file_to,
    check_new_directory,
    check_source,
)
from holdfast.errors import ConfigError, StoreError
from holdfast.model.records import QueueRecord
from trials.pipeline.written_log import WrittenLog


def test_an_archive_may_be_begun_where_nothing_is(tmp_path: Path) -> None:
    """
    Folders are made as needed; of an object store nothing is known before Spark tells its settings.
    """
    check_archive_to(str(tmp_path / "not" / "there" / "yet"), "zstd")
    check_archive_to("s3a://bucket/path", "snappy")
    check_archive_from("s3a://bucket/path")
    assert check_source({"path": "s3a://bucket/path"}) is None


def test_all_mistakes_of_a_target_are_told_together(tmp_path: Path) -> None:
    """
    Each in a sentence with the option that it is about.
    """
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as caught:
        check_archive_to(str(tmp_path / "file" / "x"), "rar")
    assert [each.partition(":")[0] for each in caught.value.problems] == ["--compression", "--to"]


def test_a_log_that_is_there_tells_how_far_it_goes(tmp_path: Path) -> None:
    """
    One that is not is the error that its source has for it.
    """
    with WrittenLog(tmp_path / "log") as written:
        written.put(QueueRecord(1, "orders"))
    position = check_source({"path": str(tmp_path / "log")})
    assert position is not None
    assert position.last_index == 1
    with pytest.raises(StoreError):
        check_source({"path": str(tmp_path / "none")})


def test_files_and_directories_that_can_be_made_are_let_through(tmp_path: Path) -> None:
    """
    An empty directory is as good as none; a file may be written over.
    """
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    check_file_to(tmp_path / "file", "--to")
    check_file_to(None, "--to")
    check_new_directory(tmp_path / "empty")
    check_new_directory(tmp_path / "new")
    check_new_directory(None)
    with pytest.raises(ConfigError, match="is there already"):
        check_new_directory(tmp_path)
