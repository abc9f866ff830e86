"""The options of audit; what it does is tested on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from trials.pipeline.stored_log import fill, written
from trials.pipeline.written_log import message


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["audit"], "name what is to be audited"),
        (["audit", "--store", "oracle://u:p@h/d"], "no database that is known"),
        (["audit", "--store", "d"], "is a directory of a node's own"),
        (["audit", "--archive", "nowhere"], "--archive: there is no archive in"),
        (["audit", "--path", "d", "--report", "no/file.json"], "--report: the folder no is not"),
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


def test_databases_are_looked_at_before_spark_starts(
    run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One of several that holds no log, or is there twice: there is nothing to compare."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    url = f"sqlite:///{tmp_path}/a.db"
    fill([url], written(tmp_path / "log", message(1, 1)))
    assert run("audit", "--store", url, "--store", f"sqlite:///{tmp_path}/b.db") == 1
    assert "b.db holds no log" in run.err
    assert run("audit", "--store", url, "--store", f"sqlite:///{tmp_path}/./a.db") == 2
    assert "are one database" in run.err
