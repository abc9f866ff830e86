"""
Which test process gets which tests: files as they stand in the order, with three exceptions.

Spark is one process of Java for each test process, which takes a gigabyte and more, both cores of a
small machine, and 25 s of a processor before it is quick: so one process has the tests of Spark,
and the others run what mostly waits, real brokers, beside it. Only when nothing else is left does
one more have Spark, and no third. And a few long files of tests that share nothing are given out
test by test: at the end no process has minutes of work while the others have none.

Three processes leave a quarter of two cores idle, and with a fourth like them what waits for real
brokers waited too long. So the last of four or more is patient: it has what needs the processor and
no clock, and gives way to all others.

Invariants:
    At most `SPARK_PROCESSES` of the processes that are there ever get a test of Spark, and only one
    while there is anything else.
    The tests of any other file run in one process, in their order: they share servers.
    The patient process has no test that waits for anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SPARK: Final = "tests/spark/"
SPARK_PROCESSES: Final = 2
TEST_BY_TEST: Final = (
    "tests/simulation/test_forced_promotions.py",
    "tests/simulation/test_limits_and_outages.py",
    "tests/simulation/test_policies.py",
    "tests/simulation/test_promised_faults.py",
    "tests/simulation/test_promoted_together.py",
    "tests/simulation/test_simulator.py",
)
"""Long ones whose tests share nothing, and whose evidence is kept test by test if there is any."""

PATIENT_FOLDERS: Final = ("tests/simulation/", "tests/property/")
PATIENT_FROM: Final = 4
"""With so many processes one of them is patient."""

NICENESS: Final = 5
"""A third of what another process gets where both want a core."""

PATIENCE_SECONDS: Final = 600


def is_patient(name: str, count: int) -> bool:
    """Whether the process of this name is the patient one of so many."""
    return count >= PATIENT_FROM and name == f"gw{count - 1}"


def give_way(config: pytest.Config) -> bool:
    """Let this process give way to others if it is the patient one, and tell whether it is."""
    given = getattr(config, "workerinput", None)
    if given is None or not is_patient(given["workerid"], given["workercount"]):
        return False
    os.nice(NICENESS)
    return True


def have_patience(items: Iterable[pytest.Item]) -> None:
    """Let each test take as long as it takes beside others, where it names no time itself."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE_SECONDS))


class FilesInTurn(LoadFileScheduling):
    """Gives out the files in their order, those of Spark to few."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self._with_spark: set[WorkerController] = set()

    def remove_node(self, node: WorkerController) -> str | None:
        """Forget a process that has ended; another may have Spark in its place."""
        self._with_spark.discard(node)
        return super().remove_node(node)

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(TEST_BY_TEST) else super()._split_scope(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        if self.workqueue and self._next_for(node) is None and not node.shutting_down:
            node.shutdown()  # It ends what it has; the rest is for those that have Spark.
            return
        super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        scope = self._next_for(node)
        if scope is None:
            return
        if scope.startswith(SPARK):
            self._with_spark.add(node)
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def _next_for(self, node: WorkerController) -> str | None:
        if is_patient(node.gateway.id, self.numnodes):
            return next((it for it in self.workqueue if it.startswith(PATIENT_FOLDERS)), None)
        spark = (scope for scope in self.workqueue if scope.startswith(SPARK))
        others = (scope for scope in self.workqueue if not scope.startswith(SPARK))
        if node in self._with_spark or not self._with_spark:
            return next(chain(spark, others), None)
        may_spark = len(self._with_spark) < SPARK_PROCESSES
        return next(chain(others, spark if may_spark else ()), None)
