"""A data directory made of a copied log: whose it is, what it goes on with, what is never left."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.copying.directory_target import DirectoryTarget, NewNode
from holdfast.environment.disk import RealDisk
from holdfast.errors import ConfigError, StoreError, StoreLockedError
from holdfast.journal.ballot import BallotFile
from holdfast.journal.entry import KIND_CONFIG
from holdfast.journal.journal import Journal
from holdfast.leases.contract import Place
from holdfast.leases.copies import CopyPlan
from holdfast.replication.membership import Membership, decode_membership
from tests.stores.copied_log_suite import ANCHOR, entries_behind, plan_of
from tests.unit.copying.places_to_copy import (
    CLUSTER,
    NODE,
    SETTINGS,
    config_entry,
    membership,
)

NEW = NewNode(name="b", address="10.0.0.1:7000", site="x")


def made(directory: Path, entries: list, plan: CopyPlan) -> Membership:
    """Make a directory of these entries; give whose it says it is."""
    target = DirectoryTarget(directory, NEW, SETTINGS)
    assert target.begin(plan) == plan.begins_behind
    target.append(entries)
    assert target.entries(plan.begins_behind.index) == entries
    assert target.finish(lambda: None) == f"holdfast serve --name b --data {directory}"
    target.close()
    journal = Journal.open(directory, RealDisk(), SETTINGS)
    last = journal.entry(journal.last_index)
    assert (last.kind, last.index) == (KIND_CONFIG, plan.end.index + 1)
    assert last.term > plan.epoch
    assert journal.ballot_file.current is not None
    assert journal.ballot_file.current.term == last.term
    journal.close()
    return decode_membership(bytes(last.body))


def test_it_goes_on_as_the_next_generation_of_its_cluster(tmp_path: Path) -> None:
    """One voter, of a new identity; those of before never count again; numbers go on."""
    old = membership("n", "o", generation=4)
    first = config_entry(old)
    plan = CopyPlan(identity=CLUSTER, anchor=None, end=Place(first.index, first.chain), epoch=7)
    found = made(tmp_path / "b", [first], plan)

    (member,) = found.members
    assert (member.name, member.address, member.site) == ("b", "10.0.0.1:7000", "x")
    assert (found.cluster_id, found.generation, found.numbers) == (CLUSTER, 5, old.numbers)
    assert found.retired == (NODE.hex(), "01" * 16)
    file = BallotFile(tmp_path / "b" / "ballot", RealDisk())
    ballot = file.load()
    file.close()
    assert ballot is not None
    assert (ballot.node_id.hex(), ballot.cluster_id.hex()) == (member.node_id, CLUSTER)
    assert ballot.generation == 5


def test_a_log_that_never_was_a_nodes_becomes_one(tmp_path: Path) -> None:
    """Its id is the cluster's, so message ids stay as they are."""
    entries = entries_behind(ANCHOR)
    plan = plan_of(entries)
    found = made(tmp_path / "b", entries, plan)
    assert (found.cluster_id, found.generation, found.numbers) == (plan.identity, 1, 0)


def test_nothing_has_the_directorys_name_before_it_is_whole(tmp_path: Path) -> None:
    """What was broken off is a draft beside it, which the next attempt begins anew."""
    entries = entries_behind(ANCHOR)
    plan = plan_of(entries)
    target = DirectoryTarget(tmp_path / "b", NEW, SETTINGS)
    target.begin(plan)
    target.append(entries[:3])
    with pytest.raises(StoreLockedError, match="another process is copying to"):
        DirectoryTarget(tmp_path / "b", NEW, SETTINGS).begin(plan)
    target.close()
    assert not (tmp_path / "b").exists()
    assert (tmp_path / "b.copying").exists()
    made(tmp_path / "b", entries, plan)
    assert [it.name for it in tmp_path.iterdir()] == ["b"]


def test_what_lacks_an_entry_gets_no_name(tmp_path: Path) -> None:
    """Its end is looked at once more when it is to be finished."""
    entries = entries_behind(ANCHOR)
    target = DirectoryTarget(tmp_path / "b", NEW, SETTINGS)
    target.begin(plan_of(entries))
    target.append(entries[:-1])
    with pytest.raises(StoreError, match="does not end as it was copied"):
        target.finish(lambda: None)
    target.close()
    assert not (tmp_path / "b").exists()


def test_nothing_is_copied_over_a_directory(tmp_path: Path) -> None:
    """Whatever is in it stays."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").touch()
    target = DirectoryTarget(tmp_path / "b", NEW, SETTINGS)
    with pytest.raises(ConfigError, match="is not empty"):
        target.begin(plan_of(entries_behind(ANCHOR)))
    target.close()
    assert [it.name for it in (tmp_path / "b").iterdir()] == ["x"]
