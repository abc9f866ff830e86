"""
Handles for reading: bounded, and given up for each other where the process has no descriptor left.
"""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.journal.open_files import OpenFiles
from trials.simulation.simulated_disk import SimulatedDisk

DIRECTORY = Path("/log")


def made(disk: SimulatedDisk, count: int) -> list[SimpleNamespace]:
    disk.make_directory(DIRECTORY)
    segments = [SimpleNamespace(path=DIRECTORY / str(it), base_index=it) for it in range(count)]
    for segment in segments:
        disk.open(segment.path, create=True).close()
    return segments


def test_the_oldest_is_closed_for_the_next() -> None:
    """
    No more than the bound are open; one that is open is not opened again.
    """
    disk = SimulatedDisk()
    segments = made(disk, 3)
    files = OpenFiles(disk, 2)
    first = files.get(segments[0])
    assert files.get(segments[0]) is first
    files.get(segments[1])
    files.get(segments[2])
    assert len(files) == 2
    assert files.get(segments[0]) is not first
    files.close_after(0)
    assert len(files) == 1
    files.close(7)
    files.close_after(-1)
    assert len(files) == 0


def test_one_is_given_up_where_no_descriptor_is_left() -> None:
    """
    A message is read although sockets have taken all descriptors; with none open it is an error.
    """
    disk = SimulatedDisk()
    segments = made(disk, 2)
    files = OpenFiles(disk, 8)
    disk.fail_next["open"] = errno.EMFILE
    with pytest.raises(OSError):
        files.get(segments[0])
    files.get(segments[0])
    disk.fail_next["open"] = errno.EMFILE
    files.get(segments[1])
    assert len(files) == 1
    disk.fail_next["open"] = errno.EIO
    with pytest.raises(OSError):
        files.get(segments[0])
    assert len(files) == 1
