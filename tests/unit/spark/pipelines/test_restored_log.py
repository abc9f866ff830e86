"""A data directory made anew: what it holds, what it continues, and what is never left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.errors import ArchiveError, ConfigError, StoreLockedError
from holdfast.journal.ballot import BallotFile
from holdfast.journal.draft import check_not_restored_now
from holdfast.journal.entry import KIND_CONFIG
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings, KiB
from holdfast.model.records import ProducerRecord, QueueRecord
from holdfast.replication.membership import decode_membership
from holdfast.spark.pipelines.restored_log import LogStart, NewMember, RestoredLog, live_by_queue
from holdfast.store.record_codec import encode_records
from trials.pipeline.written_log import message

START = LogStart(
    index=101,
    record=501,
    term=7,
    chain="ab" * 16,
    timestamp=1_000,
    cluster_id="0123456789abcdef" * 2,
)
SETTINGS = JournalSettings(segment_bytes=64 * KiB)


def bodies(*sequences: int) -> tuple[bytes, int, int]:
    copies = []
    for sequence in sequences:
        copy = message(1, sequence, b"x")
        copy.rewritten = True
        copies.append(copy)
    return b"".join(encode_records(list(copies))), len(copies), len(copies)


def restored(directory: Path) -> RestoredLog:
    log = RestoredLog(directory, START, segment_bytes=64 * KiB)
    log.begin(NewMember(name="new", address="h:1"))
    log.add_state((QueueRecord(1, "orders", 900, 4096),), (ProducerRecord("p", 3, 5),), 12)
    log.add_messages(*bodies(4, 9))
    return log


def test_the_directory_opens_and_continues_the_archive(tmp_path: Path) -> None:
    """
    Indexes, record numbers and the chain go on where the archive ended, in a higher term.
    """
    with restored(tmp_path / "new") as log:
        done = log.finish()

    journal = Journal.open(tmp_path / "new", RealDisk(), SETTINGS)
    config = journal.entry(101)
    journal.close()
    assert {"orders": 2} == done.live
    assert (7, bytes.fromhex("ab" * 16), 501) == journal.previous(101)
    assert (KIND_CONFIG, True) == (config.kind, config.term > 7)
    assert config.timestamp > START.timestamp
    assert ["new"] == sorted(path.name for path in tmp_path.iterdir())
    assert {"orders": 2} == live_by_queue(tmp_path / "new", RealDisk(), SETTINGS)


def test_the_cluster_is_a_new_one(tmp_path: Path) -> None:
    """
    Its identity keeps the digits that stand in message ids and is otherwise its own; ballot and
    membership agree.
    """
    with restored(tmp_path / "new") as log:
        done = log.finish()

    ballot = BallotFile(tmp_path / "new" / "ballot", RealDisk()).load()
    journal = Journal.open(tmp_path / "new", RealDisk(), SETTINGS)
    membership = decode_membership(bytes(journal.entry(101).body))
    journal.close()
    assert ballot is not None
    assert START.cluster_id[:8] == done.cluster_id[:8]
    assert START.cluster_id != done.cluster_id
    assert len(START.cluster_id) == len(done.cluster_id)
    assert done.cluster_id == membership.cluster_id == ballot.cluster_id.hex()
    (member,) = membership.members
    assert ("new", "h:1", ballot.node_id.hex()) == (member.name, member.address, member.node_id)


def test_an_attempt_that_fails_leaves_only_a_draft(tmp_path: Path) -> None:
    """
    The name appears when everything is durable; the next attempt begins anew.
    """
    log = restored(tmp_path / "new")
    log.close()
    assert not (tmp_path / "new").exists()

    with restored(tmp_path / "new") as again:
        done = again.finish()

    assert {"orders": 2} == done.live


def test_a_count_that_does_not_come_back_is_refused(tmp_path: Path) -> None:
    """
    What is read back is held to what was written before the directory gets its name.
    """
    log = restored(tmp_path / "new")
    log.add_messages(*bodies(9))  # a message twice

    with log, pytest.raises(ArchiveError, match="nothing was put in place"):
        log.finish()

    assert not (tmp_path / "new").exists()


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    """
    An empty one is taken, one with anything in it is not.
    """
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "x").touch()

    with pytest.raises(ConfigError, match="not empty"):
        RestoredLog(tmp_path / "new", START, segment_bytes=64 * KiB)


def test_of_two_restores_to_one_directory_the_second_is_refused(tmp_path: Path) -> None:
    """It touches nothing of the first one's, which ends as if it had been alone."""
    new = tmp_path / "new"
    with restored(new) as first:
        with pytest.raises(StoreLockedError, match=f"another process is restoring to {new} at"):
            restored(new)
        with pytest.raises(StoreLockedError, match="another process is restoring"):
            check_not_restored_now(new)
        first.add_messages(*bodies(10))
        assert first.finish().live == {"orders": 3}

    with pytest.raises(ConfigError, match="not empty"):
        restored(new)
    assert {"orders": 3} == live_by_queue(new, RealDisk(), SETTINGS)
    assert ["new"] == [path.name for path in tmp_path.iterdir()]


def test_what_came_into_the_directory_meanwhile_is_left_alone(tmp_path: Path) -> None:
    """A node that was started on it, say: the restored log stays a draft."""
    with restored(tmp_path / "new") as log:
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "ballot").touch()
        with pytest.raises(ConfigError, match="not empty"):
            log.finish()
    assert ["ballot"] == [path.name for path in (tmp_path / "new").iterdir()]
