"""`holdfast store copy`: what it says, to people and to programs, and what it refuses."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from holdfast.cli import store_copy
from holdfast.cli.store_copy import FROM_VARIABLE, TO_VARIABLE
from holdfast.leases.contract import Claimant
from holdfast.raidb.opening import open_raidb_log
from holdfast.raidb.settings import RaidbSettings
from holdfast.spark.log.store_log import store_log
from tests.unit.copying.places_to_copy import CLUSTER, node, served, shared_at, sqlite_at
from trials.pipeline.stored_log import fill, written
from trials.pipeline.written_log import message


def test_it_says_what_was_copied_and_how_a_broker_is_started(run, tmp_path: Path) -> None:
    """Entries, chain, both places; the last line is what comes next."""
    entries = node(tmp_path / "a", 10)
    target = f"sqlite:///{tmp_path}/x.db"
    assert run("store", "copy", str(tmp_path / "a"), target) == 0
    assert f"{len(entries)} entries, " in run.out
    assert f"chain {entries[-1].chain.hex()}" in run.out
    assert run.out.rstrip().endswith(f"start it with 'holdfast serve --data OWN --store {target}'")

    assert run("store", "copy", str(tmp_path / "a"), target) == 0
    assert "was a copy of" in run.out
    assert "already, and is the same" in run.out


def test_programs_are_told_the_same(run, tmp_path: Path) -> None:
    """One document, of what was copied and where."""
    entries = node(tmp_path / "a", 10)
    target = f"shared:{tmp_path}/s"
    assert run("store", "copy", str(tmp_path / "a"), target, "--json") == 0
    told = json.loads(run.out)
    assert (told["from"], told["to"]) == (str(tmp_path / "a"), f"{tmp_path}/s")
    assert (told["identity"], told["first_index"], told["last_index"]) == (
        CLUSTER,
        1,
        len(entries),
    )
    assert told["chain"] == entries[-1].chain.hex()
    assert (told["was_done"], told["was_whole"]) == (0, False)


def test_a_directory_gets_the_name_of_its_node(run, tmp_path: Path) -> None:
    """A copy from a store is served by the node that is named, and no other."""
    served(shared_at(tmp_path / "s"))
    source = f"shared:{tmp_path}/s"
    assert run("store", "copy", source, str(tmp_path / "b"), "--name", "b") == 0
    assert f"holdfast serve --name b --data {tmp_path}/b" in run.out
    assert run("store", "verify", str(tmp_path / "b")) == 0


def test_one_that_was_broken_off_is_told(run, tmp_path: Path) -> None:
    """After how many entries it went on."""
    from holdfast.copying.directory_source import DirectorySource
    from holdfast.copying.leased import LeasedTarget
    from holdfast.environment.disk import RealDisk

    entries = node(tmp_path / "a", 10)
    source = DirectorySource(tmp_path / "a", RealDisk())
    half = LeasedTarget(sqlite_at(tmp_path / "x.db"), "")
    half.begin(source.plan)
    half.append(entries[:4])
    half.close()
    source.close()
    assert run("store", "copy", str(tmp_path / "a"), f"sqlite:///{tmp_path}/x.db") == 0
    assert "went on with a copy that was broken off after 4 entries" in run.out


@pytest.mark.parametrize(
    ("source", "target", "code", "told"),
    [
        ("a", "a", 2, "FROM and TO are the same place"),
        ("none", "b", 2, "is no data directory"),
        ("a", "mirrors:b,c", 2, "mirrors are filled by the node itself: copy to "),
        ("mirrors:a", "b", 2, "is of no mirror set: name it without mirrors:"),
        ("shared:none", "b", 1, "holds no log"),
        ("a", "full", 2, "is not empty"),
        ("a", "oracle://x/y", 2, "'oracle' is no database that is known"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_sentence(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, target: str, code: int, told
) -> None:
    """What is wrong, where, and what to do; nothing was changed."""
    monkeypatch.chdir(tmp_path)
    node(tmp_path / "a", 3)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert run("store", "copy", source, target) == code
    assert told in run.err
    assert not (tmp_path / "b").exists()
    assert not (tmp_path / "none").exists()


def test_a_size_that_is_none_is_refused(run, tmp_path: Path) -> None:
    """By the option's name."""
    assert run("store", "copy", str(tmp_path), str(tmp_path / "b"), "--segment", "much") == 2
    assert "--segment: " in run.err


def test_places_come_by_environment_too(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is a process begun anew whose arguments had a password."""
    node(tmp_path / "a", 3)
    monkeypatch.setenv(FROM_VARIABLE, str(tmp_path / "a"))
    monkeypatch.setenv(TO_VARIABLE, f"sqlite:///{tmp_path}/x.db")
    assert run("store", "copy") == 0
    assert "entries, " in run.out


def test_who_is_waited_for_is_told_once(run, capsys: pytest.CaptureFixture[str]) -> None:
    """Not five times a second."""
    store_copy._told_of.clear()
    for left in (5.5, 5.3, 5.1):
        store_copy._waits("a", left)
    store_copy._waits("b", 2.0)
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "waiting for 6 s whether a, who held the lease, is gone",
        "waiting for 2 s whether b, who held the lease, is gone",
    ]


def test_several_databases_are_copied_as_the_one_log_that_they_hold(run, tmp_path: Path) -> None:
    """What one of them lacks the others have; each is as it was but for who held it last."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "abc"]
    entries = written(tmp_path / "log", *(message(1, it) for it in range(1, 30)))
    fill(urls, entries)
    (tmp_path / "a.db").rename(tmp_path / "away")
    target = f"sqlite:///{tmp_path}/copy.db"
    assert run("store", "copy", " ".join(urls), target) == 0
    assert f"{len(entries)} entries, " in run.out
    assert f"chain {entries[-1].chain.hex()}" in run.out
    assert not (tmp_path / "a.db").exists(), "one that is away is not made anew"
    there, here = store_log([target]), store_log(urls[1:])
    for log in (there, here):
        (block,) = log.blocks(1, len(entries))
        assert block.buffer == b"".join(it.raw for it in entries)
    assert there.position().cluster_id == here.position().cluster_id


def test_several_databases_that_are_held_are_not_copied(run, tmp_path: Path) -> None:
    """Their holder gives a sign of life while it is waited for."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    fill(urls, written(tmp_path / "log", message(1, 1)))
    log = open_raidb_log(urls, RaidbSettings(), own_directory=tmp_path)
    log.open()
    who = Claimant(holder="b" * 32, name="broker", admin="", stomp="", lease_seconds=30.0)
    assert log.take(log.observe(5.0), who, 5.0) is not None
    left = threading.Event()

    def live() -> None:
        while not left.wait(0.2):
            log.renew(5.0)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        assert run("store", "copy", " ".join(urls), f"sqlite:///{tmp_path}/copy.db") == 1
    finally:
        left.set()
        thread.join()
        log.close()
    assert "is in use by broker" in run.err
    assert not (tmp_path / "copy.db").exists()


def test_a_copy_is_made_in_one_database_and_not_in_several(run, tmp_path: Path) -> None:
    """The sentence says how several come to have it."""
    node(tmp_path / "a", 3)
    urls = f"sqlite:///{tmp_path}/x.db sqlite:///{tmp_path}/y.db"
    assert run("store", "copy", str(tmp_path / "a"), urls) == 2
    assert "copy to one of them" in run.err
    assert not (tmp_path / "x.db").exists()
