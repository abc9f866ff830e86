"""The options of restore; what it does is tested on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.model.format_level import NEWEST_LEVEL


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["restore", "--archive", "x"], "or ask for a --dry-run"),
        (["restore", "--archive", "x", "--dry-run", "--as-of-time", "soon"], "--as-of-time"),
        (["restore", "--archive", "x", "--to", "y", "--to-store", "z"], "name one of them"),
        (
            ["restore", "--archive", "store", "--to-store", "sqlite:////a sqlite:////b"],
            "several databases are filled by the brokers themselves",
        ),
        (["restore", "--archive", "store", "--to-store", "z"], "name it with --to instead"),
        (["restore", "--archive", "store", "--to-store", "db2://u:p@h/d"], "no database that is"),
        (["restore", "--archive", "nowhere", "--to", "y"], "--archive: there is no archive in"),
        (["restore", "--archive", "store", "--to", "store"], "--to: store is there already"),
    ],
)
def test_a_mistake_is_told_before_spark_starts(
    run, arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    Exit code 2 and one sentence, without waiting for Java.
    """
    (tmp_path / "store" / "_holdfast").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert run(*arguments) == 2
    assert told in run.err


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("1", f"a restored log begins at level {NEWEST_LEVEL}, and a node that is held back at 1"),
        ("99", f"'99' is no level of this version; it has 1 to {NEWEST_LEVEL}"),
        ("", "--to: store is there already"),
        (str(NEWEST_LEVEL), "--to: store is there already"),
    ],
)
def test_a_log_that_its_node_would_refuse_is_not_written(
    run, level: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    Who holds nodes back by the environment learns it before hours of work, not from the node.
    """
    (tmp_path / "store" / "_holdfast").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("HOLDFAST_FORMAT_LEVEL_MAX", level)
    assert run("restore", "--archive", "store", "--to", "store") == 2
    assert told in run.err
