"""
The comparison of replicas, fed with folders in which exactly one thing is wrong.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.broker.lasting.snapshot import encode_state
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.environment.disk import RealDisk
from holdfast.journal.ballot import BallotFile
from holdfast.journal.checkpoint import CheckpointStore
from holdfast.journal.entry import KIND_NOOP
from holdfast.model.records import QueueRecord
from trials.chaos.replicas import ALL, compare_folders, compare_replicas, walk
from trials.pipeline.written_log import WrittenLog, message

NAMES = ("a", "b", "w")
SEGMENT_BYTES = 16 * 1024


def write_log(folder: Path, *, entries: int = 40, other_at: int = 0) -> None:
    """Write a log of several segments; from entry `other_at` on its content is another."""
    with WrittenLog(folder, segment_bytes=SEGMENT_BYTES) as log:
        log.put(kind=KIND_NOOP)
        for sequence in range(2, entries + 1):
            letter = b"y" if other_at and sequence >= other_at else b"x"
            log.put(message(1, sequence, body=letter * 1000))


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """
    Three equal copies of one log.
    """
    write_log(tmp_path / "a")
    for name in NAMES[1:]:
        shutil.copytree(tmp_path / "a", tmp_path / name)
    return {name: tmp_path / name for name in NAMES}


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "journal").glob("*.segment"))


def flip(path: Path, offset: int, mask: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= mask
    path.write_bytes(data)


def test_equal_copies_are_good(folders):
    """Copies of one log: all compared, nothing found."""
    verdict = compare_folders(folders)

    assert verdict.is_good
    assert verdict.diverged == 0
    assert verdict.compared == 40
    assert verdict.segments_compared >= 2
    assert verdict.ranges == dict.fromkeys(NAMES, (1, 40))


def test_the_walk_reads_what_the_product_wrote(folders):
    """Two readers that share no code agree on every chain value."""
    copy = walk("a", folders["a"])

    assert not copy.faults
    assert sorted(copy.entries) == list(range(1, 41))


@pytest.mark.parametrize("seed", range(12))
def test_any_flipped_bit_of_an_entry_is_found(folders, seed):
    """A single bit in one copy: the node and the entry are told, whichever bit it is."""
    chance = random.Random(seed)
    path = chance.choice(segments(folders["b"])[:-1])
    data = path.read_bytes().rstrip(b"\0")
    flip(path, chance.randrange(4096, len(data)), 1 << chance.randrange(8))
    verdict = compare_folders(folders)

    assert verdict.first is not None
    assert verdict.first.node == "b"
    assert int(path.stem) <= verdict.first.index
    assert verdict.problems[0].startswith(f"replicas differ: entry {verdict.first.index:,} on b")


def test_a_flipped_bit_of_a_header_block_is_found(folders):
    """The block at the head of a file is no entry, and compared all the same."""
    flip(segments(folders["w"])[1], 200)
    verdict = compare_folders(folders)

    assert verdict.diverged
    assert verdict.first is not None
    assert verdict.first.node == "w"


def test_a_replaced_entry_is_found(folders, tmp_path):
    """A copy that is whole in itself and tells another story: the first other entry is named."""
    shutil.rmtree(folders["b"])
    write_log(folders["b"], other_at=17)
    verdict = compare_folders(folders)

    assert verdict.first is not None
    assert (verdict.first.index, verdict.first.node) == (17, "b")
    assert "another entry" in verdict.first.what


def test_a_hole_in_a_copy_is_found(folders):
    """A file in the middle is gone."""
    gone = segments(folders["b"])[1]
    gone.unlink()
    verdict = compare_folders(folders)

    assert verdict.first is not None
    assert (verdict.first.index, verdict.first.node) == (int(gone.stem), "b")


def test_a_log_that_begins_later_is_no_divergence(folders):
    """Old files are dropped by each node when it likes."""
    dropped, first = segments(folders["w"])[:2]
    ballot = BallotFile(folders["w"] / "ballot", RealDisk())
    ballot.load()
    ballot.save_first(int(first.stem))
    ballot.close()
    dropped.unlink()
    verdict = compare_folders(folders)

    assert verdict.is_good
    assert verdict.ranges["w"][0] > 1


def test_a_log_that_lost_its_beginning_is_found(folders):
    """A file that was not dropped is missing: the replica is no copy of the whole."""
    segments(folders["w"])[0].unlink()
    verdict = compare_folders(folders)

    assert not verdict.is_good
    assert any("begins with entry 12" in problem for problem in verdict.problems)


def test_a_copy_that_is_behind_is_no_divergence(folders):
    """What a node does not have yet it cannot have otherwise."""
    shutil.rmtree(folders["b"])
    write_log(folders["b"], entries=30)
    verdict = compare_folders(folders)

    assert verdict.is_good
    assert verdict.compared == 40


def test_beyond_what_is_committed_copies_may_differ(folders):
    """A running node's last entries may be replaced; up to the commit they may not."""
    shutil.rmtree(folders["b"])
    write_log(folders["b"], other_at=31)

    assert compare_folders(folders, committed=dict.fromkeys(NAMES, 30)).is_good
    assert not compare_folders(folders, committed=dict.fromkeys(NAMES, 31)).is_good


