"""
What one of many senders does with its rows, against a broker on paper.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import StoreError
from holdfast.spark.pipelines import replay_sender
from holdfast.spark.pipelines.replay_numbers import Beginning, Stretches
from holdfast.spark.pipelines.replay_spread import JobGroups, Sending, in_blocks, sent, step_of


def row(index: int, sequence: int, block: int, *, rewritten: bool = False) -> SimpleNamespace:
    return SimpleNamespace(
        log_index=index,
        ordinal=0,
        queue_number=1,
        sequence=sequence,
        block=block,
        rewritten=rewritten,
        destination="q",
        header_block=b"",
        body=b"%d" % sequence,
    )


def test_each_block_has_an_order_of_its_own() -> None:
    """A later block may stand earlier in the log; of copies the first of a block counts."""
    rows = [row(30, 7, 0), row(31, 8, 0), row(2, 10_003, 1), row(40, 10_003, 1, rewritten=True)]
    assert [it.sequence for it in in_blocks(rows, Stretches((Beginning(2, {1: 7}),)))] == [
        7,
        8,
        10_003,
    ]
    with pytest.raises(StoreError, match="came after"):
        list(in_blocks([row(31, 8, 0), row(30, 7, 0)], Stretches()))


def test_who_has_nothing_to_send_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be more senders than blocks."""
    asked: list[str] = []

    @asynccontextmanager
    async def connect(uri: str, **_: Any) -> AsyncIterator[None]:
        asked.append(uri)
        yield

    monkeypatch.setattr(replay_sender, "connect", connect)
    sending = Sending(job="j", target="/queue/x", stretches=Stretches(), uri="tcp://x", rate=None)
    assert list(sent(iter([]), sending)) == []
    assert asked == []
    assert "passcode" not in repr(
        Sending(
            job="j",
            target="/queue/x",
            stretches=Stretches(),
            uri="tcp://x",
            rate=None,
            client_options={"passcode": "secret"},
        )
    )


class Tracker:
    """What Spark knows of its jobs: of each group the stages of its jobs."""

    def __init__(self, stages: dict[str, list[list[int]]], *active: int) -> None:
        self._jobs = list(enumerate(chain.from_iterable(stages.values())))
        self._of_group = {
            group: [number for number, job in self._jobs if job in jobs]
            for group, jobs in stages.items()
        }
        self._active = active

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 - PySpark's
        return [99, *self._active]

    def getJobIdsForGroup(self, group: str) -> list[int]:  # noqa: N802 - PySpark's
        return [*self._of_group.get(group, ()), 77]

    def getJobInfo(self, number: int) -> SimpleNamespace | None:  # noqa: N802 - PySpark's
        return SimpleNamespace(stageIds=dict(self._jobs)[number]) if number != 77 else None

    def getStageInfo(self, stage: int) -> SimpleNamespace | None:  # noqa: N802 - PySpark's
        return SimpleNamespace(numTasks=1_200, numCompletedTasks=stage) if stage < 50 else None


@pytest.mark.parametrize(
    ("stages", "active", "step"),
    [
        ({}, (), ""),
        ({"read": [[1]]}, (1,), "1 of 1,200 parts read"),
        ({"read": [[1]], "send": [[2, 3]]}, (), ""),
        ({"read": [[1]], "send": [[2, 3]]}, (3,), "3 of 1,200 senders done"),
        ({"send": [[2, 3]]}, (2,), "2 of 1,200 parts read"),
        ({"send": [[60, 61]]}, (61,), ""),
    ],
)
def test_it_is_said_what_the_tasks_are_at(
    stages: dict[str, list[list[int]]], active: tuple[int, ...], step: str
) -> None:
    """Whether Spark shuffles in a job of its own or in that which sends; not of others' jobs."""
    assert step == step_of(Tracker(stages, *active), JobGroups("read", "send"))  # type: ignore[arg-type]
