"""
What is checked before Spark is started; starting it is for tests/spark.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from holdfast.spark.session import check_java, defaults_in_file, settings_for, spark_session


def test_missing_java_is_told_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one sentence, before Spark writes pages of its own."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ConfigError, match="apt-get install openjdk-17-jre-headless"):
        spark_session("test")


def test_java_home_is_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark looks there first."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()


def settings(master: str | None = None, *, is_submitted: bool = False, **given: str):
    named = {key.replace("_", "."): value for key, value in given.items()}
    return settings_for("app", master, {}, named, is_submitted=is_submitted)


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:443"])
def test_executors_elsewhere_connect_to_an_address_that_spark_finds(master: str) -> None:
    """
    To "localhost" nobody connects from another machine: only where all is on this one it is set.
    """
    assert "spark.driver.host" not in settings(master)
    assert "spark.driver.host" not in settings(spark_master=master)
    for local in (None, "local[2]", "local-cluster[1,1,1024]"):
        assert settings(local)["spark.driver.host"] == "localhost"


def test_what_spark_submit_says_stays() -> None:
    """
    A program that names a master for trying it out runs where it is submitted to.
    """
    given = {"spark_master": "spark://host:7077", "spark_driver_memory": "8g"}
    for named in (None, "local[*]"):
        found = settings(named, is_submitted=True, **given)
        assert found["spark.master"] == "spark://host:7077"
        assert "spark.driver.memory" not in found
        assert "spark.driver.host" not in found
    assert settings("local[2]", **given)["spark.master"] == "local[2]"
    assert settings(None, is_submitted=True)["spark.master"] == "local[*]"


def test_what_the_program_asks_for_wins_over_ours_and_a_files() -> None:
    """
    In this order: the program, a file, Holdfast.
    """
    conf = {"spark.driver.memory": "4g", "spark.driver.host": "here"}
    given = {"spark.driver.memory": "8g", "spark.ui.enabled": "true"}
    found = settings_for("app", "local[2]", conf, given, is_submitted=False)
    assert found["spark.driver.memory"] == "4g"
    assert found["spark.driver.host"] == "here"
    assert "spark.ui.enabled" not in found


def test_what_a_command_adds_is_the_users_to_change() -> None:
    """As all that Holdfast sets."""
    ours = {"spark.driver.defaultJavaOptions": "-Dours=1"}

    def options(conf: dict[str, str], given: dict[str, str]) -> str | None:
        found = settings_for("app", None, conf, given, is_submitted=False, defaults=ours)
        return found.get("spark.driver.defaultJavaOptions")

    assert options({}, {}) == "-Dours=1"
    assert options({"spark.driver.defaultJavaOptions": "-Dmine=1"}, {}) == "-Dmine=1"
    assert options({}, {"spark.driver.defaultJavaOptions": "-Dfile=1"}) is None


@pytest.mark.parametrize(("master", "is_ours"), [("local[2]", True), ("spark://host:7077", False)])
def test_workers_on_this_machine_are_forked_from_our_daemon(
    monkeypatch: pytest.MonkeyPatch, master: str, is_ours: bool
) -> None:
    """Elsewhere this package may come with the job, too late for the daemon."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    found = settings(master).get("spark.python.daemon.module")
    assert found == ("holdfast.spark.worker_daemon" if is_ours else None)


@pytest.mark.parametrize(
    ("given", "python"),
    [
        ({"spark_pyspark_python": "/other/python"}, None),
        ({"spark_submit_pyFiles": "holdfast.zip"}, None),
        ({}, "/other/python"),
    ],
)
def test_workers_of_another_python_are_left_to_sparks_daemon(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], python: str | None
) -> None:
    """There may be no Holdfast before the job brings it, or none at all."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if python is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", python)
    assert "spark.python.daemon.module" not in settings("local[2]", **given)


def test_defaults_are_read_as_spark_reads_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    From SPARK_CONF_DIR, or conf in SPARK_HOME; without a file there are none.
    """
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert defaults_in_file() == {}
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "# a comment\n\nspark.master  spark://host:7077\nspark.a=b c\n  spark.b : d\n"
    )
    expected = {"spark.master": "spark://host:7077", "spark.a": "b c", "spark.b": "d"}
    assert defaults_in_file() == expected
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "none"))
    assert defaults_in_file() == {}
