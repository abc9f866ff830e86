"""A mirror that hangs holds nobody up: neither who reads, nor who fills it, nor the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.mirrors import caretaker, filling
from holdfast.mirrors import lanes as lanes_module
from holdfast.mirrors.lanes import ThreadLanes
from trials.mirrors.logs import Machine

A, B = Path("/a"), Path("/b")
FILE = A / "x"


class Hanging:
    """Lets calls of a disk wait from `begin` on, until `end`."""

    def __init__(self, machine: Machine, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._disk = machine.disks[directory]
        self._monkeypatch = monkeypatch
        self._released = threading.Event()

    def begin(self, *names: str) -> None:
        """Let these calls hang."""
        for name in names:
            self._monkeypatch.setattr(self._disk, name, self._waiting(getattr(self._disk, name)))

    def _waiting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*arguments: Any, **options: Any) -> Any:
            self._released.wait(30)
            return call(*arguments, **options)

        return wait

    def end(self) -> None:
        """All goes on."""
        self._released.set()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Two mirrors, with threads of their own, of little patience."""
    monkeypatch.setattr(lanes_module, "_SLOW_SECONDS", 0.02)
    monkeypatch.setattr(caretaker, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(filling, "THERE_SECONDS_MAX", 0.1)
    machine = Machine("a", "b")
    machine.lanes = ThreadLanes(0.1)
    machine.open_disk()
    file = machine.caretaker.disk.open(FILE, create=True)
    file.write(b"hello", 0)
    file.sync()
    file.close()
    yield machine
    machine.lanes.close()


@pytest.fixture
def hanging(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    """The first mirror, which hangs when it is told to."""
    made = Hanging(machine, A, monkeypatch)
    yield made
    made.end()


def test_what_is_read_comes_from_the_other(machine: Machine, hanging: Hanging) -> None:
    """L23: also names, sizes and room; the second reading does not wait at all."""
    disk = machine.caretaker.disk
    hanging.begin("open", "exists", "list_directory", "free_bytes")
    for _ in range(2):
        file = disk.open(FILE, writable=False)
        assert file.read(5, 0) == b"hello"
        assert file.size() == 5
        file.close()
        assert disk.exists(FILE)
        assert "x" in disk.list_directory(A)
        assert disk.free_bytes(A) > 0
        assert disk.mend(FILE, 0, 5, b"hello".__eq__) == b"hello"
    assert machine.states() == ["active", "active"]


def test_a_mirror_that_is_only_read_from_is_given_up_too(
    machine: Machine, hanging: Hanging
) -> None:
    """L23: after its time, seen twice: of a process that was stopped everything looks stuck."""
    hanging.begin("open")
    assert machine.caretaker.disk.open(FILE, writable=False).read(5, 0) == b"hello"
    until = time.monotonic() + 30
    while not machine.lanes.is_stuck(machine.caretaker.disk.keeper.active[0].member):
        assert time.monotonic() < until
        threading.Event().wait(0.01)
    machine.caretaker.look()
    assert machine.states() == ["active", "active"]
    machine.caretaker.look()
    assert machine.states() == ["failed", "active"]


def test_a_look_at_a_mirror_that_hangs_ends(machine: Machine, hanging: Hanging) -> None:
    """Whoever looks after all is not held up by one."""
    hanging.begin("open")
    machine.caretaker.look()
    assert machine.states() == ["failed", "active"]


def test_one_that_hangs_while_it_is_filled_fails(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L29: nobody may write while a piece is copied, so that must not last."""
    machine.caretaker.disable(B)
    hanging = Hanging(machine, B, monkeypatch)
    machine.caretaker.enable(B)
    hanging.begin("make_directory")
    try:
        for _ in range(3):
            machine.caretaker.turn()
        assert machine.states() == ["active", "failed"]
        file = machine.caretaker.disk.open(FILE)
        file.write(b"again", 0)
    finally:
        hanging.end()
