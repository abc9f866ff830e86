"""
What every test shares: how hard Hypothesis tries, how brokers are started, and what is kept of
tests that show a promise.

`dev` is quick and random, `ci` the same every time (a failure there is a failure here), `full` is
for the night. CI=true selects `ci`; HOLDFAST_HYPOTHESIS selects one by name.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from contextvars import copy_context
from itertools import chain, zip_longest
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.disk_room import (
    FoldersOfFixtures,
    clear_after_ended_runs,
    folder_of_runs,
    mark_as_ours,
    missing_room,
)
from tests.forked_nodes import nodes_forked
from tests.measuring import take_out_probes_between_tests
from tests.side_by_side import PATIENT_FOLDERS, give_way, have_patience
from trials.clients.ledger import Account
from trials.promises.books import TestBooks, accounts_of_loads

BOOKS = TestBooks()
SLOW_FOLDERS = ("tests/spark/", "tests/integration/", "tests/stores/")
IS_PATIENT = pytest.StashKey[bool]()
ACCOUNTS = pytest.StashKey[list[Account]]()

# No deadline: these machines are shared, and a slow moment is not a failure.
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("dev", max_examples=40, print_blob=True, **COMMON)
settings.register_profile("ci", max_examples=40, derandomize=True, database=None, **COMMON)
settings.register_profile("full", max_examples=2_000, print_blob=True, **COMMON)
settings.load_profile(
    os.environ.get("HOLDFAST_HYPOTHESIS", "ci" if os.environ.get("CI") else "dev")
)


# What ignores a signal hands that on to its children: `nohup`, and a shell's job in the background.
# Tests and the processes they start take all of them.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
    if signal.getsignal(_number) is signal.SIG_IGN:
        is_interrupt = _number == signal.SIGINT
        signal.signal(_number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    """
    Run each test in a context of its own, as a process or a request has one: what a test says in
    it, who acts or by which secret one asks, is not said for what comes after it on its worker.
    """
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    copy_context().run(pyfuncitem.obj, **arguments)
    return True


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Begin with the room on the disk that is needed, and give it back; see `disk_room`."""
    factory = config._tmp_path_factory
    config.pluginmanager.register(FoldersOfFixtures(factory))
    take_out_probes_between_tests(config)
    config.stash[IS_PATIENT] = give_way(config)
    if hasattr(config, "workerinput"):  # Its folder is in that of the process that shares out.
        return
    clear_after_ended_runs(folder_of_runs())
    is_whole = config.getoption("dist", "no") == "loadfile"  # As `make` runs them.
    missing = missing_room(folder_of_runs()) if is_whole else None
    if missing is not None:
        pytest.exit(missing, pytest.ExitCode.USAGE_ERROR)
    mark_as_ours(factory.getbasetemp())


@pytest.fixture(scope="session", autouse=True)
def _nodes_forked() -> Iterator[None]:
    """Start brokers as `forked_nodes` tells; FORKED_NODES=0: as users do, for a second more."""
    if os.environ.get("FORKED_NODES") == "0":
        yield
        return
    with nodes_forked():
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share the files out among processes, those of Spark to one or two; see there."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.side_by_side import FilesInTurn

    return FilesInTurn(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage while tests are collected: of all that is made nearly nothing goes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """
    Put the slow folders first, in turns: Spark needs the cores, and real brokers mostly wait.

    Side by side they take the time of one; and no long file is left for the end.

    What is collected stays to the end: the collector of cycles is not to look through it again.
    """
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    slow = [[name for name in files if name.startswith(folder)] for folder in SLOW_FOLDERS]
    first = [name for name in chain(*zip_longest(*slow)) if name is not None]
    long = [name for name in files if name.startswith(PATIENT_FOLDERS)]
    order = dict.fromkeys([*first, *long, *files])
    items[:] = chain.from_iterable(files[name] for name in order)
    if config.stash[IS_PATIENT]:
        have_patience(items)
    gc.collect()
    gc.freeze()


# What tests with the marker `promise` show goes to build/evidence, from which the promise table is
# written (trials/promises).


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Collect what the loads of a marked test find."""
    if item.get_closest_marker("promise") is None:
        return (yield)
    with accounts_of_loads() as accounts:
        item.stash[ACCOUNTS] = accounts
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[pytest.TestReport]:
    """Note how each phase of a marked test ended; a set-up that passed shows nothing."""
    report = yield
    faults = [fault for marker in item.iter_markers("promise") for fault in marker.args]
    if faults and (report.when == "call" or report.outcome != "passed"):
        accounts = item.stash.get(ACCOUNTS, []) if report.when == "call" else []
        BOOKS.note(item.nodeid, sorted(set(faults)), report.outcome, accounts)
    return report


def pytest_sessionfinish() -> None:
    """Keep what this run has shown."""
    BOOKS.save()
