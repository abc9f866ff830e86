"""
The leased log on a shared directory, as its driver calls it: each call is bounded.

What talks to the disk runs on one thread of its own (`BoundedCalls`): a directory whose server is
away makes calls hang, and they are left to end by themselves. Each goes by the `Way`, which tells
what the system says of a file as what it means.

Source: Gray, Cheriton, "Leases" (1989); Kleppmann, "How to do distributed locking" (2016).
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from holdfast.environment.bounded import BoundedCalls
from holdfast.environment.disk import NoRoomError
from holdfast.environment.machine import Machine, this_machine
from holdfast.environment.mounts import MOUNTINFO, Mount, mount_of, why_fleeting
from holdfast.environment.randomness import SystemRandomness
from holdfast.environment.shared_disk import RealSharedDisk, SharedDisk
from holdfast.errors import StoreError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Claimant, Holding, MediumFacts, Outcome, Waiter
from holdfast.leases.copies import CopyPlan
from holdfast.shared.brokers import BrokerLines
from holdfast.shared.directory_log import DirectoryLog
from holdfast.shared.host_file import why_foreign
from holdfast.shared.mounts import why_unsafe
from holdfast.shared.places import Places
from holdfast.shared.settings import SharedSettings
from holdfast.shared.way import Way

LEASE_SECONDS: Final = 10.0
LEASE_SECONDS_NFS: Final = 30.0
OPEN_SECONDS_MAX: Final = 60.0

logger = logging.getLogger("holdfast.shared")

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the directory is judged by: what is mounted, and which machine this is."""

    mountinfo: Callable[[], str]
    machine: Callable[[], Machine]

    @classmethod
    def of_this_machine(cls) -> Surroundings:
        """Look at the machine itself."""
        return cls(MOUNTINFO.read_text, lambda: this_machine(Path.read_text, socket.gethostname()))


