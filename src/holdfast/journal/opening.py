"""
Take a data directory at start: its lock, its ballot, its log, each brought to a good state.

What a crash cut short is finished or undone here, before anybody reads or writes the log.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from holdfast.environment.disk import Disk, DiskLock
from holdfast.environment.lock_holder import in_use
from holdfast.errors import BallotLostError, JournalFailedError, StoreError
from holdfast.journal.ballot import NO_CLAIM, BallotFile
from holdfast.journal.filling import Filling
from holdfast.journal.found_log import LogScan, Progress
from holdfast.journal.housekeeper import SPARE_PREFIX
from holdfast.journal.kept_log import Superfluous, load_filling
from holdfast.journal.recovery import finish_recovery
from holdfast.journal.scan import scan_log


class OpenedDirectory(NamedTuple):
    """A data directory that is ours, and what is in it."""

    scan: LogScan
    ballot_file: BallotFile
    ballot_error: BallotLostError | None
    """Why the ballot could not be read, if so."""
    filling: Filling | None
    full: list[Superfluous]
    """What was kept beside logs that are full, and is to be removed."""
    left_over: list[Path]
    """Files that are no part of the log and are to be removed."""
    lock: DiskLock

    @property
    def last_origin(self) -> int:
        """The newest origin that what is kept bears; 0 if nothing is."""
        full = max((it.origin for it in self.full), default=0)
        return full if self.filling is None else max(full, self.filling.origin)


def open_directory(
    directory: Path,
    disk: Disk,
    *,
    resolve_unknown_tail: bool = False,
    progress: Progress | None = None,
) -> OpenedDirectory:
    """
    Take the directory, read and verify the whole log, and mend what a crash left.

    Raises:
        StoreLockedError: Another process has the directory.
        SegmentsMissingError: Files are missing at the log's beginning.
        StoreError: A file is missing, foreign, or of another version.
        JournalFailedError: The disk refused to be written.
    """
    lock = _take(directory, disk)
    try:
        filling, full = load_filling(directory, disk)
        ballot_file = BallotFile(directory / "ballot", disk)
        ballot_error: BallotLostError | None = None
        claim, ballot = NO_CLAIM, None
        try:
            ballot = ballot_file.load()
            claim = NO_CLAIM if ballot is None else ballot.claim
        except BallotLostError as error:
            ballot_error = error
        log = directory / "journal"
        left_over = _remove_spares(log, disk)
        scan = scan_log(log, disk, claim=claim, progress=progress)
        finish_recovery(
            scan,
            disk,
            durable_floor=claim.floor,
            resolve_unknown_tail=resolve_unknown_tail,
            lost_and_found=directory / "lost+found",
        )
        if not scan.tail.term and ballot is not None:
            # A lost entry's term stood in its header. It was a term that this node knew of; any
            # lower guess would help a candidate that lacks the entry.
            scan.tail.term = max(ballot.term, scan.last_term)
        first_index = scan.segments[0].base_index if scan.segments else 0
        is_end_known = scan.tail.state != "unknown"
        ballot_file.write_again(
            scan.last_index, scan.last_chain, first_index, is_end_known=is_end_known
        )
    except OSError as error:
        lock.release()
        raise JournalFailedError(f"{directory} could not be recovered: {error}") from error
    except BaseException:
        lock.release()
        raise
    left_over += scan.left_over
    return OpenedDirectory(scan, ballot_file, ballot_error, filling, full, left_over, lock)


def _take(directory: Path, disk: Disk) -> DiskLock:
    try:
        disk.make_directory(directory / "journal")
        return disk.lock(directory / "lock")
    except BlockingIOError as error:
        raise in_use(directory, error) from None
    except OSError as error:
        raise StoreError(f"{directory} cannot be used as a data directory: {error}") from error


def _remove_spares(log: Path, disk: Disk) -> list[Path]:
    """Remove what the last process had prepared; return what could not be removed."""
    refused = []
    for name in disk.list_directory(log):
        if name.startswith(SPARE_PREFIX):
            try:
                disk.unlink(log / name)
            except OSError:
                refused.append(log / name)
    return refused
