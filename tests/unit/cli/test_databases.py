"""`holdfast mirror` with databases of stopped brokers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.raidb.opening import open_raidb_log
from holdfast.raidb.settings import RaidbSettings


@pytest.fixture
def urls(tmp_path: Path) -> list[str]:
    """Two files that were used together."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    log = open_raidb_log(urls, RaidbSettings(), own_directory=tmp_path)
    log.open()
    log.close()
    return urls


def test_status_of_all_tells_that_they_start(urls: list[str], run: Callable[..., int]) -> None:
    """For programs and for people."""
    assert run("mirror", "status", "--store", urls[0], "--store", urls[1], "--json") == 0
    told = json.loads(run.out)
    assert told["starts"] is True
    assert {it["directory"]: it["state"] for it in told["mirrors"]} == dict.fromkeys(urls, "active")
    assert run("mirror", "status", "--store", urls[0], "--store", urls[1]) == 0
    assert urls[1] in run.out


def test_status_of_one_tells_what_is_missing(urls: list[str], run: Callable[..., int]) -> None:
    """It fails, and names the other one."""
    assert run("mirror", "status", "--store", urls[0], "--json") == 1
    told = json.loads(run.out)
    assert told["starts"] is False
    assert told["reason"] == f"{urls[1]} cannot be used"


def test_one_is_accepted_once_it_is_said_so(urls: list[str], run: Callable[..., int]) -> None:
    """A script must say that the other one is gone; the second time nothing is missing."""
    assert run("mirror", "accept", "--store", urls[0]) == 1
    assert run("mirror", "accept", "--store", urls[0], "--yes") == 0
    assert f"accepted: brokers go on with {urls[0]}" in run.out
    assert run("mirror", "accept", "--store", urls[0], "--yes") == 0
    assert "nothing is missing" in run.out


def test_what_is_named_has_to_answer_or_to_be_said_to_be_gone(
    urls: list[str], tmp_path: Path, run: Callable[..., int]
) -> None:
    """The third is to be added, the second is lost: the configuration names all three."""
    (tmp_path / "b.db").rename(tmp_path / "gone.db")
    new = f"sqlite:///{tmp_path}/new/c.db"
    given = [it for url in (*urls, new) for it in ("--store", url)]
    assert run("mirror", "status", *given) == 1
    assert f"{urls[1]} cannot be used" in run.err
    assert run("mirror", "accept", "--yes", *given) == 1
    assert f"({new}: none of these databases as far as they know)" in run.err
    assert f"say so by --without {urls[1]} --without {new}" in run.err
    assert run("mirror", "accept", "--yes", *given, "--without", new) == 1
    assert f"say so by --without {urls[1]}" in run.err
    assert run("mirror", "status", *given[:2]) == 1  # Nothing was changed.
    assert run("mirror", "accept", "--yes", *given, "--without", new, "--without", urls[1]) == 0
    assert f"accepted: brokers go on with {urls[0]}" in run.out


def test_what_is_said_to_be_gone_is_one_of_those_given(
    urls: list[str], tmp_path: Path, run: Callable[..., int]
) -> None:
    """One that is mistyped would go on counting as one that is left; and one has to be left."""
    other = f"sqlite:///{tmp_path}/c.db"
    assert run("mirror", "accept", "--yes", "--store", urls[0], "--without", other) == 1
    assert f"{other} is none of those that were given: {urls[0]}" in run.err
    assert run("mirror", "accept", "--yes", "--store", urls[0], "--without", urls[0]) == 1
    assert "nothing is left of what was given" in run.err


def test_a_database_alone_has_no_mirrors(tmp_path: Path, run: Callable[..., int]) -> None:
    """It says so, and fails."""
    assert run("mirror", "status", "--store", f"sqlite:///{tmp_path}/x.db") == 1
    assert "none of these databases is one of several" in run.err
