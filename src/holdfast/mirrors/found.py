"""
What is found in the directories that an operator gives, before anything of it is believed.

Invariants:
    A directory that is found is locked; whoever looks gives the locks back or hands them on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
from holdfast.mirrors.mirror import LOCK_NAME
from holdfast.mirrors.mirror_set import MirrorSet
from holdfast.mirrors.set_file import WrittenSet, read_set, write_set


@dataclass(eq=False, slots=True)
class Found:
    """One directory."""

    directory: Path
    disk: Disk
    lock: DirectoryLock | None = None
    written: WrittenSet | None = None
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


def require_apart(directories: Sequence[Path]) -> None:
    """
    Make sure that no mirror is inside another one: it would be copied into itself without end.

    Raises:
        MirrorError: One is, or is another one by a different name.
    """
    real = [(it, it.resolve()) for it in directories]
    for place, (first, here) in enumerate(real):
        for second, there in real[place + 1 :]:
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


def look(directories: Sequence[Path], disk_of: Callable[[Path], Disk]) -> FoundAll:
    """
    Lock each directory, made if need be, and read what it knows; give what is found.

    Raises:
        StoreLockedError: Another process has one of them.
        MirrorError: Two of them are the same member: one is a copy of the other.
    """
    require_apart(directories)
    found = FoundAll()
    try:
        for directory in directories:
            found.each.append(_look_at(directory, disk_of(directory)))
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


def peek(directories: Sequence[Path], disk: Disk) -> FoundAll:
    """The same without locks, and without making anything: also beside a running node."""
    found = FoundAll()
    for directory in directories:
        it = Found(directory, disk)
        found.each.append(it)
        try:
            it.written = read_set(directory, disk)
        except OSError as error:
            it.problem = f"{directory} cannot be read: {error.strerror or error}"
        except MirrorError as error:
            it.problem = str(error)
    return found


def _unusable(directory: Path, error: OSError) -> str:
    return (
        f"{directory} cannot be used: {error.strerror or error}; see that it is mounted, and that"
        f" this user may write there"
    )


def _look_at(directory: Path, disk: Disk) -> Found:
    found = Found(directory, disk)
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
    return found
