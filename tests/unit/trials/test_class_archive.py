"""The archive of Java's classes: what Java is told is true, also where there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark
import pytest

from trials.pipeline import class_archive
from trials.pipeline.class_archive import archive_path, main, options_with_archive


@pytest.fixture(autouse=True)
def _build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive_path.cache_clear()
    monkeypatch.setattr(class_archive, "BUILD", tmp_path)


def test_where_there_is_none_java_is_told_of_none() -> None:
    """Java is told of an archive only where there is one."""
    assert options_with_archive() == ""
    archive_path().touch()
    assert f"-XX:SharedArchiveFile={archive_path()}" in options_with_archive()


def test_another_pyspark_has_another_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits another pyspark is never given to this one."""
    before = archive_path()
    archive_path.cache_clear()
    monkeypatch.setattr(pyspark, "__version__", "5.0.0")
    assert archive_path() != before


def test_tests_go_on_without_one_that_cannot_be_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said why there is none, and nothing else ends."""

    def fail(_options: str) -> Path:
        raise subprocess.CalledProcessError(1, "python", stderr=b"no Java")

    monkeypatch.setattr(class_archive, "make", fail)
    main()
    assert "no Java" in capsys.readouterr().out
