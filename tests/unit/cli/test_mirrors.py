"""`holdfast mirror`: asked of a running node, or looked up in the directories of a stopped one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli import mirrors
from holdfast.config.node import NodeConfig
from holdfast.environment.disk import RealDisk
from holdfast.server.mirrors import open_mirrors


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """The directories of a stopped node."""
    one, two = tmp_path / "one", tmp_path / "two"
    caretaker = open_mirrors(NodeConfig(data=one, mirrors=(two,)), RealDisk())
    assert caretaker is not None
    caretaker.disk.lock(one / "lock").release()
    return one, two


def test_status_of_both_tells_that_they_start(pair: tuple[Path, Path], run: Callable[..., int]):
    """For programs: each with its state, and whether a node starts with them."""
    one, two = map(str, pair)
    assert run("mirror", "status", "--data", one, "--data", two, "--json") == 0
    told = json.loads(run.out)
    assert told["starts"] is True
    assert {it["directory"]: it["state"] for it in told["mirrors"]} == {
        one: "active",
        two: "active",
    }


def test_status_of_one_tells_what_is_missing(pair: tuple[Path, Path], run: Callable[..., int]):
    """It fails, and names the other one."""
    one, two = map(str, pair)
    assert run("mirror", "status", "--data", one, "--json") == 1
    told = json.loads(run.out)
    assert told["starts"] is False
    assert f"{two} cannot be used" in told["reason"]


def test_accepted_one_starts_alone(pair: tuple[Path, Path], run: Callable[..., int]):
    """Once the operator says so; the second time there is nothing to accept."""
    one = str(pair[0])
    assert run("mirror", "accept", "--data", one, "--yes") == 0
    assert f"accepted: start the node with {one}" in run.out
    assert run("mirror", "accept", "--data", one, "--yes") == 0
    assert "nothing is missing" in run.out
    assert open_mirrors(NodeConfig(data=pair[0]), RealDisk()) is not None


def test_script_must_say_that_the_others_are_gone(pair: tuple[Path, Path], run: Callable[..., int]):
    """Nobody can be asked, and what is accepted cannot be taken back."""
    one = str(pair[0])
    assert run("mirror", "accept", "--data", one) == 1
    assert run("mirror", "status", "--data", one, "--json") == 1
    assert json.loads(run.out)["starts"] is False


@pytest.mark.parametrize("kind", ["empty", "none", "file"])
def test_directory_that_is_named_has_to_be_there(
    pair: tuple[Path, Path], run: Callable[..., int], kind: str
):
    """Its disk is not mounted just then: it may be the one that has more."""
    one, two = map(str, pair)
    pair[1].rename(pair[1].with_name("away"))
    if kind == "empty":
        pair[1].mkdir()
    elif kind == "file":
        pair[1].touch()
    given = ["--data", one, "--data", two, "--yes"]
    assert run("mirror", "accept", *given) == 1
    assert f"say so by --without {two}" in run.err
    assert pair[1].exists() == (kind != "none")
    assert run("mirror", "status", "--data", one) == 1  # Nothing was changed.
    assert run("mirror", "accept", *given, "--without", two) == 0
    assert f"accepted: start the node with {one}" in run.out


def test_plain_directory_has_nothing_to_accept(tmp_path: Path, run: Callable[..., int]):
    """It is no mirror, and stays as it was."""
    assert run("mirror", "accept", "--data", str(tmp_path), "--yes") == 1
    assert "is no mirror of a set" in run.err
    assert not (tmp_path / "mirror-set").exists()


def test_accept_without_a_directory_says_what_to_give(run: Callable[..., int]):
    """There is no default: it is the operator's word about these and no others."""
    assert run("mirror", "accept") == 1
    assert "name each directory that is left with --data" in run.err


def test_verify_tells_that_a_directory_is_half_of_a_set(
    pair: tuple[Path, Path], run: Callable[..., int]
):
    """And which is the other half."""
    (pair[0] / "journal").mkdir(exist_ok=True)
    run("store", "verify", str(pair[0]))
    assert f"mirror: active as it knows, with {pair[1]} (active)" in run.out


def test_store_tools_do_not_change_one_of_several(pair: tuple[Path, Path], run: Callable[..., int]):
    """It would differ from the others."""
    assert run("store", "take-back", str(pair[0]), "--yes") == 1
    assert "is one of several mirrors" in run.err


def test_accept_does_not_wait_for_one_that_hangs(
    pair: tuple[Path, Path], run: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have what the other one lacks: it is named, and nothing is changed."""
    gate = threading.Event()
    one, two = pair
    exists = Path.exists

    def wait(path: Path) -> bool:
        if path == two:
            gate.wait(30)
        return exists(path)

    monkeypatch.setattr(mirrors, "_SECONDS_MORE", 0.05)
    monkeypatch.setattr(Path, "exists", wait)
    try:
        assert run("mirror", "accept", "--data", str(one), "--data", str(two), "--yes") == 1
    finally:
        gate.set()
    assert "two cannot be looked at: it has not answered for 0.05 s" in run.err
    assert f"--without {two}" in run.err
