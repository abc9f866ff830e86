"""
Real processes on one shared directory: killed, stopped past any lease, resumed.

What a test knows of the log it reads itself, as one more broker on the directory.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.journal.entry import Entry, verify_chain
from holdfast.leases.contract import Holding
from holdfast.model.limits import MiB
from holdfast.shared.settings import SharedSettings
from holdfast.shared.shared_log import SharedLog
from trials.chaos.small_disk import SmallDisk, SmallDiskError

PROGRAM = Path(__file__).parent / "shared_child.py"
SECONDS = 60.0
TAKES = SharedSettings().takes_with_room

pytestmark = [pytest.mark.slow]


class ChildProcess:
    """A process on the directory, asked line by line."""

    def __init__(self, directory: Path, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(directory), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.answer() == {"ready": True}

    def send(self, do: str, **arguments: Any) -> None:
        """Ask for something and do not wait for it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """What it says next; empty if it is gone."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return dict(json.loads(line)) if line else {}

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        self.send(do, **arguments)
        return self.answer()

    def take(self) -> dict[str, Any]:
        """Take the lease as it is now."""
        self.ask("observe")
        return self.ask("take")

    def wait_until_stopped(self) -> None:
        """It stops itself in the middle of what it was asked for."""
        until = time.monotonic() + SECONDS
        while self._state() != "T":
            assert time.monotonic() < until, "it never stopped"
            time.sleep(0.01)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _state(self) -> str:
        text = Path(f"/proc/{self.process.pid}/stat").read_text()
        return text.rpartition(")")[2].split()[0]


Start = Callable[[str], ChildProcess]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "shared"


@pytest.fixture
def start(directory: Path) -> Iterator[Start]:
    started: list[ChildProcess] = []

    def start_one(name: str) -> ChildProcess:
        started.append(ChildProcess(directory, name))
        return started[-1]

    yield start_one
    for child in started:
        child.kill()
        assert child.process.stdin is not None and child.process.stdout is not None
        child.process.stdin.close()
        child.process.stdout.close()


@pytest.fixture
def reader(directory: Path) -> Iterator[SharedLog]:
    log = SharedLog(directory)
    yield log
    log.close()


def read(log: SharedLog) -> list[Entry]:
    """The whole log as it is now, each entry following on the one before."""
    end = log.open().end.index
    found = log.entries(0, end, 1 << 40, SECONDS)
    assert [it.index for it in found] == list(range(1, end + 1))
    for before, entry in pairwise(found):
        assert verify_chain(entry, before.chain)
    return found


def writers(log: SharedLog) -> list[str]:
    """Who wrote each entry."""
    return [bytes(it.body).split(b" ", 1)[0].decode() for it in read(log)]


def test_a_killed_holder_is_followed_at_once_and_nothing_is_lost(
    start: Start, reader: SharedLog
) -> None:
    """L1: kill -9 while it appends, again and again; its lock is free when it is gone."""
    confirmed = 0
    for epoch in range(1, 7):
        holder = start(f"h{epoch}")
        taken = holder.take()
        assert (taken["taken"], taken["epoch"]) == (True, epoch)
        assert taken["end"] >= confirmed
        holder.send("storm")
        for _ in range(17 * epoch):
            confirmed = holder.answer()["stored"]
        holder.kill()
        while (line := holder.answer()) != {}:
            confirmed = line["stored"]
        waiter = start("waiter")
        waiter.ask("observe")
        assert waiter.ask("is_gone") == {"gone": True}

        names = writers(reader)
        assert len(names) >= confirmed
        assert names[confirmed - 1] == f"h{epoch}"


def test_a_stopped_holder_keeps_its_lock_and_its_late_writes_are_dead(
    start: Start, reader: SharedLog
) -> None:
    """L2, L13, L14: what it writes when it goes on is seen by nobody, also after more takes."""
    holder, other = start("a"), start("b")
    holder.take()
    holder.ask("append", count=3)
    holder.send("append", count=2, point="stop before the write")
    holder.wait_until_stopped()
    seen = other.ask("observe")
    assert other.ask("is_gone") == {"gone": False}
    assert other.ask("observe") == seen, "it gives no sign of life"
    assert other.take()["taken"]
    assert other.ask("append")["outcome"] == "stored"
    before = read(reader)

    holder.resume()
    assert holder.answer()["outcome"] == "deposed"
    assert holder.ask("append")["outcome"] == "deposed"
    assert holder.ask("renew")["outcome"] == "deposed"
    assert read(reader) == before
    assert start("c").take()["end"] == 4
    assert read(reader) == before
    assert writers(reader) == ["a", "a", "a", "b"]


def test_a_holder_stopped_between_write_and_confirm_confirms_nothing(
    start: Start, reader: SharedLog
) -> None:
    """L3: its entries were durable, so the taker has them; nobody is told by the old one."""
    holder, other = start("a"), start("b")
    holder.take()
    holder.send("append", count=2, point="stop before the look")
    holder.wait_until_stopped()
    assert other.take()["end"] == 2
    other.ask("append")

    holder.resume()
    assert holder.answer()["outcome"] == "deposed"
    assert writers(reader) == ["a", "a", "b"]


def test_what_was_judged_before_the_take_is_in_the_log(start: Start, reader: SharedLog) -> None:
    """L4: stopped between the look and the reply, it says stored, and it is."""
    holder, other = start("a"), start("b")
    holder.take()
    holder.send("append", count=2, point="stop after the look")
    holder.wait_until_stopped()
    assert other.take()["end"] == 2
    other.ask("append")

    holder.resume()
    assert holder.answer() == {"outcome": "stored", "index": 2}
    assert holder.ask("append")["outcome"] == "deposed"
    assert writers(reader) == ["a", "a", "b"]


def test_of_several_waiters_one_takes(start: Start, reader: SharedLog) -> None:
    """L5: all saw the same and take at the same time; and the one who won can write."""
    children = [start(name) for name in "abc"]
    with ThreadPoolExecutor(len(children)) as pool:
        for epoch in range(1, 9):
            for child in children:
                child.ask("observe")
            answers = list(pool.map(lambda it: it.ask("take"), children))
            winners = [it for it, answer in zip(children, answers, strict=True) if answer["taken"]]
            assert len(winners) == 1
            assert winners[0].ask("append")["outcome"] == "stored"
            assert winners[0].ask("observe")["epoch"] == epoch

    assert len(read(reader)) == 8


def test_a_clean_stop_hands_over_at_the_next_look(start: Start) -> None:
    """L6: what was given back says so, and is not waited for."""
    holder, other = start("a"), start("b")
    holder.take()
    holder.ask("append")
    holder.ask("release")

    assert other.ask("observe")["released"]
    assert other.ask("take")["end"] == 1
    assert holder.ask("append")["outcome"] == "deposed"


def test_two_of_one_name_are_two(start: Start, reader: SharedLog) -> None:
    """L8: a broker that was started twice by mistake."""
    first, second = start("same"), start("same")
    first.take()
    first.ask("append")
    second.take()

    assert first.ask("append")["outcome"] == "deposed"
    assert second.ask("append")["outcome"] == "stored"
    assert len(read(reader)) == 2


@pytest.mark.parametrize("count", [1, 3])
def test_a_write_that_was_cut_off_is_cut_off(start: Start, reader: SharedLog, count: int) -> None:
    """L15: the holder dies in the middle of an entry; what was confirmed stays, and no more."""
    holder, other = start("a"), start("b")
    holder.take()
    holder.ask("append", count=2)
    holder.send("append", count=count, point="die in the write")
    assert holder.answer() == {}
    assert holder.process.wait(SECONDS) == -signal.SIGKILL

    assert other.take()["end"] == 2
    other.ask("append")
    assert writers(reader) == ["a", "a", "b"]


def test_a_lost_reply_of_the_claim_is_no_loss(start: Start) -> None:
    """L18: the link was made, and the answer said that the name was taken."""
    child = start("a")
    child.ask("observe")

    assert child.ask("take", point="lose the reply")["taken"]
    assert child.ask("append")["outcome"] == "stored"


@pytest.mark.parametrize(
    ("point", "epochs"), [("die before the lease", 3), ("die after the lease", 3)]
)
def test_a_taker_that_dies_in_its_take_is_followed(
    start: Start, reader: SharedLog, point: str, epochs: int
) -> None:
    """L21: its epoch was won, and begun or not; the next one goes on with all that was stored."""
    holder, taker, third = start("a"), start("b"), start("c")
    holder.take()
    holder.ask("append", count=2)
    taker.ask("observe")
    taker.send("take", point=point)
    assert taker.answer() == {}
    answer = third.take()
    while not answer["taken"]:
        answer = third.take()

    assert (answer["epoch"], answer["end"]) == (epochs, 2)
    assert holder.ask("append")["outcome"] == "deposed"
    third.ask("append")
    assert writers(reader) == ["a", "a", "c"]


def test_a_share_that_others_have_filled_is_taken_after_each_loss(
    start: Start, directory: Path
) -> None:
    """L39 by others' files: kill -9 of each holder, and the next one stores what makes room."""
    try:
        small = SmallDisk(directory, 16 * MiB).__enter__()
    except SmallDiskError as error:
        pytest.skip(f"needs a disk that is really full: {error}")
    try:
        for number in range(1 + TAKES):
            holder = start(f"h{number}")
            assert holder.take() == {**holder.ask("observe"), "taken": True}
            assert holder.ask("append")["index"] == 1 + number
            if number == 0:
                for _ in range(TAKES):
                    assert holder.ask("renew") == {"outcome": "stored"}
            small.fill()
            holder.kill()
        log = SharedLog(directory)
        assert len(read(log)) == 1 + TAKES
        log.close()
    finally:
        small.close()


def test_a_copy_of_the_directory_goes_on_elsewhere(
    start: Start, directory: Path, tmp_path: Path
) -> None:
    """L22: carried away while it is written, byte by byte, it opens with what was confirmed."""
    holder = start("a")
    holder.take()
    holder.send("storm")
    confirmed = [holder.answer()["stored"] for _ in range(40)][-1]
    holder.process.send_signal(signal.SIGSTOP)
    holder.wait_until_stopped()
    moved = tmp_path / "moved"
    subprocess.run(["cp", "-a", str(directory), str(moved)], check=True)
    log = SharedLog(moved)
    try:
        assert isinstance(log.open(), Holding)
        assert len(read(log)) >= confirmed
    finally:
        log.close()
    assert os.fspath(moved) == log.facts().place
