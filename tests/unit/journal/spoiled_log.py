"""
What stands in the files of a log, changed behind the journal's back, and what a scan makes of it.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.journal.ballot import LogClaim
from holdfast.journal.found_log import LogScan
from holdfast.journal.scan import scan_log
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk

LOG = Path("/node/journal")


def scan(disk: SimulatedDisk, floor: int = 0) -> LogScan:
    return scan_log(LOG, disk, claim=LogClaim(floor=floor))


def overwrite(log: LocalJournal, index: int, at: int, data: bytes) -> None:
    """Put bytes into an entry, behind the journal's back."""
    disk, place = log.disk, log.journal.place_of(index)
    assert isinstance(disk, SimulatedDisk)
    image = disk.content(place.path)
    start = place.byte + at
    disk.replace_content(place.path, image[:start] + data + image[start + len(data) :])
