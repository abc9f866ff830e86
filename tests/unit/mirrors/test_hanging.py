"""A mirror that hangs holds nobody up: neither who reads, nor who fills it, nor the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.environment import bounded_disk
from holdfast.environment.disk import Disk
from holdfast.errors import MirrorError, StoreError
from holdfast.mirrors import caretaker, filling
from holdfast.mirrors import lanes as lanes_module
from holdfast.mirrors.lanes import ThreadLanes
from holdfast.mirrors.settings import MirrorSettings
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
    monkeypatch.setattr(filling, "SYNC_SECONDS_MAX", 0.1)
    machine = Machine("a", "b")
    machine.lanes = ThreadLanes(0.1)
    machine.settings = MirrorSettings(timeout_seconds=0.3)
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


# At a start


@pytest.fixture
def stopped(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Two mirrors of a process that has ended, both with everything."""
    monkeypatch.setattr(bounded_disk, "LOOK_SECONDS", 0.3)
    machine.caretaker.close()
    machine.kill()
    return machine


@pytest.mark.parametrize("call", ["make_directory", "lock", "open", "list_directory"])
def test_a_start_does_not_wait_for_one_that_hangs_on_reading(
    stopped: Machine, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """W11: it may be the one that has more, so it is named, and nothing starts without it."""
    hanging = Hanging(stopped, B, monkeypatch)
    hanging.begin(call)
    if call == "list_directory":
        stopped.disks[B].unlink(B / "mirror-set")
    try:
        with pytest.raises(MirrorError, match="/b does not answer: it has not answered for"):
            stopped.open_disk()
        assert not stopped.disks[A].locks
    finally:
        hanging.end()


def test_one_that_was_left_behind_may_hang(
    stopped: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W11: what counts is on the other, and the one that hangs is filled once it answers."""
    stopped.open_disk()
    keeper = stopped.caretaker.disk.keeper
    keeper.fail({keeper.active[1]: "broken"})
    stopped.caretaker.close()
    stopped.kill()
    hanging = Hanging(stopped, B, monkeypatch)
    hanging.begin("open")
    stopped.open_disk()
    assert stopped.states() == ["active", "failed"]
    with pytest.raises(StoreError, match="/b still hangs"):
        stopped.caretaker.enable(B)
    hanging.end()
    until = time.monotonic() + 30
    while stopped.states()[1] != "joining":
        assert time.monotonic() < until
        with suppress(StoreError):
            stopped.caretaker.enable(B)
    stopped.fill()
    assert stopped.states() == ["active", "active"]


def test_one_that_hangs_once_the_set_is_begun_is_left_behind(
    stopped: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were found and have promised; the other one has all that was confirmed."""
    hanging = Hanging(stopped, B, monkeypatch)
    equalize = stopped.equalize

    def equalize_late(places: Sequence[tuple[Path, Disk]]) -> int:
        hanging.begin("open", "exists", "list_directory", "make_directory", "unlink")
        return equalize(places)

    stopped.equalize = equalize_late
    try:
        stopped.open_disk()
        assert stopped.states() == ["active", "failed"]
        assert "does not answer" in stopped.caretaker.views()[1].reason
    finally:
        hanging.end()


def test_none_that_answers_is_not_waited_for_without_end(
    stopped: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are named."""
    both = [Hanging(stopped, it, monkeypatch) for it in (A, B)]
    for it in both:
        it.begin("lock")
    try:
        with pytest.raises(MirrorError, match=r"/a does not answer.*/b does not answer"):
            stopped.open_disk()
    finally:
        for it in both:
            it.end()
