"""What every command on Spark shares."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from holdfast.cli.spark_options import PACKAGES, conf_of, own_error, remote_log, told_plainly
from holdfast.errors import ArchiveError, ConfigError, LinkError, StoreError

TRACE = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "x.py", line 1, in y
holdfast.errors.CorruptEntryError: the body checksum is wrong at segment 1 byte 4,096 (entry 7)

\tat org.apache.spark.api.python (Worker.scala:1)
"""


def test_settings_of_spark_are_read() -> None:
    """
    A value may hold an equals sign; a pair without one is a mistake.
    """
    assert {"a.b": "c=d", "e": ""} == conf_of(["a.b=c=d", "e="])
    assert {} == conf_of(None)
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        conf_of(["x"])


def test_a_workers_fault_is_one_sentence() -> None:
    """
    Of two tracebacks of other people's code the sentence that was meant is left.
    """
    assert str(own_error(TRACE)).startswith("the body checksum is wrong at segment 1")
    with pytest.raises(StoreError, match=r"^the body checksum"), told_plainly():
        raise RuntimeError(TRACE)


def test_what_can_be_waited_for_is_told_from_the_rest() -> None:
    """
    A link that failed in a task, and an error of a store there, are what they are here.
    """
    lost = TRACE.replace("CorruptEntryError", "FailoverExhaustedError")
    with pytest.raises(LinkError, match=r"^the body"), told_plainly():
        raise RuntimeError(lost)
    with pytest.raises(OSError, match=r"^AWS Error SLOW_DOWN$"), told_plainly():
        raise RuntimeError("Traceback\nOSError: AWS Error SLOW_DOWN\n\tat org.apache")
    unread = TRACE.replace("CorruptEntryError", "UnreadableArchiveError")
    with pytest.raises(OSError, match=r"^the body"), told_plainly():
        raise RuntimeError(unread)
    assert own_error("Traceback\nKeyError: 'x'\n") is None


def test_an_executor_that_dies_again_and_again_is_one_sentence() -> None:
    """
    Spark's own words for it, as of a standalone cluster; who goes on for ever tries it again.
    """
    words = (
        "An error occurred while calling o69.collect.\n: org.apache.spark.SparkException: Job"
        " aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure:"
        " Lost task 0.3 in stage 3.0 (TID 9) (10.0.0.7 executor 5): ExecutorLostFailure (executor"
        " 5 exited caused by one of the running tasks) Reason: Command exited with code 137\n"
        "Driver stacktrace:\n\tat org.apache.spark.scheduler.DAGScheduler\n"
    )
    with pytest.raises(LinkError, match=r"^Spark's executor 5 on 10.0.0.7 died .* code 137\)"):
        with told_plainly():
            raise RuntimeError(words)
    bare = words.replace(" Reason: Command exited with code 137", "")
    assert "tried 4 times" in str(own_error(bare))


def test_other_faults_stay_as_they_are() -> None:
    """
    A fault of ours needs no translation, and one of Spark's is not hidden.
    """
    with pytest.raises(ArchiveError), told_plainly():
        raise ArchiveError("x")
    with pytest.raises(ZeroDivisionError), told_plainly():
        raise ZeroDivisionError


def test_the_cluster_is_named_by_its_admin_ports(tmp_path: Path) -> None:
    """
    Several addresses, and a token made from the secret, which itself does not travel.
    """
    secret = tmp_path / "secret"
    secret.write_text("s3cret")

    log = remote_log("http://a:1,b:2", secret)

    assert ("a:1", "b:2") == log.addresses
    assert "s3cret" not in log.token
    with pytest.raises(ConfigError):
        remote_log("nonsense", None)


@pytest.mark.parametrize(
    "command",
    [
        ["archive", "--to", "x", "--url", "http://127.0.0.1:1"],
        ["audit", "--url", "http://127.0.0.1:1"],
        ["restore", "--archive", "x", "--to", "y"],
        ["replay", "/queue/q", "--url", "http://127.0.0.1:1"],
        ["report", "--url", "http://127.0.0.1:1"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_without_its_extra_names_it(
    run, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """
    In the plain install these commands are listed and cannot run: one sentence says what to
    install, before anybody looks for Java, and no traceback.
    """
    for name in PACKAGES:
        monkeypatch.setitem(sys.modules, name, None)
    assert run(*command) == 2
    assert run.err == (
        f"holdfast: holdfast {command[0]} runs on Spark, which is not installed (numpy, pandas,"
        " pyarrow, pyspark); install it with: pip install 'holdfast[spark]'\n"
    )


def test_the_extra_is_what_the_commands_look_for() -> None:
    """A package that is added to the extra is one that may be missing."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    extra = project["project"]["optional-dependencies"]["spark"]
    assert PACKAGES == tuple(each.partition(">")[0] for each in extra)
