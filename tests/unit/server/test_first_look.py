"""Whether the disk under a node's only directory answers."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from holdfast.environment.disk import DiskFile
from holdfast.errors import StoreError
from holdfast.server.first_look import require_answer
from trials.simulation.simulated_disk import SimulatedDisk

DATA = Path("/data")


class Stuck(SimulatedDisk):
    """Names are known, as a client of NFS keeps them, and reading a file hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Wait at the gate."""
        self.gate.wait()
        return super().open(path, create=create, writable=writable)


def test_a_disk_that_hangs_on_reading_is_told_of() -> None:
    """The directory is named, and what to do; a start went on for ever before, without a word."""
    disk = Stuck()
    disk.make_directory(DATA)
    with pytest.raises(StoreError) as caught:
        require_answer(DATA, disk, 0.05)
    disk.gate.set()
    assert str(caught.value) == (
        "/data does not answer: it has not answered for 0.05 s. Nothing was changed. See that its"
        " disk is well, or, on a network, that its server answers, and start again"
    )


def test_what_answers_is_left_as_it_is() -> None:
    """Also with an error, or that there is nothing: others find out what that means."""
    disk = SimulatedDisk()
    require_answer(DATA, disk)
    assert not disk.exists(DATA)
    disk.make_directory(DATA)
    file = disk.open(DATA / "ballot", create=True)
    file.write(b"x" * 9000, 0)
    file.close()
    require_answer(DATA, disk)
    disk.fail_next["read"] = 5
    require_answer(DATA, disk)
    assert disk.list_directory(DATA) == ["ballot"]
