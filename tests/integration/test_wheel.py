"""
What a user installs: the wheel holds the product and no test machinery, and runs without the rest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from holdfast.testing.local_cluster import LocalNode

ROOT = Path(__file__).parents[2]
BUILT_FROM = ("src/holdfast", "src/pyspark_holdfast", "pyproject.toml", "README.md", "LICENSE")

FOR_TESTS_OF_USERS = ["__init__", "contracts", "every_record", "fixtures", "free_ports"]
FOR_TESTS_OF_USERS += ["guardian", "local_cluster", "running", "shared_brokers"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: what an earlier build left in the project would get into it."""
    source = tmp_path_factory.mktemp("source")
    for name in BUILT_FROM:
        place, copy = ROOT / name, source / name
        if place.is_dir():
            shutil.copytree(place, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(place, copy)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", "dist"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "."]
    subprocess.run(command, cwd=source, check=True, timeout=100)
    (built,) = (source / "dist").iterdir()
    return built


def test_it_holds_the_product_and_nothing_of_its_proof(wheel: Path) -> None:
    """Each module of the product, and of `holdfast.testing` what a user's own tests want."""
    with zipfile.ZipFile(wheel) as archive:
        names = [it for it in archive.namelist() if ".dist-info/" not in it]

    modules = {it.relative_to(ROOT / "src").as_posix() for it in (ROOT / "src").rglob("*.py")}
    assert set(names) == modules | {"holdfast/py.typed"}
    assert {it.split("/")[0] for it in names} == {"holdfast", "pyspark_holdfast"}
    assert {it for it in names if it.startswith("holdfast/testing/")} == {
        f"holdfast/testing/{it}.py" for it in FOR_TESTS_OF_USERS
    }


@pytest.mark.processes
def test_it_serves_sends_and_receives(wheel: Path, tmp_path: Path) -> None:
    """From a folder of its own, in which nothing of the project lies."""
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    environment = os.environ | {"PYTHONPATH": str(installed)}

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = run("-c", "import holdfast; print(holdfast.__file__)").strip()
    assert found == str(installed / "holdfast" / "__init__.py")
    node = LocalNode("a", tmp_path)
    node.environment = {"PYTHONPATH": str(installed)}
    node.start()
    try:
        node.wait_until(lambda status: status["serving"], "serving")
        uri = f"stomp://127.0.0.1:{node.stomp_port}"
        run("-m", "holdfast", "send", "--uri", uri, "/queue/wheel", "round")
        told = run("-m", "holdfast", "receive", "--uri", uri, "--count", "1", "/queue/wheel")
        assert told.strip() == "round"
        assert node.stop() == 0
    finally:
        node.kill()
