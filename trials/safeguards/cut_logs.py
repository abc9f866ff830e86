"""
What keeps a log that is cut, or begun anew, from being taken for another one.

A cut is announced in the ballot before it is made, and whoever was given entries of a log that is
begun anew is told to start over.
"""

from __future__ import annotations

from typing import Any

from holdfast.journal import cutting
from holdfast.journal.ballot import BallotFile
from holdfast.journal.journal import Journal
from holdfast.journal.kept_log import note_filling
from holdfast.replication import promotion
from holdfast.replication.driver import Driver
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.troubles.forced_promotions import HALF_FILLED
from trials.troubles.long_sleeps import SLEEP
from trials.troubles.lost_ends import LOST_END


def _keep_the_floor() -> list[Patch]:
    def keep(self: BallotFile, _floor: int, _chain: bytes = b"") -> None:
        self.forget_large()

    return [(BallotFile, "lower_floor", keep)]


def _cut_in_silence() -> list[Patch]:
    stage = Journal.stage

    def without_claim(self: Any, entries: Any) -> Any:
        job = stage(self, entries)
        if job.cut is not None:
            job.cut.claim = (0, 0)
        return job

    return [(Journal, "stage", without_claim)]


def _go_on_in_the_new_log() -> list[Patch]:
    take = Driver.take_committed

    def take_on(self: Any, bytes_max: int) -> Any:
        self._taken_epoch = self._state.log.epoch
        return take(self, bytes_max)

    return [(Driver, "take_committed", take_on)]


def _throw_away_first() -> list[Patch]:
    def remove(directory: Any, disk: Any, filling: Any, paths: Any, sync: Any) -> None:
        for path in reversed(paths):
            disk.unlink(path)
            sync()
        note_filling(directory, disk, filling)

    return [(cutting, "set_aside", remove)]


def _promote_the_half() -> list[Patch]:
    return [(promotion, "incompleteness", lambda _journal: "")]


def _long(plan: Plan) -> None:
    plan.chaos_seconds = 8.0


ABLATIONS = [
    Ablation(
        "lower the floor before a cut",
        _keep_the_floor,
        ("leader cut off, then paused", "crash", "power cut", "partition", "heal network"),
        _long,
    ),
    Ablation(
        "claim what was cut unknown until there is more",
        _cut_in_silence,
        (LOST_END,),
    ),
    Ablation("start over when a log is begun anew", _go_on_in_the_new_log, (SLEEP,)),
    Ablation("keep the old log until the new one is full", _throw_away_first, (HALF_FILLED,)),
    Ablation("promote no half-filled log", _promote_the_half, (HALF_FILLED,)),
]
