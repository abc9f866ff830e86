"""The options of archive, audit and restore; what they do is tested on Spark."""

from __future__ import annotations

import pytest

from holdfast.cli.main import main
from holdfast.cli.pipelines import progress_line
from holdfast.spark.pipelines.archive import ArchiveProgress


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["archive", "--to", "x"], "--url, --path: name one of them"),
        (["archive", "--to", "x", "--url", "h:1", "--path", "d"], "name one of them"),
        (["archive", "--to", "x", "--path", "d", "--hold", "n"], "files cannot be held"),
        (
            ["archive", "--to", "x", "--url", "h:1", "--hold", "n", "--hold-bytes", "?"],
            "--hold-bytes",
        ),
        (["audit"], "name what is to be audited"),
        (["restore", "--archive", "x"], "or ask for a --dry-run"),
        (["restore", "--archive", "x", "--dry-run", "--as-of-time", "soon"], "--as-of-time"),
    ],
)
def test_a_mistake_is_told_before_spark_starts(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Exit code 2 and one sentence, without waiting for Java.
    """
    assert 2 == main_code(arguments)
    assert told in capsys.readouterr().err


def main_code(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def test_the_progress_line_says_how_far_behind_it_is() -> None:
    """
    Entries, messages, bytes, and the lag in seconds and records.
    """
    progress = ArchiveProgress(
        entries=2000, messages=400_000, log_bytes=3 << 20, last_index=2000, lag_records=17
    )
    progress.lag_seconds = 1.25

    assert (
        "archived 2,000 entries, 400,000 messages, 3.0 MiB; through entry 2,000;"
        " behind by 1.2 s, 17 records" == progress_line(progress)
    )
