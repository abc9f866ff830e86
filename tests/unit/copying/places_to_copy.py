"""Logs that are copied in these tests, and time that passes when somebody sleeps."""

from __future__ import annotations

from pathlib import Path

from holdfast.copying.held_log import HeldLog
from holdfast.environment.disk import RealDisk
from holdfast.journal.ballot import Ballot
from holdfast.journal.entry import FIRST_CHAIN, KIND_CONFIG, Entry, seal_entry
from holdfast.journal.jobs import BallotJob, WriteJob
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings, KiB
from holdfast.journal.writer import JournalWriter
from holdfast.leases.contract import LeasedLog, Outcome, Place
from holdfast.leases.copies import CopiedLog
from holdfast.replication.membership import Member, Membership, encode_membership
from holdfast.shared.shared_log import SharedLog
from holdfast.sql.opening import open_sql_log
from tests.stores.copied_log_suite import ANCHOR, claimant, entries_behind

CLUSTER = "ab" * 16
NODE = bytes(range(16))
SECONDS = 20.0
SETTINGS = JournalSettings(segment_bytes=64 * KiB)


class Time:
    """A clock that stands still unless somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.01)

    def hold(self, log: CopiedLog) -> HeldLog:
        """A lease that is waited for in this time."""
        return HeldLog(log, clock=self.clock, sleep=self.sleep)


def sqlite_at(path: Path) -> CopiedLog:
    """A database in a file."""
    return open_sql_log(f"sqlite:///{path}", own_directory=path.parent)


def shared_at(path: Path) -> CopiedLog:
    """A shared directory."""
    return SharedLog(path)


MEDIA = {"sqlite": sqlite_at, "shared": shared_at}


def served(log: LeasedLog, count: int = 20) -> list[Entry]:
    """Let a broker have written so many entries, and be stopped."""
    log.open()
    holding = log.take(log.observe(SECONDS), claimant(77), SECONDS)
    assert holding is not None
    bodies = [b"%d" % it * 40 for it in range(count)]
    entries = _sealed(holding.end, 1, bodies, holding.epoch)
    for entry in entries:
        assert log.append([entry], SECONDS) is Outcome.STORED
    log.release(SECONDS)
    log.close()
    return entries


def _sealed(end: Place, record: int, bodies: list[bytes], term: int) -> list[Entry]:
    found = []
    for body in bodies:
        entry = seal_entry(
            index=end.index + 1,
            term=term,
            kind=0,
            timestamp=100 + end.index,
            first_record=record,
            record_count=1,
            parts=[body],
            previous_chain=end.chain,
        )
        found.append(entry)
        end, record = Place(entry.index, entry.chain), entry.next_record
    return found


def membership(*names: str, generation: int = 0) -> Membership:
    """A cluster of these voters, the first of which has `NODE`."""
    members = [
        Member(name, "", "voter", "", (bytes([at]) * 16).hex()) for at, name in enumerate(names)
    ]
    members[0] = Member(names[0], "", "voter", "", NODE.hex())
    return Membership(tuple(members), cluster_id=CLUSTER, generation=generation)


def config_entry(members: Membership, term: int = 1) -> Entry:
    """The first entry of a node's log."""
    return seal_entry(
        index=1,
        term=term,
        kind=KIND_CONFIG,
        timestamp=1,
        first_record=1,
        record_count=0,
        parts=[encode_membership(members)],
        previous_chain=FIRST_CHAIN,
    )


def write_node(
    directory: Path, entries: list[Entry], ballot: Ballot | None, *, anchor: Entry | None = None
) -> None:
    """Write a node's directory with these entries."""
    journal = Journal.open(directory, RealDisk(), SETTINGS)
    failures: list[object] = []
    writer = JournalWriter(journal, lambda it: failures.append(it.failure) if it.failure else None)
    jobs: list[WriteJob] = []
    if anchor is not None:
        jobs.append(
            journal.stage_reset(anchor.index + 1, anchor.term, anchor.chain, anchor.next_record)
        )
    if ballot is not None:
        jobs.append(BallotJob(ballot))
    writer.turn(jobs)
    if entries:
        writer.turn([journal.stage(entries)])
    writer.close()
    journal.close()
    assert not failures


def node(directory: Path, count: int = 20, members: Membership | None = None) -> list[Entry]:
    """Make the directory of a single node, or of the first of several; give its entries."""
    first = config_entry(members or membership("n"))
    place = Place(first.index, first.chain)
    bodies = [b"message %d " % it * 300 for it in range(count)]
    entries = [first, *_sealed(place, 1, bodies, 2)]
    write_node(directory, entries, Ballot(node_id=NODE, term=3, cluster_id=bytes.fromhex(CLUSTER)))
    return entries


def node_behind_an_anchor(directory: Path) -> list[Entry]:
    """Make one whose log was cleaned: it begins behind an anchor."""
    entries = entries_behind(ANCHOR)
    last = entries[-1]
    entries.append(
        seal_entry(
            index=last.index + 1,
            term=last.term,
            kind=KIND_CONFIG,
            timestamp=9000,
            first_record=last.next_record,
            record_count=0,
            parts=[encode_membership(membership("n"))],
            previous_chain=last.chain,
        )
    )
    ballot = Ballot(node_id=NODE, term=9, cluster_id=bytes.fromhex(CLUSTER))
    write_node(directory, entries, ballot, anchor=ANCHOR)
    return entries
