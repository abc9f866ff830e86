"""The options of audit; what it does is tested on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["audit"], "name what is to be audited"),
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
