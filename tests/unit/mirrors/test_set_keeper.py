"""The set of a running store, written before anything more is confirmed."""

from __future__ import annotations

import errno
import re

import pytest

from holdfast.mirrors.set_file import read_set
from trials.mirrors.logs import Machine


def active_in(machine: Machine, place: int) -> int:
    directory = machine.directories[place]
    written = read_set(directory, machine.disks[directory])
    assert written is not None
    return len(written.known.active)


def test_failure_is_durable_on_the_rest_when_it_returns() -> None:
    """A start with what is left goes on alone; the one that failed knows nothing of it."""
    machine = Machine("a", "b")
    keeper = machine.open_disk().disk.keeper
    keeper.fail({keeper.active[1]: OSError(errno.EIO, "broken")})
    assert [it.directory for it in keeper.active] == machine.directories[:1]
    assert active_in(machine, 0) == 1
    assert active_in(machine, 1) == 2
    assert keeper.failed_total == 1
    assert keeper.mirrors[1].reason == "[Errno 5] broken"


def test_member_that_fails_while_the_set_is_written_is_left_out_too() -> None:
    """Of four one fails, and another one in telling of it: two of four are half."""
    machine = Machine("a", "b", "c", "d")
    keeper = machine.open_disk().disk.keeper
    machine.disks[machine.directories[2]].fail_next["sync"] = errno.EIO
    keeper.fail({keeper.active[3]: "broken"})
    assert [it.directory for it in keeper.active] == machine.directories[:2]


def test_too_few_end_the_process() -> None:
    """One of three may not go on: the other two might without it."""
    machine = Machine("a", "b", "c")
    keeper = machine.open_disk().disk.keeper
    told = []
    keeper.on_lost = told.append
    lost = r"mirrors /b, /c failed, and /a alone may not go on: repair them"
    with pytest.raises(OSError, match=lost):
        keeper.fail(dict.fromkeys(keeper.active[1:], "broken"))
    assert keeper.is_lost
    assert [re.search(lost, str(it)) is not None for it in told] == [True]
    failed = r"of which failed /b \(broken\), /c \(broken\): repair them, and start again"
    with pytest.raises(OSError, match=failed):
        keeper.fail({})


def test_whoever_fails_again_changes_nothing() -> None:
    """Two threads may meet the same failure."""
    machine = Machine("a", "b")
    keeper = machine.open_disk().disk.keeper
    failed = keeper.active[1]
    keeper.fail({failed: "broken"})
    number = keeper.holding.current.number
    keeper.fail({failed: "broken too"})
    assert keeper.holding.current.number == number
