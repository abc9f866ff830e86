"""
Take several directories at start: judge their sets, make their logs alike, and give one disk.

What a log is, this package does not know: who opens a store hands in what makes logs alike.

Invariants:
    Nothing of a member's log is changed before the set says that this start may go by it.
    Before the disk is given, every active mirror has the same bytes in the same files.
    A directory with a log that is of no mirror set, or of another one, is never filled over.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.environment.bounded_disk import BoundedDisk, HangingError
from holdfast.environment.disk import Disk, write_part
from holdfast.errors import ForeignMirrorError, MirrorError, MirrorsMissingError, StoreError
from holdfast.mirrors.caretaker import Caretaker
from holdfast.mirrors.disk import MirroredDisk
from holdfast.mirrors.filling import PIECE_BYTES, Rescued, files_below
from holdfast.mirrors.found import Found, FoundAll, bounded, look, require_apart
from holdfast.mirrors.mirror import Mirror
from holdfast.mirrors.mirror_set import Holding, MirrorSet, MirrorState, Start, accept, found_set
from holdfast.mirrors.set_file import WrittenSet, read_set
from holdfast.mirrors.set_keeper import SetKeeper

if TYPE_CHECKING:
    from holdfast.mirrors.lanes import Lanes
    from holdfast.mirrors.settings import MirrorSettings

Equalize = Callable[[Sequence[tuple[Path, Disk]]], int]
"""Mend the damage of each log by the others, refuse logs that differ, and name the longest."""

logger = logging.getLogger("holdfast.mirrors")


class MirrorOpening:
    """One start with these directories."""

    def __init__(
        self,
        directories: Sequence[Path],
        disk_of: Callable[[Path], Disk],
        settings: MirrorSettings,
        *,
        equalize: Equalize,
        rescued: Rescued,
        lanes: Lanes,
        new_id: Callable[[], str],
    ) -> None:
        self._base = directories[0]
        self._disk_of = disk_of
        self._settings = settings
        self._equalize = equalize
        self._rescued = rescued
        self._lanes = lanes
        self._new_id = new_id
        self._set_id = ""
        self._bounded: dict[Path, BoundedDisk] = {}
        self._found = self._look(directories)

    def open(self) -> Caretaker:
        """
        Give the disk, with who looks after it; its directories are locked.

        Raises:
            MirrorError: They are not of one set, too few of them are there, or their logs differ.
            StoreError: A log cannot be served.
            OSError: Too few of them could be written.
        """
        found = self._found
        try:
            if not found.copies:
                self._make_a_set()
            start = self._promise()
            keeper = self._begin(start)
            locks = [it.lock for it in found.each if it.lock is not None]
            disk = MirroredDisk(self._base, keeper, locks)
            caretaker = Caretaker(disk, self._settings, self._admit, self._rescued)
            self._make_alike(keeper)
            self._rescue(keeper)
            self._ask_in_lanes(keeper)
            self._take_in(keeper)
            if not any(it.disk.exists(it.directory / "ballot") for it in keeper.active):
                while caretaker.turn() >= 0:  # Nothing is stored yet: all begin together.
                    pass
        except MirrorError as error:
            found.release()
            raise found.named(error) from None
        except BaseException:
            found.release()
            raise
        return caretaker

    def _look(self, directories: Sequence[Path]) -> FoundAll:
        found = look(directories, self._bounded_disk, self._lanes)
        for it in found.each:
            it.disk.seconds = self._settings.timeout_seconds
        return found

    def _bounded_disk(self, directory: Path) -> BoundedDisk:
        """Give the disk of a directory: the same for as long as a call to it hangs."""
        disk = self._bounded.get(directory)
        if disk is None or not disk.is_hanging:
            disk = bounded(self._disk_of(directory), directory, self._lanes)
            self._bounded[directory] = disk
        return disk

    def _make_a_set(self) -> None:
        """Let what is there, or nothing, be the first mirror; the others are filled by it."""
        each = self._found.each
        problems = [it.problem for it in each if it.problem]
        if problems:
            raise MirrorError("; ".join(problems))
        full = [it for it in each if not it.is_empty]
        if len(full) > 1:
            raise MirrorError(
                f"{full[0].directory} and {full[1].directory} both hold a log, and neither is a"
                f" mirror of the other: give the one to be kept with empty directories"
            )
        first = full[0] if full else each[0]
        member = self._new_id()
        first.written = WrittenSet(member, found_set(self._new_id() * 2, [member]))
        first.write(first.written.known, self._found.places())
        first.is_empty = False

    def _promise(self) -> Start:
        """Judge what is found until all that is gone by could be written."""
        found = self._found
        while True:
            if not found.copies:  # Each was one of a set, and could not be written.
                raise MirrorError("; ".join(it.problem for it in found.each if it.problem))
            start = Start(found.copies)
            places, failed = found.places(), False
            for member, copy in start.promise().items():
                it = found.members[member]
                try:
                    it.write(copy, places)
                except OSError as error:
                    it.problem = f"{it.directory} cannot be written: {error.strerror or error}"
                    failed = True
            if not failed:
                return start

    def _begin(self, start: Start) -> SetKeeper:
        """Write the set that is gone on with, first on those that do not count any more."""
        found, begun = self._found, start.begin()
        self._set_id = begun.set_id
        holding = Holding(begun)
        members = found.members
        for member in start.witnesses - start.holds:
            try:
                members[member].write(begun, found.places())
                holding.written([member])
            except OSError as error:
                members[member].problem = f"{members[member].directory}: {error}"
        mirrors = [self._mirror(it, begun) for it in found.each if it.member or it.problem]
        keeper = SetKeeper(mirrors, holding, self._lanes)
        keeper.places = found.places()
        keeper.write_until_it_stands()
        return keeper

    def _mirror(self, it: Found, begun: MirrorSet) -> Mirror:
        member = it.member
        if not member:
            was_here = [
                key for key, place in self._found.places().items() if place == str(it.directory)
            ]
            member = next(iter(was_here), "")
        state: MirrorState = "failed" if it.problem else begun.state_of(member) or "failed"
        mirror = Mirror(member, it.directory, it.disk, self._base, state, it.problem)
        mirror.is_under_way = lambda: it.disk.is_hanging
        mirror.sequence = it.written.sequence if it.written is not None else 0
        return mirror

    def _make_alike(self, keeper: SetKeeper) -> None:
        """Give every active mirror what the one with the longest log has."""
        while len(active := list(keeper.active)) > 1:
            try:
                place = self._equalize([(it.directory, it.disk) for it in active])
            except (OSError, StoreError):
                if not self._leave_hanging(keeper):
                    raise
            else:
                # What was read of one that hung is not judged by: without it, once more.
                if not self._leave_hanging(keeper):
                    break
        else:
            return
        self._copy(active[place], active, keeper)
        self._leave_hanging(keeper)

    def _leave_hanging(self, keeper: SetKeeper) -> bool:
        """Go on without the mirrors that hang; gives whether there was one."""
        hanging = [it for it in self._found.each if it.disk.has_hung and not it.problem]
        for it in hanging:
            it.problem = f"{it.directory} does not answer: {HangingError(it.disk.seconds).strerror}"
        failed = {
            mirror: it.problem
            for it in hanging
            for mirror in keeper.mirrors
            if mirror.directory == it.directory
        }
        if failed:
            keeper.fail(failed)
        return bool(failed)

    def _copy(self, source: Mirror, active: Sequence[Mirror], keeper: SetKeeper) -> None:
        for mirror in active:
            if mirror is source:
                continue
            try:
                count = copy_differences(source.disk, source.directory, mirror)
            except OSError as error:
                keeper.fail({mirror: error})
                continue
            if count:
                logger.warning(
                    "mirror %s was behind %s: %d bytes written",
                    mirror.directory,
                    source.directory,
                    count,
                )

    def _rescue(self, keeper: SetKeeper) -> None:
        """Take what those that were left behind have whole and no active one has: before the log
        is read, and before they are filled.
        """
        is_done = False
        while not is_done:
            try:
                self._rescue_from_all(keeper)
                is_done = True
            except HangingError:
                pass
            # What of an active one could not be read or written is not judged by.
            is_done = not self._leave_hanging(keeper) and is_done

    def _rescue_from_all(self, keeper: SetKeeper) -> None:
        active = list(keeper.active)
        source = active[0]
        members = {it.directory for it in active}
        for it in self._found.each:
            if it.problem or it.is_empty or it.written is None or it.directory in members:
                continue
            try:
                paths = list(files_below(it.disk, it.directory))
            except HangingError as error:
                it.problem = f"{it.directory} does not answer: {error.strerror}"
                continue
            for path in paths:
                here = source.directory / path.relative_to(it.directory)
                for offset, data in self._rescued((here, source.disk), (path, it.disk)):
                    for mirror in active:
                        there = mirror.directory / path.relative_to(it.directory)
                        write_part(mirror.disk, there, data, offset)
                    logger.error(
                        "%s mended by mirror %s, which was behind: %d bytes from byte %d",
                        here.name,
                        it.directory,
                        len(data),
                        offset,
                    )

    def _ask_in_lanes(self, keeper: SetKeeper) -> None:
        """From now on several are asked at once, and none is waited for longer than others."""
        for mirror in keeper.mirrors:
            mirror.disk = self._bounded[mirror.directory].unbounded
        for it in self._found.each:
            it.disk.end()

    def _take_in(self, keeper: SetKeeper) -> None:
        """Begin to fill those that are new or were left behind."""
        known = {it.directory: it for it in keeper.mirrors}
        for it in self._found.each:
            mirror = known.get(it.directory)
            is_behind = mirror is not None and mirror.state == "failed" and it.member
            if it.problem or not (it.is_empty or is_behind):
                if not it.problem and mirror is None and it.written is None:
                    raise ForeignMirrorError(str(keeper.active[0].directory), str(it.directory))
                continue
            mirror = self._new_mirror(it)
            gone = {
                member: None
                for member, place in keeper.places.items()
                if place == str(it.directory) and member != mirror.member
            }
            keeper.add(mirror)
            known_members = dict(keeper.holding.current.states)
            gone = {member: None for member in gone if member in known_members}
            keeper.change({**gone, mirror.member: "joining"})

    def _new_mirror(self, it: Found) -> Mirror:
        member = it.member or self._new_id()
        mirror = Mirror(member, it.directory, it.disk.unbounded, self._base, "joining")
        mirror.is_under_way = lambda: it.disk.is_hanging
        mirror.sequence = it.written.sequence if it.written is not None else 0
        return mirror

    def _admit(self, directory: Path) -> Mirror:
        """Take a directory while the store runs."""
        found = self._found
        known = self._bounded.get(directory)
        if known is not None and known.is_hanging:
            raise MirrorError(
                f"{directory} still hangs: what was asked of it last may yet be done; wait until it"
                f" answers, or give another directory"
            )
        self._require_apart(directory)
        for it in found.each:
            if it.directory == directory:
                it.release()
        fresh = self._look([directory])
        it = fresh.each[0]
        try:
            if it.problem:
                raise MirrorError(it.problem)
            if not it.is_empty and it.written is None:
                raise MirrorError(
                    f"{directory} holds a log that is no mirror of this store: give another"
                    f" directory, or empty it if nothing of that log is wanted"
                )
            if it.written is not None and it.written.known.set_id != self._set_id:
                raise MirrorError(
                    f"{directory} is a mirror of another store: give another directory, or empty it"
                    f" if nothing of that store is wanted"
                )
        except MirrorError:
            it.release()
            raise
        found.each = [other for other in found.each if other.directory != directory]
        found.each.append(it)
        return self._new_mirror(it)

    def _require_apart(self, directory: Path) -> None:
        """Before anything is made there."""
        seconds = self._settings.timeout_seconds
        find = partial(os.path.realpath, directory)
        ((real, error),) = self._lanes.within(seconds, [(str(directory), find)])
        if error is not None:
            raise MirrorError(f"{directory} cannot be used: {error}") from error
        others = [it for it in self._found.each if it.directory != directory]
        require_apart([(directory, Path(real)), *((it.directory, it.real) for it in others)])


def copy_differences(source: Disk, top: Path, mirror: Mirror) -> int:
    """
    Make the files of a mirror the same as those below `top`; give how many bytes were written.

    Raises:
        OSError: A disk refused.
    """
    wanted = {path.relative_to(top) for path in files_below(source, top)}
    there = {
        path.relative_to(mirror.directory) for path in files_below(mirror.disk, mirror.directory)
    }
    for name in there - wanted:
        mirror.disk.unlink(mirror.directory / name)
    count = 0
    for name in sorted(wanted):
        mirror.disk.make_directory((mirror.directory / name).parent)
        count += _copy_file(source, top / name, mirror.disk, mirror.directory / name)
    for parent in {(mirror.directory / name).parent for name in there | wanted}:
        if mirror.disk.exists(parent):
            mirror.disk.sync_directory(parent)
    return count


def _copy_file(source: Disk, path: Path, disk: Disk, copy: Path) -> int:
    count = 0
    reading = source.open(path, writable=False)
    try:
        writing = disk.open(copy, create=True)
        try:
            size = reading.size()
            if writing.size() != size:
                writing.truncate(size)
                count += 1
            for offset in range(0, size, PIECE_BYTES):
                data = reading.read(min(PIECE_BYTES, size - offset), offset)
                if writing.read(len(data), offset) != data:
                    writing.write(data, offset)
                    count += len(data)
            # What the cache shows may not be on the disk: its writer was killed before its sync.
            writing.sync()
        finally:
            writing.close()
    finally:
        reading.close()
    return count


def accept_found(found: FoundAll, mark: str) -> MirrorSet:
    """
    Go on with the directories found, whatever the missing ones have: an operator's word.

    Raises:
        MirrorError: They are of no set, of different ones, or none of them has everything.
        OSError: One of them could not be written.
    """
    copies = found.copies
    if not copies:
        raise MirrorsMissingError(["a directory with a mirror set"], [])
    try:
        accepted = accept(copies, mark)
    except MirrorError as error:
        raise found.named(error) from None
    places = found.places()
    for it in found.members.values():
        it.write(accepted, places)
    return accepted


def is_of_a_set(directory: Path, disk: Disk) -> bool:
    """Whether a directory is one of several mirrors, or was."""
    try:
        return read_set(directory, disk) is not None
    except (OSError, MirrorError):
        return disk.exists(directory / "mirror-set")
