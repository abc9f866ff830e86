"""A stopped node's directory as the source of a copy: what is refused, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.copying.directory_source import DirectorySource
from holdfast.environment.disk import RealDisk
from holdfast.errors import ConfigError, StoreError, StoreLockedError
from holdfast.journal.ballot import Ballot, BallotFile
from tests.unit.copying.places_to_copy import (
    CLUSTER,
    NODE,
    config_entry,
    membership,
    node,
    node_behind_an_anchor,
    write_node,
)

BALLOT = Ballot(node_id=NODE, term=3, cluster_id=bytes.fromhex(CLUSTER))


def refusal(directory: Path) -> str:
    """What is said; the directory is let go again."""
    with pytest.raises(StoreError) as raised:
        DirectorySource(directory, RealDisk())
    RealDisk().lock(directory / "lock").release()
    return str(raised.value)


def test_its_plan_says_what_a_copy_is(tmp_path: Path) -> None:
    """The cluster's id, the last entry, a term that none is above; no anchor from entry 1 on."""
    entries = node(tmp_path / "a")
    source = DirectorySource(tmp_path / "a", RealDisk())
    plan = source.plan
    assert (plan.identity, plan.anchor, plan.epoch) == (CLUSTER, None, 3)
    assert plan.end.chain == entries[-1].chain
    source.close()

    cleaned = node_behind_an_anchor(tmp_path / "b")
    source = DirectorySource(tmp_path / "b", RealDisk(), place="mirrors:b,c")
    anchor = source.plan.anchor
    assert anchor is not None
    assert (anchor.index, anchor.next_record) == (40, cleaned[0].first_record)
    assert source.place == "mirrors:b,c"
    source.close()


def test_one_in_use_is_refused_and_one_that_is_copied_is_in_use(tmp_path: Path) -> None:
    """By the lock that a node takes: each of the two keeps the other out."""
    node(tmp_path)
    lock = RealDisk().lock(tmp_path / "lock")
    with pytest.raises(StoreLockedError, match=r"running node \(process .*\); stop it first"):
        DirectorySource(tmp_path, RealDisk())
    lock.release()
    source = DirectorySource(tmp_path, RealDisk())
    with pytest.raises(BlockingIOError):
        RealDisk().lock(tmp_path / "lock")
    source.close()


def test_a_folder_without_a_journal_is_none(tmp_path: Path) -> None:
    """A name that is wrong makes no lock file either."""
    with pytest.raises(ConfigError, match="is no data directory"):
        DirectorySource(tmp_path / "none", RealDisk())
    assert list(tmp_path.iterdir()) == []


def test_an_empty_one_has_nothing(tmp_path: Path) -> None:
    """A node that never stored anything."""
    write_node(tmp_path, [], BALLOT)
    assert "is empty: there is nothing to copy" in refusal(tmp_path)


def test_one_of_several_members_may_lack_what_was_confirmed(tmp_path: Path) -> None:
    """The members are named, and how the cluster comes to be one node."""
    node(tmp_path, members=membership("n", "o", "p"))
    told = refusal(tmp_path)
    assert "one of several members (n, o, p)" in told
    assert "holdfast cluster remove" in told


def test_the_directory_of_another_node_with_this_log_is_refused(tmp_path: Path) -> None:
    """A learner's, or one that was made anew: what it has is not all."""
    write_node(tmp_path / "a", [config_entry(membership("n"))], replace(BALLOT, node_id=bytes(16)))
    assert "is not that of n, whose log it holds" in refusal(tmp_path / "a")
    write_node(tmp_path / "b", [config_entry(membership("n"))], None)
    (tmp_path / "b" / "ballot").unlink(missing_ok=True)
    assert "is not that of n, whose log it holds" in refusal(tmp_path / "b")


@pytest.mark.parametrize(
    ("ballot", "told"),
    [
        (replace(BALLOT, is_shut_out=True), "has no part in its cluster any more"),
        (replace(BALLOT, generation=2), "was promoted by force and has not served since"),
    ],
)
def test_one_that_was_shut_out_or_promoted_is_refused(
    tmp_path: Path, ballot: Ballot, told: str
) -> None:
    """Its log is not, or not yet, the one that counts."""
    write_node(tmp_path, [config_entry(membership("n"))], ballot)
    file = BallotFile(tmp_path / "ballot", RealDisk())
    found = file.load()
    file.close()
    assert found is not None
    assert told in refusal(tmp_path)


def test_one_that_is_being_filled_is_refused(tmp_path: Path) -> None:
    """The older log beside it may have what it lacks."""
    node(tmp_path)
    (tmp_path / "before-reset").mkdir()
    (tmp_path / "before-reset" / "x").touch()
    assert "keeps an older log beside one that is being filled" in refusal(tmp_path)


def test_a_log_that_names_nobody_is_refused(tmp_path: Path) -> None:
    """Whose it is cannot be told: the sentence says how a directory is made of it."""
    from tests.stores.copied_log_suite import entries_behind

    write_node(tmp_path, entries_behind(None), BALLOT)
    assert "nothing in the log" in refusal(tmp_path)
