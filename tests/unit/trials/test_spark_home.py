"""The home of Spark: what its Python processes read is the installed package, as files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from trials.pipeline import spark_home as module
from trials.pipeline.spark_home import ARCHIVES, spark_home


@pytest.fixture(autouse=True)
def _build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUILD", tmp_path / "build")


def test_all_that_is_installed_is_there() -> None:
    """Spark finds its programs and its classes by it."""
    installed = Path(pyspark.__file__).parent
    home = spark_home()

    assert {each.name for each in home.iterdir()} == {each.name for each in installed.iterdir()}
    assert (home / "jars").samefile(installed / "jars")
    names = {each.name for each in (home / ARCHIVES).iterdir()}
    assert names == {each.name for each in (installed / ARCHIVES).glob("*.zip")}


def test_python_reads_the_installed_package_in_place_of_each_archive() -> None:
    """By the path that Spark gives it, and with what Python has compiled of it."""
    home = spark_home()
    path = [str(each) for each in sorted((home / ARCHIVES).iterdir())]
    code = "import sys; sys.path[:0] = sys.argv[1:]; import py4j, pyspark.version as v; "
    code += "print(py4j.__file__, v.__file__, v.__cached__, sep='\\n')"
    command = [sys.executable, "-S", "-c", code, *path]
    gateway, version, compiled = subprocess.check_output(command, text=True).splitlines()

    assert Path(gateway).is_relative_to(home)
    assert Path(version).is_relative_to(home)
    assert Path(version).samefile(Path(pyspark.__file__).parent / "version.py")
    assert Path(compiled).parent.samefile(Path(pyspark.__file__).parent / "__pycache__")


def test_a_home_is_made_once() -> None:
    """Who comes second takes it as it is, and no draft is left."""
    home = spark_home()
    made = home.stat().st_ino

    assert spark_home().stat().st_ino == made
    assert list(home.parent.iterdir()) == [home]


def test_a_home_that_cannot_be_made_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no half of it stands in its place."""

    def fail(_self: Path, _target: Path) -> Path:
        raise OSError("read-only")

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(FileNotFoundError, match="spark-home"):
        spark_home()
    assert list((module.BUILD).iterdir()) == []