class SharedLog:
    """A `LeasedLog` in a directory that several machines reach."""

    is_fence = False
    """Files judge nothing: what was stored counts only within the holder's own clock."""

    def __init__(
        self,
        root: Path,
        settings: SharedSettings | None = None,
        *,
        disk: SharedDisk | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        """Take where it is; only what is mounted is looked at before `open`."""
        self._settings = settings or SharedSettings()
        self._disk: SharedDisk = RealSharedDisk() if disk is None else disk
        self._surroundings = surroundings or Surroundings.of_this_machine()
        self._places = Places(root)
        self._log = DirectoryLog(
            self._disk,
            self._places,
            self._settings,
            monotonic=time.monotonic,
            draw=SystemRandomness().bytes,
        )
        self._way = Way(self._disk, self._places, judge=self._judge, forget=self._log.look_anew)
        self._brokers = BrokerLines(self._disk, self._places)
        self._calls = BoundedCalls("holdfast-shared")
        self._kind = "directory"
        self._warnings: tuple[str, ...] = ()
        self._logged: set[str] = set()
        # Without a look at the path itself, which may hang: where a link leads shows `open`.
        self._mount = mount_of(root.absolute(), self._surroundings.mountinfo())
        self.lease_seconds = _lease_seconds(self._mount)

    def open(self, *, may_lay_out: bool = True) -> Holding:
        """Reach the directory, refuse it where it is not safe, lay it out if it is empty."""
        open_log = partial(self._log.open, may_lay_out=may_lay_out)
        return self._run(lambda: self._open(open_log), OPEN_SECONDS_MAX)

    def open_existing(self) -> Holding:
        """Open the log that is there; nothing is laid out."""
        return self._run(self._look, OPEN_SECONDS_MAX)

    @property
    def is_half_copy(self) -> bool:
        """Whether what was begun with `begin_copy` is to be finished yet."""
        return self._log.is_half_copy

    def begin_copy(self, plan: CopyPlan) -> Holding:
        """Open the directory for a copy: lay it out, or go on with what was begun."""
        begin = partial(self._log.begin_copy, plan)
        return self._run(lambda: self._open(begin), OPEN_SECONDS_MAX)

    def finish_copy(self, seconds_max: float) -> Outcome:
        """Make the copy an ordinary log, and give the lease back."""
        return self._run(self._log.finish_copy, seconds_max)

    def identity(self) -> str:
        """Give the log's own id, 32 hexadecimal digits, chosen when it was laid out."""
        return self._log.identity

    def message_bytes_max(self, sure_seconds: float) -> int:
        """Say nothing of it: there is one copy."""
        del sure_seconds
        return 0

    def facts(self) -> MediumFacts:
        """Tell what this is; waits for nothing."""
        return MediumFacts(kind=self._kind, place=str(self._places.root), warnings=self._warnings)

    @property
    def low_room(self) -> str:
        """Why nothing more is to be published; waits for nothing."""
        return self._log.low_room

    def observe(self, seconds_max: float) -> Holding:
        """Read the lease as it is now."""
        return self._run(self._log.observe, seconds_max)

    def take(self, seen: Holding, claimant: Claimant, seconds_max: float) -> Holding | None:
        """Begin the epoch after the one `seen`."""
        return self._run(lambda: self._log.take(seen, claimant), seconds_max)

    def renew(self, seconds_max: float) -> Outcome:
        """Give a sign of life."""
        return self._run(self._log.renew, seconds_max)

    def release(self, seconds_max: float) -> None:
        """Give the lease back if it is still ours."""
        self._run(self._log.release, seconds_max)

    def append(self, entries: list[Entry], seconds_max: float) -> Outcome:
        """Store these entries, all or none."""
        return self._run(lambda: self._log.append(entries), seconds_max)

    def entries(self, after: int, through: int, bytes_max: int, seconds_max: float) -> list[Entry]:
        """Read entries in order from the one after `after`."""
        return self._run(lambda: self._log.entries(after, through, bytes_max), seconds_max)

    def drop_before(self, index: int, seconds_max: float) -> bool:
        """Forget entries before this one, some segments at a time."""
        return self._run(lambda: self._log.drop_before(index), seconds_max)

    def is_holder_gone(self, seen: Holding, seconds_max: float) -> bool:
        """
        Tell whether the process that holds the lease `seen` has ended, as far as its lock says.

        A hint: with the other one, an admin port that refuses, it may be taken without waiting.
        A stopped process keeps its lock, and so does one whose machine is cut off, for a while.

        Raises:
            UnreachableError: It could not be found out in time.
        """
        return self._run(lambda: self._log.is_holder_gone(seen), seconds_max)

    def tell(self, waiter: Waiter, seconds_max: float) -> None:
        """Let the others know of this broker."""
        self._run(lambda: self._tell(waiter), seconds_max)

    def waiters(self, seconds_max: float) -> list[Waiter]:
        """Give all brokers that told of themselves, by name."""
        return self._run(self._brokers.told, seconds_max)

    def forget(self, name: str, seconds_max: float) -> None:
        """Drop what the broker of this name told."""
        self._run(lambda: self._brokers.forget(name), seconds_max)

    def close(self) -> None:
        """Let go of the directory; waits a moment at most, and does not give the lease back."""
        self._calls.close(self._log.close)

    def _tell(self, waiter: Waiter) -> None:
        try:
            self._brokers.tell(waiter)
        except NoRoomError as error:
            # Nothing needs it: who only waits is not to count as one that does not reach the store.
            raise StoreError(
                f"{self._places.root} has no room to tell of broker {waiter.claimant.name}:"
                f" {error.strerror}"
            ) from error

    def _open(self, open_log: Callable[[], Holding]) -> Holding:
        self._judge_mount()
        holding = open_log()
        self._judge_host()
        self._way.note_opened(self.identity())
        return holding

    def _look(self) -> Holding:
        self._judge_mount()
        holding = self._log.open_existing()
        self._way.note_opened(self.identity())
        return holding

    def _judge(self) -> None:
        self._judge_mount()
        self._judge_host()

    def _judge_mount(self) -> None:
        path = Path(self._places.root).absolute().resolve()
        self._mount = mount_of(path, self._surroundings.mountinfo())
        if self._mount is not None:
            self._kind = f"directory on {self._mount.kind}"
            self.lease_seconds = _lease_seconds(self._mount)
        self._log.is_coherent = self._mount is not None and self._mount.is_local
        reason = why_unsafe(self._mount)
        warnings: tuple[str, ...] = () if reason is None else (self._allowed(reason),)
        if fleeting := why_fleeting(self._mount):
            warnings += (f"{self._places.root} does not last: {fleeting}",)
        self._warn(warnings)

    def _judge_host(self) -> None:
        mount = self._mount
        if mount is not None and mount.is_local:
            reason = why_foreign(self._disk, self._places, self._surroundings.machine())
            if reason:
                self._warn((*self._warnings, self._allowed(reason)))

    def _warn(self, warnings: tuple[str, ...]) -> None:
        for it in warnings:
            if it not in self._logged:
                self._logged.add(it)
                logger.warning(it)
        self._warnings = warnings

    def _allowed(self, reason: str) -> str:
        sentence = f"{self._places.root} cannot be shared safely: {reason}"
        if not self._settings.allow_unsafe_share:
            raise StoreError(f"{sentence}; or allow it with 'allow_unsafe_share'")
        return sentence

    def _run(self, call: Callable[[], Result], seconds_max: float) -> Result:
        return self._calls.run(lambda: self._way.make(call), seconds_max, str(self._places.root))


def _lease_seconds(mount: Mount | None) -> float:
    return LEASE_SECONDS_NFS if mount is not None and mount.is_nfs else LEASE_SECONDS
