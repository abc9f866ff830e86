"""What every command on Spark shares."""

from __future__ import annotations

import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest

from holdfast.cli.spark_options import PACKAGES, conf_of, remote_log, told_plainly
from holdfast.errors import ArchiveError, ConfigError
from holdfast.spark.session import COMMAND_SETTINGS, settings_for


def test_settings_of_spark_are_read() -> None:
    """
    A value may hold an equals sign; a pair without one is a mistake.
    """
    assert {"a.b": "c=d", "e": ""} == conf_of(["a.b=c=d", "e="])
    assert {} == conf_of(None)
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        conf_of(["x"])


def test_the_commands_own_master_tries_a_task_again() -> None:
    """Whoever names a master, anywhere, has that one."""
    settings = partial(settings_for, "app", is_submitted=False, defaults=COMMAND_SETTINGS)
    assert settings(None, {}, {})["spark.master"] == "local[*,4]"
    assert settings("local[2]", {}, {})["spark.master"] == "local[2]"
    assert settings(None, {"spark.master": "local[3]"}, {})["spark.master"] == "local[3]"
    assert settings(None, {}, {"spark.master": "yarn"})["spark.master"] == "yarn"


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
