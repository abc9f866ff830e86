"""The options of archive, and of all that need Spark; what they do is tested on Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.cli.archive import progress_line
from holdfast.cli.archive_run import ArchiveRun
from holdfast.cli.main import main
from holdfast.errors import RecordNotFoundError
from holdfast.model.records import QueueRecord
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.holds import Hold
from holdfast.spark.pipelines.archive import ArchiveProgress, ArchiveSettings
from trials.pipeline.written_log import WrittenLog


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["archive", "--to", "x"], "--url, --path, --store: name one of them"),
        (["archive", "--to", "x", "--url", "h:1", "--path", "d"], "name one of them"),
        (["archive", "--to", "x", "--path", "d", "--hold", "n"], "only a broker holds its log"),
        (["archive", "--to", "x", "--store", "oracle://u:p@h/d"], "no database that is known"),
        (
            ["archive", "--to", "x", "--url", "h:1", "--hold", "n", "--hold-bytes", "?"],
            "--hold-bytes",
        ),
        (
            ["archive", "--to", "x", "--url", "h:1", "--hold", "n", "--hold-expiry", "2w"],
            "--hold-expiry: expected a time such as",
        ),
        (
            ["archive", "--to", "x", "--path", "d", "--keep-superseded", "nan"],
            "'--keep-superseded': Input should be",
        ),
        (["archive", "--to", "x", "--path", "d", "--interval", "inf"], "'--interval': Input"),
        (["archive", "--to", "ftp://x", "--path", "d"], "--to: ftp://x: paths begin with /"),
        (["archive", "--to", "x", "--path", "d", "--compression", "rar"], "--compression: 'rar'"),
        (["archive", "--to", "a-file/x", "--path", "d"], "a-file is a file, not a folder"),
        (["replay", "/queue/q", "--archive", "nowhere"], "--archive: there is no archive in"),
        (["replay", "/queue/q", "--path", "log", "--from", "soon"], "start_time: 'soon'"),
        (["replay", "/queue/q", "--path", "log", "--uri", "x"], "x: unknown scheme"),
        (["report", "--path", "log", "--to", "store"], "--to: store is a folder; name a file"),
        (["report", "--archive", "nowhere"], "--archive: there is no archive in"),
    ],
)
def test_a_mistake_is_told_before_spark_starts(
    arguments: list[str],
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """
    Exit code 2 and one sentence, without waiting for Java.
    """
    (tmp_path / "a-file").touch()
    (tmp_path / "store" / "_holdfast").mkdir(parents=True)
    with WrittenLog(tmp_path / "log") as written:
        written.put(QueueRecord(1, "orders"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert 2 == main_code(arguments)
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["archive", "--to", "x"],
        ["replay", "/queue/q"],
        ["report"],
    ],
)
def test_a_log_that_is_not_there_is_told_before_spark_starts(
    command: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """
    Neither in files nor behind an address where nobody listens.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("holdfast.spark.log.client.PATIENCE_SECONDS", 0.0)
    assert main_code([*command, "--path", "empty"]) == 1
    assert main_code([*command, "--url", "http://127.0.0.1:1"]) == 1
    told = capsys.readouterr().err
    assert "empty" in told
    assert "127.0.0.1:1" in told
    assert "Java" not in told


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


class PaperCluster(RemoteLog):
    """A cluster whose log begins with entry 20; it notes what it is asked."""

    asked: list[dict[str, Any]]

    def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, **_: Any
    ) -> dict[str, Any]:
        assert body is not None
        self.asked.append(body)
        if body["index"] < 20 and not body.get("or_first"):
            raise RecordNotFoundError("entries 11 to 19 are no longer in the log")
        return {"index": max(body["index"], 20)}


@pytest.mark.parametrize("accept_gap", [True, False])
def test_what_is_gone_already_does_not_keep_the_rest_from_being_held(
    accept_gap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Whether the archive goes on behind the gap is the archiver's to decide, and to say.
    """
    cluster = PaperCluster(("a:1",))
    object.__setattr__(cluster, "asked", [])
    settings = ArchiveSettings(accept_gap=accept_gap)
    store = Archive.open("nowhere")
    run = ArchiveRun(None, cluster, store, settings, Hold(cluster, "h"))
    catalogue = SimpleNamespace(last_index=10)
    monkeypatch.setattr(run, "manifests", SimpleNamespace(catalogue=lambda: catalogue))
    turns: list[int] = []
    monkeypatch.setattr(run, "_turn", lambda: turns.append(1))
    monkeypatch.setattr(run, "_sweep", lambda: None)
    run.loop(None)
    assert [1] == turns
    assert [(11, True)] == [(it["index"], it["or_first"]) for it in cluster.asked]


def test_a_store_may_be_named_by_a_variable_that_no_broker_has(
    run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is set for a broker is not read, archived or audited by a command that names nothing."""
    monkeypatch.setenv("HOLDFAST_STORE", f"sqlite:///{tmp_path}/of_a_broker.db")
    for command in (["archive", "--to", str(tmp_path / "x")], ["audit"]):
        monkeypatch.delenv("HOLDFAST_READ_STORE", raising=False)
        assert run(*command) == 2
        monkeypatch.setenv("HOLDFAST_READ_STORE", f"sqlite:///{tmp_path}/none.db")
        assert run(*command) == 1
        assert "none.db holds no log" in run.err
