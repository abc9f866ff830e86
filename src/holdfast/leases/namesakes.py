"""
Whether another living broker has the name of this one.

What a broker tells stands under its name, so that one that comes again is the same broker. Two that
live under one name, as where a data directory was copied with its settings, write over each other's
line: who serves does not see the other one wait, and cleans what that one needs. The lease does not
mind, as it is held by a process and not by a name; so whoever comes later is refused before it does
anything.

Whose line it is says the id of its process. The last ones of this very directory are kept in a file
there, which only one process has at a time: those are gone, and a broker that was killed comes back
at once. A copy of a directory is another one and has none. Any other one is watched for as long as
a living one would take to tell of itself anew.

Used by the worker's thread only.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.environment.disk import Disk, read_all
from holdfast.errors import StoreError, UnreachableError
from holdfast.leases.contract import Waiter
from holdfast.leases.orders import Namesake

logger = logging.getLogger("holdfast.leases")

FILE_NAME: Final = "instances"
WATCH_BEATS: Final = 3
"""So many times a living one would have told of itself while it is watched."""
_BEATS_ON_THE_WAY: Final = 1
"""A process that has ended left no more than one that takes effect later."""
_MACHINE_ID: Final = Path("/etc/machine-id")
_KEPT_MAX: Final = 8
"""Processes of this directory that are remembered: the last one may not have come to tell."""


def stamp_of(directory: Path, machine_id: Path = _MACHINE_ID) -> str:
    """
    Tell a directory from a copy of it, as far as its machine and file system do.

    On two machines the roots of two file systems have the same numbers, so the machine is in it.

    Raises:
        OSError: It cannot be looked at.
    """
    found = os.stat(directory)  # noqa: PTH116 - the fields, and nothing of a path
    machine = ""
    with suppress(OSError):
        machine = machine_id.read_text().strip()
    return f"{machine}:{found.st_dev}:{found.st_ino}"


class Namesakes:
    """Judges the lines that stand under the name of this broker."""

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        clock: Callable[[], float],
        *,
        name: str,
        holder: str,
        tell_seconds: float,
        stamp: Callable[[Path], str] = stamp_of,
    ) -> None:
        """
        Read which processes of this directory there were; nothing is written yet.

        Args:
            directory: The broker's own, which it has locked.
            holder: The id of this process.
            tell_seconds: How often a broker tells of itself.
        """
        self._path = directory / FILE_NAME
        self._disk = disk
        self._clock = clock
        self._name = name
        self._holder = holder
        self._watch_seconds = WATCH_BEATS * tell_seconds
        self._stamp = ""
        with suppress(OSError):
            self._stamp = stamp(directory)
        self._before = _load(self._path, disk, self._stamp)
        self._watched: dict[str, tuple[int, int, float]] = {}
        """By process: its last beat, how often that grew, and since when it stands."""
        self._reported = ""
        self._is_clear = False

    def judge(self, lines: Iterable[Waiter], place: str) -> None:
        """
        See that nobody else has this name, before anything is told under it.

        Raises:
            UnreachableError: That is not known yet: the same again, soon.
            StoreError: Somebody has.
        """
        if self._is_clear:
            return
        other = self._other(lines)
        if other is not None:
            admin = other.claimant.admin or "an unknown address"
            _, grown, since = self._watch(other)
            if grown > _BEATS_ON_THE_WAY:
                raise StoreError(
                    f"another broker called {self._name} uses {place} (its admin port: {admin}):"
                    f" give each its own --name and its own --data, no copy of the other's; nothing"
                    f" was changed by this one"
                )
            if self._clock() - since < self._watch_seconds:
                raise UnreachableError(
                    f"a broker called {self._name} was here that did not run on"
                    f" {self._path.parent} (its admin port: {admin}): it is gone if nothing more is"
                    f" heard of it for {self._watch_seconds:g} s"
                )
        self._is_clear = True
        self._save()

    def ran_here(self, holder: str) -> bool:
        """
        Whether that is an earlier process of this directory, which has ended.

        A copy of a directory may look like its original: what is known of that one by its beats
        counts for more.
        """
        return holder in self._before

    def meet(self, lines: Iterable[Waiter], place: str) -> Namesake | None:
        """
        Look at what was read before this broker tells anew: a line of another's was no relic.

        One that is said to have run on this directory does live as well where it tells more: then
        the directory is a copy that looks like its original.

        Returns:
            Who it is; None while this broker is the only one of its name.
        """
        other = next((it for it in self._own(lines) if it.claimant.holder != self._holder), None)
        if other is None:
            return None
        holder = other.claimant.holder
        _, grown, _ = self._watch(other)
        if grown <= _BEATS_ON_THE_WAY and holder != self._reported:
            return None
        admin = other.claimant.admin or "an unknown address"
        told = (
            f"another broker called {self._name} uses {place} (its admin port: {admin}): stop one"
            f" of the two, and give it its own --name and its own --data; until then neither sees"
            f" the other wait"
        )
        if holder != self._reported:
            self._reported = holder
            logger.error(told)
        return Namesake(holder, told)

    def _own(self, lines: Iterable[Waiter]) -> Iterator[Waiter]:
        """Those that stand under our name."""
        return (it for it in lines if it.claimant.name == self._name)

    def _other(self, lines: Iterable[Waiter]) -> Waiter | None:
        known = {self._holder, *self._before}
        return next((it for it in self._own(lines) if it.claimant.holder not in known), None)

    def _watch(self, other: Waiter) -> tuple[int, int, float]:
        holder = other.claimant.holder
        found = self._watched.get(holder)
        if found is None:
            found = (other.beat, 0, self._clock())
        elif other.beat > found[0]:
            found = (other.beat, found[1] + 1, self._clock())
        self._watched = {holder: found}
        return found

    def _save(self) -> None:
        """Remember this process; without that the next one watches the line of this one."""
        holders = [self._holder, *self._before][:_KEPT_MAX]
        body = json.dumps({"directory": self._stamp, "processes": holders}).encode()
        draft = self._path.with_suffix(".tmp")
        with suppress(OSError):
            file = self._disk.open(draft, create=True)
            try:
                file.truncate(0)
                file.write(body, 0)
            finally:
                file.close()
            self._disk.rename(draft, self._path)


def _load(path: Path, disk: Disk, stamp: str) -> list[str]:
    """The processes of this directory, the last one first; none where it is a copy."""
    try:
        fields = json.loads(read_all(disk, path))
        is_own = bool(stamp) and fields["directory"] == stamp
        return [str(it) for it in fields["processes"]] if is_own else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
