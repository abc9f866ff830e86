"""
A journal, its writer and a disk in one object, without threads: for tests.

Every job is written at once, in the calling thread. What the writer reports as stored is kept
apart from the journal, so that a test can hold the journal to it after a crash.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.environment.disk import Disk
from holdfast.journal.ballot import Ballot
from holdfast.journal.entry import KIND_RECORDS, Entry, seal_entry
from holdfast.journal.jobs import BallotJob, WriteJob, WriteResult
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings, KiB
from holdfast.journal.writer import JournalWriter
from trials.simulation.simulated_disk import SimulatedDisk

NODE_ID = bytes(range(16))


SMALL = JournalSettings(segment_bytes=16 * KiB, tail_cache_bytes=0, read_cache_bytes=4 * KiB)
"""Of a log that reads nearly everything from disk."""


class LocalJournal:
    """
    An open journal in `directory`, with a ballot from the start.

    `stored` holds every entry that was reported stored and not cut off since, by index.
    """

    def __init__(
        self,
        disk: Disk | None = None,
        *,
        directory: Path = Path("/node"),
        settings: JournalSettings | None = None,
        resolve_unknown_tail: bool = True,
    ) -> None:
        self.disk: Disk = SimulatedDisk() if disk is None else disk
        self.directory = directory
        self.settings = settings or JournalSettings(segment_bytes=16 * KiB)
        self.results: list[WriteResult] = []
        self.stored: dict[int, Entry] = {}
        self._staged: dict[int, Entry] = {}
        self._resolve = resolve_unknown_tail
        self.journal: Journal
        self.writer: JournalWriter
        self._open()
        if self.journal.ballot_file.current is None and self.journal.ballot_error is None:
            self.perform(BallotJob(Ballot(node_id=NODE_ID)))

    def make(self, *parts: bytes, term: int = 0) -> Entry:
        """Seal the entry that would come next, one record per part; term 0 means the last one."""
        journal = self.journal
        return seal_entry(
            index=journal.last_index + 1,
            term=term or max(journal.last_term, 1),
            kind=KIND_RECORDS,
            timestamp=journal.last_timestamp + 1,
            first_record=journal.next_record_number,
            record_count=len(parts),
            parts=list(parts),
            previous_chain=journal.last_chain,
        )

    def stage(self, *parts: bytes, term: int = 0) -> WriteJob:
        """Seal and stage one entry; the job is not performed yet."""
        entry = self.make(*parts, term=term)
        self._staged[entry.index] = entry
        return self.journal.stage([entry])

    def append(self, *parts: bytes, term: int = 0) -> Entry:
        """Seal, stage and write one entry."""
        self.perform(self.stage(*parts, term=term))
        return self.journal.entry(self.journal.last_index)

    def fill(self, count: int = 12) -> None:
        """Append entries with 0, 1, 2, 0, 1, 2 ... records, four to a small segment or so."""
        for number in range(count):
            self.append(*[bytes([65 + number]) * 1500] * (number % 3))

    def truncate(self, after_index: int) -> None:
        """Cut everything after `after_index` off, on disk too."""
        job = self.journal.stage_truncate(after_index)
        for entries in (self.stored, self._staged):
            for index in [it for it in entries if it > after_index]:
                del entries[index]
        self.perform(job)

    def repair(self, entry: Entry) -> bool:
        """Mend a damaged entry with this copy, durably; tell whether it was mended."""
        job = self.journal.stage_repair(entry)
        self.perform(job)
        return job.is_done and self.journal.finish_repair(job)

    def perform(self, *jobs: WriteJob) -> None:
        """Let the writer do these jobs in one turn."""
        self.writer.turn(list(jobs))

    def segment_path(self, position: int = 0) -> Path:
        """Return the file of a segment, by its place in the list."""
        return self.journal.segments()[position].path

    def reopen(self) -> Journal:
        """Stop cleanly and open again."""
        self.close()
        self._open()
        return self.journal

    def reopen_after_power_cut(self) -> Journal:
        """Lose power, then open again."""
        assert isinstance(self.disk, SimulatedDisk)
        self.disk.power_cut()
        self._open()
        return self.journal

    def close(self) -> None:
        """Stop cleanly."""
        self.writer.close()
        self.journal.close()

    def _open(self) -> None:
        self.journal = Journal.open(
            self.directory, self.disk, self.settings, resolve_unknown_tail=self._resolve
        )
        self.writer = JournalWriter(self.journal, self._notify)

    def _notify(self, result: WriteResult) -> None:
        self.results.append(result)
        for index in [it for it in self._staged if it <= result.stored_index]:
            self.stored[index] = self._staged.pop(index)
