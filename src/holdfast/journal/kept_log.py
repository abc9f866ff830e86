"""
A log that is begun anew stands beside the one it replaces until it has what that one had.

A replica that is too far behind what the leader keeps must begin at a later entry. What lives of
the entries before was written again further on, so the new log is worth something only once it
reaches `target_index`, the end of the leader's log when it was begun. Until then the files of the
old log are kept in the folder `before-reset`, with a note of what is missing; if the leader is lost
meanwhile, an operator can take them back.

Invariants:
    The old files are moved before the first entry of the new log is written, and given up only
    after its target is committed and durable here, or durable when it is begun anew once more; by a
    voter also where there is no room for both.
    What is only staged does not count: the writer may not even have moved the old files.
    The note is there while the new log rules and has not reached its target, and then, under a
    name that says so, until the last of the old files is gone. Without it, a move was cut short:
    the old files go back, and the log is what it was.
    No two beginnings have one origin while anything of the first is there; the later one's is the
    higher, also where a log is begun anew before the one it replaces.
    A log taken back is begun with the wish, noted durably; a crash in between finishes it.

Written by the journal's writer, read at start and by the loop; taking back needs a stopped node.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final, NamedTuple

from google_crc32c import value as crc32c

from holdfast.environment.disk import Disk, read_all
from holdfast.errors import StoreError
from holdfast.journal.ballot import BallotFile
from holdfast.journal.filling import Filling, Target
from holdfast.journal.housekeeper import Note, put_aside
from holdfast.journal.segment import base_index_of

KEPT_DIRECTORY: Final = "before-reset"
_NOTE: Final = ".filling"
_FULL_NOTE: Final = ".full.filling"
_DRAFT: Final = ".filling.tmp"
_TAKING_BACK: Final = ".taking-back"
_SEGMENT: Final = ".segment"
_PREFIX_LENGTH: Final = 20


class Superfluous(NamedTuple):
    """What was kept beside a log that is full, as far as it is still there."""

    origin: int
    paths: list[Path]
    note: Note


def load_filling(directory: Path, disk: Disk) -> tuple[Filling | None, list[Superfluous]]:
    """
    Return what is being filled, after finishing or undoing what a crash cut short.

    With it what was kept beside logs that were full already, and is still to be removed.

    Raises:
        StoreError: The note is damaged: which of the two logs is whole cannot be told.
    """
    kept = directory / KEPT_DIRECTORY
    if not disk.exists(kept):
        return None, []
    # What a process did here that was killed before it synced must not be undone by a power cut:
    # an order to take back that comes again would remove what was stored since.
    disk.sync_directory(kept)
    names = disk.list_directory(kept)
    begun = [name for name in names if name.endswith(_TAKING_BACK)]
    for name in begun:
        _finish_taking_back(directory, disk, name)
    if begun:
        names = disk.list_directory(kept)
    notes = [name for name in names if name.endswith(_NOTE)]
    known = {name[:_PREFIX_LENGTH] for name in notes}
    undone = [it for it in names if it.endswith(_SEGMENT) and it[:_PREFIX_LENGTH] not in known]
    for name in undone:
        disk.rename(kept / name, directory / "journal" / name[_PREFIX_LENGTH + 1 :])
    if undone:
        disk.sync_directory(directory / "journal")
        disk.sync_directory(kept)
    # A later reset is begun only after an earlier one was full, and so is what is taken back:
    # then its removal was cut short.
    is_filling = bool(notes) and not begun and not notes[-1].endswith(_FULL_NOTE)
    full = notes[:-1] if is_filling else notes
    present = _read(kept / notes[-1], disk) if is_filling else None
    return present, [_superfluous(directory, name, names) for name in full]


def _superfluous(directory: Path, note: str, names: list[str]) -> Superfluous:
    """By the names alone: a note that cannot be read any more is not needed for that."""
    prefix = note[:_PREFIX_LENGTH]
    kept = directory / KEPT_DIRECTORY
    paths = [kept / it for it in names if it.startswith(prefix) and it.endswith(_SEGMENT)]
    return Superfluous(int(prefix), paths, _note(directory, int(prefix)))


def set_aside(
    directory: Path,
    disk: Disk,
    filling: Filling,
    paths: Sequence[Path],
    sync_log_directory: Callable[[], None],
) -> None:
    """Move the files of a log out of the way, newest first, and note it once they are."""
    disk.make_directory(directory / KEPT_DIRECTORY)
    for path in reversed([it for it in paths if disk.exists(it)]):  # The rest is moved already.
        disk.rename(path, _kept_path(directory, filling, path.name))
    disk.sync_directory(directory / KEPT_DIRECTORY)
    sync_log_directory()
    # What found no room was never a file: it is no part of what can be taken back.
    names = tuple(
        it for it in filling.kept_files if disk.exists(_kept_path(directory, filling, it))
    )
    kept = filling.kept if names else None
    note_filling(directory, disk, replace(filling, kept=kept, kept_files=names))


def renew_note(directory: Path, disk: Disk, filling: Filling) -> None:
    """Note that the new log is begun anew itself; what is kept beside it stays what it is."""
    try:
        noted = _read(directory / KEPT_DIRECTORY / f"{filling.origin:020d}{_NOTE}", disk)
    except (StoreError, FileNotFoundError):
        noted = filling  # It is written anew, whatever became of it.
    kept = noted.kept if filling.kept else None
    note_filling(directory, disk, replace(filling, kept=kept, kept_files=noted.kept_files))


def note_filling(directory: Path, disk: Disk, filling: Filling) -> None:
    """Write the note durably, in the place of an older one."""
    kept = directory / KEPT_DIRECTORY
    disk.make_directory(kept)
    body = json.dumps(asdict(filling), sort_keys=True).encode()
    draft = kept / f"{filling.origin:020d}{_DRAFT}"
    file = disk.open(draft, create=True)
    try:
        file.truncate(0)
        file.write(crc32c(body).to_bytes(4, "little") + body, 0)
        file.sync()
    finally:
        file.close()
    disk.rename(draft, kept / f"{filling.origin:020d}{_NOTE}")
    disk.sync_directory(kept)


def kept_paths(directory: Path, filling: Filling) -> tuple[list[Path], Note]:
    """The old files, to be removed once the new log is full, and the note, which goes last."""
    paths = [_kept_path(directory, filling, name) for name in filling.kept_files]
    return paths, _note(directory, filling.origin)


def _note(directory: Path, origin: int) -> Note:
    kept = directory / KEPT_DIRECTORY
    return Note(kept / f"{origin:020d}{_NOTE}", kept / f"{origin:020d}{_FULL_NOTE}")


def take_back(directory: Path, disk: Disk) -> Filling:
    """
    Put the kept log in the place of the one that is not full; the node must be stopped.

    Only for a node that is promoted by force afterwards: what it had told the others of the new
    log it does not hold any more.

    Raises:
        StoreError: There is no kept log, or a part of it is gone already.
        BallotLostError: The ballot cannot be read.
    """
    filling = require_kept(directory, disk)
    kept = directory / KEPT_DIRECTORY
    begun = f"{filling.origin:020d}{_TAKING_BACK}"
    disk.rename(kept / f"{filling.origin:020d}{_NOTE}", kept / begun)
    disk.sync_directory(kept)
    _finish_taking_back(directory, disk, begun)
    return filling


def give_up_older(directory: Path, disk: Disk) -> Filling:
    """
    Remove the kept log for good, so that the one that replaces it has room; the node is stopped.

    Only where the leader and what it keeps are safe: until the new log is full, this node holds no
    whole copy.

    Raises:
        StoreError: There is no kept log, or a file of it cannot be removed.
    """
    filling, _ = load_filling(directory, disk)
    if filling is None or filling.kept is None:
        raise StoreError(f"{directory} keeps no older log: there is nothing to give up")
    refused = ""
    for path in kept_paths(directory, filling)[0]:
        try:
            disk.unlink(path)
        except OSError as error:
            refused = f"{path} cannot be removed: {error}"
    disk.sync_directory(directory / KEPT_DIRECTORY)
    if refused:
        raise StoreError(f"{refused}; what else was kept is gone, give it up once more after that")
    # After the files: until it says so, a crash leaves one that can be given up again.
    note_filling(directory, disk, replace(filling, kept=None, kept_files=()))
    return filling


def require_kept(directory: Path, disk: Disk) -> Filling:
    """
    Return the note of a log that can be taken back.

    Raises:
        StoreError: There is none, or a part of it is gone already; or an order to take it back was
            cut short, by a refused rename for instance: that is finished first, and said.
    """
    kept = directory / KEPT_DIRECTORY
    names = disk.list_directory(kept) if disk.exists(kept) else []
    filling, _ = load_filling(directory, disk)
    if any(name.endswith(_TAKING_BACK) for name in names):
        raise StoreError(
            f"{directory}: the older log was being taken back, which is finished now; start the"
            f" node and use 'holdfast cluster promote NAME --force'"
        )
    if filling is None or filling.kept is None:
        raise StoreError(f"{directory} keeps no older log: there is nothing to take back")
    for name in filling.kept_files:
        if not disk.exists(_kept_path(directory, filling, name)):
            raise StoreError(
                f"{name} of the older log is gone: its removal had begun, because the new log"
                f" had everything, or the disk no room for both"
            )
    return filling


def _finish_taking_back(directory: Path, disk: Disk, begun: str) -> None:
    kept, log = directory / KEPT_DIRECTORY, directory / "journal"
    filling = _read(kept / begun, disk)
    first = base_index_of(filling.kept_files[0]) or 1
    for name in reversed(disk.list_directory(log)):
        base = base_index_of(name)
        if base is not None and name not in filling.kept_files:
            try:
                put_aside(disk, log / name)
            except OSError:
                if base >= first:
                    raise
                # One that was to be removed before: it comes before the log, and is left out.
    disk.sync_directory(log)
    for name in filling.kept_files:
        if disk.exists(_kept_path(directory, filling, name)):
            disk.rename(_kept_path(directory, filling, name), log / name)
    disk.sync_directory(log)
    disk.sync_directory(kept)
    ballot_file = BallotFile(directory / "ballot", disk)
    try:
        ballot_file.load()
        ballot_file.begin_log(first)
    finally:
        ballot_file.close()
    try:
        disk.unlink(kept / begun)
    except OSError:
        # It must not stay: done once more, later, this would remove what came since.
        disk.rename(kept / begun, kept / f"{filling.origin:020d}{_DRAFT}")
    disk.sync_directory(kept)


def _kept_path(directory: Path, filling: Filling, name: str) -> Path:
    """Where a file is kept: names carry their origin, so that no two resets meet in one."""
    return directory / KEPT_DIRECTORY / f"{filling.origin:020d}-{name}"


def _read(path: Path, disk: Disk) -> Filling:
    data = read_all(disk, path)
    body = data[4:]
    if len(data) < 4 or crc32c(body) != int.from_bytes(data[:4], "little"):
        raise StoreError(
            f"{path} is damaged: it tells how far the new log is to be filled; keep the data"
            f" directory for inspection and start this node with an empty one"
        )
    fields = json.loads(body)
    kept = fields["kept"]
    return Filling(
        origin=fields["origin"],
        base_index=fields["base_index"],
        target=Target(**fields["target"]),
        kept=None if kept is None else Target(**kept),
        kept_files=tuple(fields["kept_files"]),
        is_of_voter=fields.get("is_of_voter", False),  # Earlier versions did not note it.
    )
