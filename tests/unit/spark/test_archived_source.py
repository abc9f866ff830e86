"""
An archive as a source: without Spark.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import ArchiveError
from holdfast.spark.archived_source import ArchivedSource


def test_a_folder_without_manifests_is_no_archive(tmp_path: Path) -> None:
    """
    The error says what is missing.
    """
    with pytest.raises(ArchiveError, match="no archive"):
        ArchivedSource.open(str(tmp_path))
