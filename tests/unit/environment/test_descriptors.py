"""
Descriptors set aside for files are there when sockets have taken all others.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.environment import descriptors
from holdfast.environment.descriptors import (
    WAIT_SECONDS_MAX,
    DescriptorReserve,
    is_out_of_descriptors,
    raise_limit,
)


class Kernel:
    """Gives out descriptors up to a limit; they are numbers and nothing else."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.error = errno.EMFILE
        self.asked = 0

    def open(self, *_: object, **_others: object) -> int:
        self.asked += 1
        if not self.free:
            raise OSError(self.error, "too many open files")
        self.free -= 1
        return 1000 + self.asked

    def close(self, _: int) -> None:
        self.free += 1


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    made = Kernel(3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", made.open)
        patch.setattr(os, "close", made.close)
        yield made


def test_one_set_aside_is_given_up_for_a_file_and_taken_back(kernel: Kernel) -> None:
    """
    Files go on being opened although there is no descriptor left for anybody else.
    """
    reserve = DescriptorReserve()
    reserve.hold(2)
    kernel.free = 0  # sockets took the rest
    first = reserve.open(Path("/a"), os.O_RDONLY)
    assert (reserve.held_count, kernel.free) == (1, 0)
    reserve.close(first)
    assert (reserve.held_count, kernel.free) == (2, 0)
    reserve.hold(0)
    assert kernel.free == 2


def test_the_loop_never_waits_for_a_descriptor(kernel: Kernel) -> None:
    """
    It hears at once that there is none; and other errors are nobody's business here.
    """
    kernel.free = 0
    reserve = DescriptorReserve()
    with pytest.raises(OSError, match="too many") as caught:
        reserve.open(Path("/a"), os.O_RDONLY)
    assert is_out_of_descriptors(caught.value)
    kernel.error = errno.EIO
    with pytest.raises(OSError, match="too many") as caught:
        reserve.open(Path("/a"), os.O_RDONLY)
    assert not is_out_of_descriptors(caught.value)


@pytest.mark.parametrize("free_after", [3, None])
def test_another_thread_waits_for_a_bounded_time(kernel: Kernel, free_after: int | None) -> None:
    """
    The writer's next file is opened when somebody closes a socket; it does not wait for ever.
    """
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        kernel.free = int(len(pauses) == free_after)

    kernel.free = 0
    reserve = DescriptorReserve(pause)
    outcome: list[object] = []

    def work() -> None:
        try:
            outcome.append(reserve.open(Path("/a"), os.O_RDONLY))
        except OSError as error:
            outcome.append(error.errno)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if free_after is None:
        assert outcome == [errno.EMFILE]
        assert sum(pauses) == pytest.approx(WAIT_SECONDS_MAX, abs=0.1)
    else:
        assert len(pauses) == free_after
        assert outcome == [1000 + free_after + 1]


@pytest.mark.parametrize(
    ("before", "wanted", "gives"),
    [
        ((1024, 4096), [(4096, 4096)], 4096),
        ((256, 256), [], 256),
        ((1024, resource.RLIM_INFINITY), [(1 << 20, resource.RLIM_INFINITY)], 1 << 20),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), [], 1 << 20),
    ],
)
def test_the_soft_limit_is_raised_to_the_hard_one(
    monkeypatch: pytest.MonkeyPatch, before: tuple[int, int], wanted: list[object], gives: int
) -> None:
    """
    Distributions give 1,024 by default, for programs that no longer exist.
    """
    made: list[object] = []
    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _: before)
    monkeypatch.setattr(descriptors.resource, "setrlimit", lambda _, pair: made.append(pair))
    assert raise_limit() == gives
    assert made == wanted


def test_a_sandbox_may_forbid_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Then the node lives with what it has.
    """

    def refuse(*_: object) -> None:
        raise ValueError("not allowed")

    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _: (64, 128))
    monkeypatch.setattr(descriptors.resource, "setrlimit", refuse)
    assert raise_limit() == 64