def test_checkpoints_of_one_index_must_be_equal(folders):
    """The state after an entry is the same on every node, byte for byte."""
    for name in NAMES:
        (folders[name] / "checkpoints").mkdir()
        state = b"other" if name == "w" else b"state"
        (folders[name] / "checkpoints" / f"{7:020d}.checkpoint").write_bytes(state)
    verdict = compare_folders(folders)

    assert verdict.diverged == 1
    assert verdict.first is not None
    assert (verdict.first.index, verdict.first.node) == (7, "w")
    assert "checkpoint" in verdict.first.what


def test_checkpoints_are_compared_by_what_they_say(folders):
    """
    Order of queues, totals of what passed through and where a node's log began are no difference; a
    sequence is one.
    """
    states = {name: BrokerState(BrokerSettings()) for name in NAMES}
    for name, state in states.items():
        for number in (2, 1) if name == "b" else (1, 2):
            state.apply(number, [QueueRecord(number, f"q{number}")], 1)
        state.by_name["q1"].enqueued_total = len(name)

    def verdict():
        for first, (name, state) in enumerate(states.items(), 1):
            store = CheckpointStore(folders[name], RealDisk())
            store.save(7, 1, bytes(16), 8, first, encode_state(state))
        return compare_folders(folders)

    assert verdict().diverged == 0
    states["w"].by_name["q2"].next_sequence += 1
    assert verdict().diverged == 1


class Node:
    """A node that does not run, or answers what it was told to."""

    def __init__(self, data: Path, messages: int | None = None, role: str = "follower") -> None:
        self.data = data
        self.is_running = messages is not None
        self.messages = messages
        self.waiting = 0
        self.on_topics = 0
        self.role = role

    def status(self) -> dict[str, Any] | None:
        live = (self.messages or 0) + self.on_topics
        status = {"commit_index": 40, "applied_index": 40, "role": self.role}
        return {**status, "store": {"live_messages": live}}

    def get(self, path: str) -> Any:
        assert self.role != "witness"
        if path == "/subscriptions?local=1":
            ann = {"client_id": "ann", "name": "mine", "messages": self.waiting}
            return {"subscriptions": [ann]}
        assert path == "/queues?local=1"
        return {"queues": [{"name": "orders", "messages": self.messages}]}


class Nodes:
    """What compare_replicas wants of a cluster."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        self.nodes = nodes


def test_running_nodes_must_hold_the_same_queues(folders):
    """A follower that counts otherwise than the others has another state; a witness has none."""
    nodes = {
        "a": Node(folders["a"], 5, "leader"),
        "b": Node(folders["b"], 6),
        "w": Node(folders["w"], 0, "witness"),
    }
    verdict = compare_replicas(Nodes(nodes))
    nodes["b"].messages = 5

    assert verdict.diverged == 2  # of one queue, and of all
    assert verdict.left_over == {"orders": 6, ALL: 6}
    assert any("orders" in problem for problem in verdict.problems)
    assert compare_replicas(Nodes(nodes)).is_good


def test_subscriptions_and_what_topics_keep_must_be_the_same(folders):
    """What waits for a durable subscription, and what a topic keeps though nobody waits for it."""
    nodes = {"a": Node(folders["a"], 0, "leader"), "b": Node(folders["b"], 0)}
    nodes["b"].waiting = 2
    waiting = compare_replicas(Nodes(nodes))
    nodes["b"].waiting = 0
    nodes["b"].on_topics = 3
    kept = compare_replicas(Nodes(nodes))

    assert (waiting.diverged, kept.diverged) == (1, 1)
    assert waiting.left_over == {"subscription ann/mine": 2}
    assert kept.left_over == {ALL: 3}


def test_stopped_nodes_are_read_too(folders):
    """A node that does not answer still has its files."""
    flip(segments(folders["w"])[0], 6000)
    nodes = {name: Node(folder) for name, folder in folders.items()}

    assert compare_replicas(Nodes(nodes)).diverged
