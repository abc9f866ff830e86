"""
What is found in the directories that an operator gives, before anything of it is believed.

Invariants:
    A directory that is found is locked; whoever looks gives the locks back or hands them on.
    Each call to a directory is bounded: one that hangs, on reading too, holds no start up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from holdfast.environment.bounded_disk import BoundedDisk, HangingError
from holdfast.environment.disk import DirectoryLock, Disk
from holdfast.environment.lock_holder import in_use
from holdfast.errors import (
    ForeignMirrorError,
    MirrorError,
    MirrorHistoriesError,
    MirrorsLostError,
    MirrorsMissingError,
)
from holdfast.mirrors.filling import files_below
from holdfast.mirrors.lanes import InTurn, Lanes
from holdfast.mirrors.mirror import LOCK_NAME
from holdfast.mirrors.mirror_set import MirrorSet
from holdfast.mirrors.set_file import WrittenSet, read_set, write_set


@dataclass(eq=False, slots=True)
class Found:
    """One directory."""

    directory: Path
    disk: BoundedDisk
    """It may be one that hangs."""

    lock: DirectoryLock | None = None
    written: WrittenSet | None = None
    real: Path = Path()
    """Where that really is."""

    is_empty: bool = False
    """Nothing of a store is in it."""
    problem: str = ""
    """Why it cannot be used."""

    @property
    def member(self) -> str:
        """Which member it is, if it is one."""
        return self.written.member if self.written is not None else ""

    def write(self, known: MirrorSet, places: Mapping[str, str]) -> None:
        """
        Write this as what it knows.

        Raises:
            OSError: The disk refused.
        """
        assert self.written is not None, "it is no member"
        self.written = WrittenSet(self.member, known, places, self.written.sequence + 1)
        write_set(self.directory, self.disk, self.written)

    def release(self) -> None:
        """Let others have it."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None
        self.disk.end()


@dataclass(slots=True)
class FoundAll:
    """All of them."""

    each: list[Found] = field(default_factory=list)

    @property
    def members(self) -> dict[str, Found]:
        """Those that are members of a set and can be used, by member."""
        return {it.member: it for it in self.each if it.written is not None and not it.problem}

    @property
    def copies(self) -> dict[str, MirrorSet]:
        """What they say of their set."""
        return {member: it.written.known for member, it in self.members.items() if it.written}

    def places(self) -> dict[str, str]:
        """Where each member is, or was when it was last seen."""
        newest = max(
            (it.written for it in self.members.values() if it.written),
            key=lambda it: it.known.number,
            default=None,
        )
        places = dict(newest.places) if newest is not None else {}
        places.update({member: str(it.directory) for member, it in self.members.items()})
        return places

    def release(self) -> None:
        """Let others have them."""
        for found in self.each:
            found.release()

    def named(self, error: MirrorError) -> MirrorError:
        """The same error with directories in place of members."""
        places = self.places()

        def names(members: Iterable[str]) -> list[str]:
            return [places.get(it) or (it if "/" in it else f"member {it}") for it in members]

        if isinstance(error, MirrorsMissingError):
            given = " ".join(f"--data {it.directory}" for it in self.members.values())
            reasons = "".join(f"; {it.problem}" for it in self.each if it.problem)
            if self.members and not error.found:
                return MirrorsMissingError(
                    names(error.missing),
                    names(error.found),
                    f"what was given was left behind by them and lacks what was confirmed since:"
                    f" give one of them{reasons}",
                )
            return MirrorsMissingError(
                names(error.missing),
                names(error.found),
                f"give them too, or, if they are gone for good, go on without them by"
                f" 'holdfast mirror accept {given}'{reasons}",
            )
        if isinstance(error, MirrorsLostError):
            return MirrorsLostError(names(error.lost), names(error.left))
        if isinstance(error, ForeignMirrorError | MirrorHistoriesError):
            first, second = names((error.first, error.second))
            if isinstance(error, ForeignMirrorError):
                return ForeignMirrorError(first, second)
            return MirrorHistoriesError(first, second, error.where)
        return error


