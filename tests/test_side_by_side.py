"""
How the tests are shared out among processes: what `make test` runs side by side.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import pytest

from tests.side_by_side import PATIENT_FOLDERS, SPARK, TEST_BY_TEST, FilesInTurn

SAID: ContextVar[str] = ContextVar("said by the test before", default="")


class PaperProcess:
    """A process that does what it is given when it is told to."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.ahead: list[int] = []
        self.done: list[str] = []

    def send_runtest_some(self, indexes: list[int]) -> None:
        assert not self.shutting_down
        self.ahead += indexes

    def shutdown(self) -> None:
        self.shutting_down = True


def shared_out(names: list[str], count: int) -> tuple[Any, list[PaperProcess]]:
    config: Any = SimpleNamespace(
        getvalue=lambda _: [f"{count}*popen"], option=SimpleNamespace(loadscopereorder=False)
    )
    scheduler: Any = FilesInTurn(config)
    processes = [PaperProcess(f"gw{number}") for number in range(count)]
    for process in processes:
        scheduler.add_node(process)
    for process in processes:
        scheduler.add_node_collection(process, names)
    scheduler.schedule()
    return scheduler, processes


def run_all(scheduler: Any, processes: list[PaperProcess], names: list[str]) -> None:
    while any(process.ahead for process in processes):
        for process in processes:
            if process.ahead:
                index = process.ahead.pop(0)
                process.done.append(names[index])
                scheduler.mark_test_complete(process, index)


def named(file: str, count: int) -> list[str]:
    return [f"{file}::test_{number}" for number in range(count)]


def mixed(others: int) -> list[str]:
    """Six files of Spark, and behind each a file of so many other tests."""
    names: list[str] = []
    for number in range(6):
        names += named(f"{SPARK}test_{number}.py", 3)
        names += named(f"tests/integration/test_{number}.py", others)
    return names


def test_spark_is_in_two_processes_and_a_file_in_one() -> None:
    """Each test runs once; what stands between is taken by who may have no Spark."""
    names = mixed(1)
    scheduler, processes = shared_out(names, 3)
    run_all(scheduler, processes, names)

    assert sorted(names) == sorted(name for process in processes for name in process.done)
    with_spark = [process for process in processes if any(SPARK in it for it in process.done)]
    assert len(with_spark) == 2
    assert all(process.done and process.shutting_down for process in processes)
    for file in {name.partition("::")[0] for name in names}:
        runs = [[it for it in process.done if it.startswith(file)] for process in processes]
        assert [run for run in runs if run] == [[it for it in names if it.startswith(file)]]


def test_spark_is_in_one_process_while_there_is_anything_else() -> None:
    """Another Java costs what a file of tests does: it is started when nothing is left but that."""
    names = mixed(9)
    scheduler, processes = shared_out(names, 3)
    run_all(scheduler, processes, names)

    assert [it for it in names if SPARK in it] == processes[0].done[:18]
    assert all(SPARK not in it for process in processes[1:] for it in process.done)


def test_where_all_is_spark_the_others_end() -> None:
    """Nobody waits for what is not given to it."""
    names = [name for number in range(5) for name in named(f"{SPARK}test_{number}.py", 2)]
    scheduler, processes = shared_out(names, 3)
    assert processes[2].shutting_down
    run_all(scheduler, processes, names)

    assert len(names) == sum(len(process.done) for process in processes[:2])


def test_who_follows_one_that_crashed_has_spark_in_its_place() -> None:
    """What it had is run again, though two have had Spark already."""
    names = [name for number in range(6) for name in named(f"{SPARK}test_{number}.py", 4)]
    scheduler, processes = shared_out(names, 2)
    crashed = processes.pop(0)
    assert scheduler.remove_node(crashed) == names[0]
    successor = PaperProcess("gw2")
    processes.append(successor)
    scheduler.add_node(successor)
    scheduler.add_node_collection(successor, names)
    scheduler.schedule()
    run_all(scheduler, processes, names)

    assert successor.done
    assert sorted(names) == sorted(name for process in processes for name in process.done)


def test_a_long_file_is_given_out_test_by_test() -> None:
    """At the end of the run no process has minutes of work while the others have none."""
    names = named(TEST_BY_TEST[0], 12)
    scheduler, processes = shared_out(names, 3)
    run_all(scheduler, processes, names)

    assert [4, 4, 4] == [len(process.done) for process in processes]


def test_the_last_of_four_has_what_waits_for_nothing() -> None:
    """The others have the rest, and help with that when nothing else is left."""
    names = mixed(3)
    for number in range(8):
        names += named(f"{PATIENT_FOLDERS[number % 2]}test_{number}.py", 5)
    scheduler, processes = shared_out(names, 4)
    run_all(scheduler, processes, names)

    assert sorted(names) == sorted(name for process in processes for name in process.done)
    assert all(it.startswith(PATIENT_FOLDERS) for it in processes[3].done)
    assert len(processes[3].done) >= 20
    helped = [it for process in processes[:3] for it in process.done]
    assert any(it.startswith(PATIENT_FOLDERS) for it in helped)


def test_without_anything_that_waits_for_nothing_the_last_of_four_ends() -> None:
    """And nobody waits for it."""
    names = mixed(3)
    scheduler, processes = shared_out(names, 4)
    run_all(scheduler, processes, names)

    assert processes[3].shutting_down
    assert not processes[3].done


@pytest.mark.parametrize("who", ["ann", "ben"])
def test_what_one_says_in_its_context_is_not_said_for_the_next(who: str) -> None:
    """
    Whichever comes first on a worker.
    """
    assert SAID.get() == ""
    SAID.set(who)
