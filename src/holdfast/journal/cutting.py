"""
What changes a log that is there: cut behind an entry, begun anew elsewhere, an entry written again.

Each is in an order in which a crash in between leaves a log that is either as before or as after,
or whose ballot says what it lacks.

Invariants:
    What the ballot must say of a cut is durable before anything is cut.
    Nothing durable is claimed lower or higher than what is left.

Called by the writer, on its thread.
"""

from __future__ import annotations

import errno

from holdfast.environment.disk import Disk
from holdfast.journal.claim import StandingClaim
from holdfast.journal.end_file import EndFile
from holdfast.journal.jobs import RepairJob, ResetJob, TruncateJob
from holdfast.journal.journal import Journal
from holdfast.journal.kept_log import renew_note, set_aside
from holdfast.journal.recovery import keep_bytes, zero_backwards


def truncate(journal: Journal, end: EndFile, claim: StandingClaim, job: TruncateJob) -> None:
    """Cut the log behind an entry: files first, then what stands behind it in its own."""
    claim.note_cut(job)
    end.remove(job.removed)
    if job.start < job.end:
        file = end.of(job.segment)
        if job.keep_in is not None:
            keep_bytes(journal.disk, job.keep_in, job.segment, file, job.start, job.end)
        zero_backwards(file, job.start, job.end)
    if job.after_index < journal.durable_index:
        journal.tail.durable_index = job.after_index
        journal.tail.durable_chain = job.chain
    if job.claim is not None:
        journal.ballot_file.forget_large()


def reset(journal: Journal, end: EndFile, claim: StandingClaim, job: ResetJob) -> None:
    """Throw the whole log away; the next entry begins it anew."""
    claim.value = job.claim
    begin_anew(journal, end, claim, job)
    claim.note_begin(job.base_index, job.previous_chain)
    journal.tail.durable_index = job.base_index - 1
    journal.tail.durable_chain = job.previous_chain
    end.is_empty = True


def begin_anew(journal: Journal, end: EndFile, claim: StandingClaim, job: ResetJob) -> None:
    """
    Take every file of the log away, so that it can begin at another entry.

    Where the log begins is noted before, so that nothing older counts and nothing of it is
    missed, and again after the last file went: whatever is left of it before that is a log.
    """
    filling = job.filling
    is_set_aside = filling is not None and job.is_set_aside
    end.close()
    removed = [] if end.is_empty else job.removed
    if removed:
        header = removed[0].header
        claim.note_begin(header.base_index, header.previous_chain)
    names = {it.path.name for it in removed}
    # A file that was made and has no entry is no part of what is kept.
    kept = names.intersection(filling.kept_files) if filling and is_set_aside else names
    journal.housekeeper.clear_away(kept, job.base_index)
    directory, sync = journal.directory, journal.housekeeper.sync_directory
    if filling is not None and is_set_aside:
        paths = [it.path for it in removed if it.path.name in kept]
        set_aside(directory, journal.disk, filling, paths, sync)
        return
    if filling is not None:
        renew_note(directory, journal.disk, filling)
    end.remove(removed)


def repair(disk: Disk, job: RepairJob) -> None:
    """
    Write a good copy over a damaged entry, and read it back.

    Raises:
        OSError: It reads back wrong, or the disk refused.
    """
    if job.is_void:
        return
    try:
        file = disk.open(job.segment.path)
    except FileNotFoundError:
        if job.is_void:
            return  # dropped since it was looked at; its removal is another thread's
        raise
    raw = job.entry.raw
    try:
        file.write_durable([raw], job.start)
        if file.read(len(raw), job.start) != raw:
            raise OSError(errno.EIO, f"repaired entry {job.entry.index:,} reads back wrong")
    finally:
        file.close()
