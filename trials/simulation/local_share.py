"""
A shared directory on one coherent disk in memory, and what tests of it need: logs and entries.

Every log is a process of its own as far as the directory can tell. Nothing is random but the ids,
and those come from a counter, so a test is the same each time.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from holdfast.journal.entry import Entry, seal_entry
from holdfast.leases.contract import Claimant, Holding, Place
from holdfast.shared.directory_log import DirectoryLog
from holdfast.shared.places import Places
from holdfast.shared.settings import SharedSettings
from trials.simulation.simulated_share import SimulatedSharedDisk

SMALL = SharedSettings(segment_bytes=16 * 1024, first_segment_bytes=8 * 1024, beat_seconds=1.0)
PLACES = Places(Path("/share"))
_HOLDERS = count(1)


def claimant(name: str) -> Claimant:
    """Return who wants the lease; a new process each time."""
    holder = f"{next(_HOLDERS):032x}"
    return Claimant(holder=holder, name=name, admin=f"{name}:8161", stomp=f"{name}:61613")


def seal(end: Place, term: int, *bodies: bytes) -> list[Entry]:
    """Return entries with these bodies that follow on `end`."""
    entries: list[Entry] = []
    index, chain = end.index, end.chain
    for body in bodies:
        entry = seal_entry(
            index=index + 1,
            term=term,
            kind=0,
            timestamp=index + 1,
            first_record=index + 1,
            record_count=1,
            parts=[body],
            previous_chain=chain,
        )
        entries.append(entry)
        index, chain = entry.index, entry.chain
    return entries


def end_of(entries: list[Entry]) -> Place:
    """Return where a log ends after these."""
    return Place(entries[-1].index, entries[-1].chain)


class LocalShare:
    """One directory and the logs that are open on it."""

    def __init__(self, *, settings: SharedSettings = SMALL) -> None:
        """Make an empty directory."""
        self.disk = SimulatedSharedDisk()
        self.disk.make_directory(PLACES.root)
        self.places = PLACES
        self.now = 0.0
        """What the clock of the machine says; a test moves it."""
        self._settings = settings
        self._draws = count(1)

    def log(self) -> DirectoryLog:
        """Open the directory as another process does."""
        log = DirectoryLog(
            self.disk,
            self.places,
            self._settings,
            monotonic=lambda: self.now,
            draw=lambda size: next(self._draws).to_bytes(size, "big"),
        )
        log.open()
        return log

    def taken(self, name: str = "a") -> tuple[DirectoryLog, Holding]:
        """Open the directory and take the lease, whoever had it."""
        log = self.log()
        holding = log.take(log.observe(), claimant(name))
        assert holding is not None
        return log, holding
