"""
What the tests of the journal share: a disk in memory, and logs on it.

`spoiled_log` lies beside this file and is no package, so its folder is put on the path.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast.journal.settings import JournalSettings, KiB
from trials.simulation.local_journal import SMALL, LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> LocalJournal:
    """A log that reads nearly everything from disk."""
    return LocalJournal(disk, settings=SMALL, resolve_unknown_tail=False)


@pytest.fixture
def eight(disk: SimulatedDisk) -> LocalJournal:
    """Eight entries of two sectors and more over three segments; the files are at rest."""
    log = LocalJournal(disk)
    for number in range(1, 9):
        log.append(bytes([number]) * 3500)
    assert len(log.journal.segments()) == 3
    return log


@pytest.fixture
def begun(disk: SimulatedDisk) -> LocalJournal:
    """A log with one entry, in a segment of 64 KiB; what its writer told of it is forgotten."""
    log = LocalJournal(disk, settings=JournalSettings(segment_bytes=64 * KiB))
    log.append(b"first")
    log.results.clear()
    return log