def require_apart(places: Sequence[tuple[Path, Path]]) -> None:
    """
    Make sure that no mirror is inside another one: it would be copied into itself without end.

    Args:
        places: Each directory, and where that really is.

    Raises:
        MirrorError: One is, or is another one by a different name.
    """
    for place, (first, here) in enumerate(places):
        for second, there in places[place + 1 :]:
            if here == there:
                raise MirrorError(
                    f"{first} and {second} are the same directory: give each mirror one of its own,"
                    f" on a disk of its own"
                )
            if here in there.parents or there in here.parents:
                inner, outer = (second, first) if here in there.parents else (first, second)
                raise MirrorError(
                    f"{inner} is inside {outer}: mirrors must stand apart; give directories of"
                    f" which none holds another"
                )


def bounded(disk: Disk, directory: Path, lanes: Lanes) -> BoundedDisk:
    """Give a disk that is not waited for without end; one that is, is given as it is."""
    if isinstance(disk, BoundedDisk):
        return disk
    return BoundedDisk(disk, directory, lanes.calls(str(directory)))


def look(
    directories: Sequence[Path],
    disk_of: Callable[[Path], Disk],
    lanes: Lanes | None = None,
) -> FoundAll:
    """
    Lock each directory, made if need be, and read what it knows; give what is found.

    One that does not answer is a problem of that one: of several, it is waited for a while longer
    than for another one; if none answers, for `LOOK_SECONDS`.

    Raises:
        StoreLockedError: Another process has one of them.
        MirrorError: Two of them are the same member: one is a copy of the other.
    """
    lanes = lanes or InTurn()
    found = FoundAll()
    for directory in directories:
        found.each.append(Found(directory, bounded(disk_of(directory), directory, lanes)))
    _each(found.each, lanes, _find)
    require_apart([(it.directory, it.real) for it in found.each if not it.problem])
    try:
        _each([it for it in found.each if not it.problem], lanes, _look_at)
        seen: dict[str, Path] = {}
        for it in found.each:
            if it.member in seen:
                raise MirrorError(
                    f"{it.directory} is a copy of {seen[it.member]}, not a mirror of its own:"
                    f" empty it, and it is filled"
                )
            if it.member:
                seen[it.member] = it.directory
    except BaseException:
        found.release()
        raise
    return found


def peek(directories: Sequence[Path], disk: Disk, lanes: Lanes | None = None) -> FoundAll:
    """The same without locks, and without making anything: also beside a running node."""
    lanes = lanes or InTurn()
    found = FoundAll([Found(it, bounded(disk, it, lanes)) for it in directories])
    _each(found.each, lanes, _peek_at)
    return found


def _peek_at(found: Found) -> None:
    try:
        found.written = read_set(found.directory, found.disk)
    except OSError as error:
        found.problem = f"{found.directory} cannot be read: {error.strerror or error}"
    except MirrorError as error:
        found.problem = str(error)


def _unusable(directory: Path, error: OSError) -> str:
    if isinstance(error, HangingError):
        return (
            f"{directory} does not answer: {error.strerror}; see that its disk is well, or, on a"
            f" network, that its server answers, and start again"
        )
    return (
        f"{directory} cannot be used: {error.strerror or error}; see that it is mounted, and that"
        f" this user may write there"
    )


def _each(each: Sequence[Found], lanes: Lanes, act: Callable[[Found], None]) -> None:
    """Do this with each at the same time; one that hangs is left, and has that for its problem."""
    outcomes = lanes.run([(str(it.directory), partial(act, it)) for it in each]) if each else []
    for it, (_, error) in zip(each, outcomes, strict=True):
        if isinstance(error, HangingError):
            it.disk.leave()
            it.problem = _unusable(it.directory, error)
        elif error is not None:
            raise error


def _find(found: Found) -> None:
    """Find out where it really is; it need not be there yet."""
    try:
        # Links that lead round in a circle are no error here: to use them is.
        found.real = Path(found.disk.ask(partial(os.path.realpath, found.directory)))
    except OSError as error:
        found.problem = _unusable(found.directory, error)


def _look_at(found: Found) -> None:
    directory, disk = found.directory, found.disk
    try:
        disk.make_directory(directory)
        found.lock = disk.lock(directory / LOCK_NAME)
        found.written = read_set(directory, disk)
        found.is_empty = found.written is None and not files_below(disk, directory)
    except BlockingIOError as error:
        raise in_use(directory, error) from None
    except OSError as error:
        found.problem = _unusable(directory, error)
    except MirrorError as error:
        found.problem = str(error)
