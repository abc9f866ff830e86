"""
Which kind of place a log is read from, by what the options name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import ArchiveError
from holdfast.spark.log_client import RemoteLog
from holdfast.spark.log_directory import LogDirectory
from holdfast.spark.open_source import open_source
from holdfast.spark.options import read_options


def test_a_url_is_a_cluster() -> None:
    """Nobody is asked before something is read."""
    assert isinstance(open_source(read_options({"url": "http://a:1,http://b:2"})), RemoteLog)


def test_a_path_is_a_directory(tmp_path: Path) -> None:
    """Whether there is a log in it shows when it is read."""
    assert open_source(read_options({"path": str(tmp_path)})) == LogDirectory(str(tmp_path))


def test_manifests_make_an_archive(tmp_path: Path) -> None:
    """A folder for manifests without one is an archive that is not there."""
    (tmp_path / "_holdfast").mkdir()
    with pytest.raises(ArchiveError, match="no archive"):
        open_source(read_options({"path": str(tmp_path)}))
