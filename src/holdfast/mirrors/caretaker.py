"""
Who looks after running mirrors: fills those that are joining, and sees that the others are there.

One thread. It also takes in what an operator enables, and lets go what is disabled.

Invariants:
    A mirror that still hangs from when it was given up is not filled: what is under way there
    could write over what is new.
    Filling takes no more of the disks' time than it is allowed to.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.environment.held_directory import ANOTHER
from holdfast.errors import MirrorError, StoreError
from holdfast.mirrors.filling import Filling, Rescued
from holdfast.mirrors.mirror import MirrorView
from holdfast.mirrors.set_file import WrittenSet, read_set

if TYPE_CHECKING:
    from holdfast.mirrors.disk import MirroredDisk
    from holdfast.mirrors.mirror import Mirror
    from holdfast.mirrors.settings import MirrorSettings

LOOK_SECONDS: Final = 1.0

Admit = Callable[[Path], "Mirror"]

logger = logging.getLogger("holdfast.mirrors")


class Caretaker:
    """Looks after the mirrors of one disk."""

    def __init__(
        self, disk: MirroredDisk, settings: MirrorSettings, admit: Admit, rescued: Rescued
    ) -> None:
        """
        Look after this disk.

        Args:
            admit: Takes a directory that is to be filled: locks it and gives it a member.
            rescued: Looks for what a mirror that is filled has whole, and the others have not.
        """
        self.disk = disk
        self._rescued = rescued
        self._settings = settings
        self._admit = admit
        self._keeper = disk.keeper
        self._fillings: dict[Mirror, Filling] = {}
        self._stuck: set[Mirror] = set()
        self._wake = threading.Event()
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        disk.on_close = self.close

    def start(self) -> None:
        """Begin to look after them."""
        self._thread = threading.Thread(target=self._run, name="mirrors", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; what it was filling is filled by the next process."""
        self._is_stopping = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self._settings.timeout_seconds)
            self._thread = None

    def turn(self) -> int:
        """Do one small piece of work; gives how many bytes were copied, -1 if there is no work."""
        for mirror in self._keeper.targets:
            if mirror.state == "joining" and mirror not in self._fillings:
                self._fillings[mirror] = Filling(self.disk, mirror, self._rescued)
        for mirror, filling in list(self._fillings.items()):
            if filling.is_over:
                filling.step()
                del self._fillings[mirror]
                continue
            return filling.step()
        return -1

    def look(self) -> None:
        """Leave a mirror behind whose directory is gone or is another one now."""
        active = self._keeper.active
        if len(active) < 2:
            return
        lost: dict[Mirror, str] = {}
        lanes = self._keeper.lanes
        asked = [it for it in active if not lanes.is_slow(it.member)]
        stuck = {it for it in active if lanes.is_stuck(it.member)}
        # Of a process that was stopped everything looks stuck for a moment.
        stuck, self._stuck = stuck & self._stuck, stuck
        for mirror in active:
            if mirror in stuck:
                lost[mirror] = f"it has not answered for {self._settings.timeout_seconds:g} s"
        acts = [(it.member, partial(_read_set_of, it)) for it in asked]
        outcomes = lanes.within(self._settings.timeout_seconds, acts)
        for mirror, (written, error) in zip(asked, outcomes, strict=True):
            if isinstance(error, OSError | MirrorError):
                lost[mirror] = str(error)
            elif error is not None:
                raise error
            elif written is None or written.member != mirror.member:
                lost[mirror] = ANOTHER
        if lost and len(lost) < len(active):
            self._keeper.fail(lost)

    # What an operator may ask.

    def views(self) -> tuple[MirrorView, ...]:
        """Say how each mirror is."""
        return views(self.disk)

    def disable(self, directory: Path) -> None:
        """
        Go on without a mirror; it is not filled again before it is enabled.

        Raises:
            StoreError: It is none, or the only one.
        """
        mirror = self._find(directory)
        if mirror.is_active and len(self._keeper.active) < 2:
            raise StoreError(
                f"{directory} is the only mirror that has everything, and cannot go: enable another"
                f" one ('holdfast mirror enable'), and disable this one once that is active"
            )
        self._require_there()
        with self.disk.gate.alone():
            self._keeper.change({mirror.member: "disabled"})

    def enable(self, directory: Path) -> None:
        """
        Fill a mirror that failed, was disabled, or is a new and empty directory.

        Raises:
            StoreError: It cannot be used.
        """
        known = self._known(directory)
        if known is not None and known.state in ("active", "joining"):
            return
        self._require_quiet(known)
        if known is None:
            self._join(directory, {})
        else:
            self._join(known.directory, {known.member: None})

    def replace(self, directory: Path, by: Path) -> None:
        """
        Take a mirror out of the set for good, and fill another directory in its place.

        Raises:
            StoreError: It is none, still in use, or the other one cannot be used.
        """
        mirror = self._find(directory)
        if mirror.state in ("active", "joining"):
            raise StoreError(
                f"{directory} is in use: disable it before it is replaced"
                f" ('holdfast mirror disable {directory}')"
            )
        other = self._known(by)
        if other is not None and other.state in ("active", "joining"):
            raise StoreError(
                f"{by} is in use already, as a mirror that is {other.state}: give an empty"
                f" directory in the place of {directory}"
            )
        self._require_quiet(mirror)
        self._join(by, {mirror.member: None})
        self._keeper.mirrors = [it for it in self._keeper.mirrors if it is not mirror]

    def _require_there(self) -> None:
        if self.disk.is_none_there():
            named = ", ".join(str(it.directory) for it in self._keeper.active)
            raise StoreError(
                f"{named} was replaced, moved or removed while in use, and no other mirror has"
                f" everything: nothing is changed before what was opened is back there. Do not end"
                f" this process before: what was removed can be copied from /proc/PID/fd"
            )

    def _join(self, directory: Path, others: dict[str, None]) -> None:
        self._require_there()
        mirror = self._admit(directory)
        mirror.state = "joining"
        with self.disk.gate.alone():
            self._keeper.add(mirror)
            gone = {it: None for it in others if it != mirror.member}
            self._keeper.change({**gone, mirror.member: "joining"})
        self._wake.set()

    def _require_quiet(self, mirror: Mirror | None) -> None:
        if mirror is not None and self.disk.is_hanging(mirror):
            raise StoreError(
                f"{mirror.directory} still hangs: what was written there last may yet be done;"
                f" wait until it answers, or give another directory"
            )

    def _known(self, directory: Path) -> Mirror | None:
        """The mirror in this directory, by whatever name it is called."""
        for it in self._keeper.mirrors:  # By its own name nothing is asked of any that hangs.
            if it.directory == directory:
                return it
        real = directory.resolve()
        return next((it for it in self._keeper.mirrors if it.directory.resolve() == real), None)

    def _find(self, directory: Path) -> Mirror:
        mirror = self._known(directory)
        if mirror is not None:
            return mirror
        known = ", ".join(str(it.directory) for it in self._keeper.mirrors)
        raise StoreError(f"{directory} is none of the mirrors, which are {known}: name one of them")

    def _run(self) -> None:
        looked = time.monotonic()
        while not self._is_stopping:
            began = time.monotonic()
            try:
                copied = self.turn()
                now = time.monotonic()
                if now - looked > LOOK_SECONDS:
                    looked = now
                    self.look()
            except OSError as error:
                # Too few are left: whoever writes next hears of it and ends the process.
                logger.critical("mirrors: %s", error)
                return
            if copied > 0:
                # As long as it took at least: whoever writes waited for it.
                self._wake.wait(max(copied / self._settings.copy_bytes_per_second, now - began))
            elif copied < 0:
                self._wake.wait(LOOK_SECONDS)
            self._wake.clear()


def views(disk: MirroredDisk) -> tuple[MirrorView, ...]:
    """Say how each mirror of this disk is."""
    keeper = disk.keeper
    known = {it.member for it in keeper.mirrors}
    found = [
        MirrorView(
            directory=str(it.directory),
            member=it.member,
            state=it.state,
            reason=it.reason,
            bytes_filled=it.bytes_filled,
            bytes_to_fill=it.bytes_to_fill,
        )
        for it in keeper.mirrors
    ]
    found += [
        MirrorView(
            directory=keeper.places.get(member, ""),
            member=member,
            state=state,
            reason="it was not given",
        )
        for member, state in keeper.holding.current.states
        if member not in known
    ]
    return tuple(found)


def _read_set_of(mirror: Mirror) -> WrittenSet | None:
    # The first question is also whether what is open there is still what its names lead to.
    mirror.disk.exists(mirror.directory)
    return read_set(mirror.directory, mirror.disk)
