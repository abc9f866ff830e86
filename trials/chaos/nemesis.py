"""
The nemesis carries out a schedule on a cluster under load: one fault after the other, each mended.

The budget is that of the simulator's nemesis (`testing/faults.py`): one machine's durable bytes are
spoilt at a time, and all are whole and level again before the next spoilt one. A cluster that does
not come back ends the schedule: what follows would show nothing.

Invariants:
    Every step is noted with its time and nodes; one that could not happen, with the reason.
    When `run` returns or raises, nothing is held back from healing: `Stage.heal` ends all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from holdfast.testing.local_cluster import LocalNodeError
from trials.chaos import disk_faults, process_faults
from trials.chaos.schedule import Schedule, Step
from trials.chaos.stage import (
    Fault,
    InapplicableError,
    Node,
    Repair,
    Stage,
    StageError,
    Strike,
)

FAULTS: dict[str, Fault] = process_faults.FAULTS | disk_faults.FAULTS
"""What each kind of fault does; the schedule's KINDS tell when and where."""

_OVERLAP_SECONDS = 0.4
_CALM_SECONDS = (0.2, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """One step as it went; times in seconds on the stage's clock."""

    step: Step
    nodes: tuple[str, ...] = ()
    text: str = ""
    began: float
    ended: float = 0.0
    """When the cluster served again, and was whole again after a destructive one."""

    is_skipped: bool = False
    """It could not happen; `text` says why."""


class Nemesis:
    """Hurts one cluster by one schedule. `happened` grows while it does."""

    def __init__(self, stage: Stage, schedule: Schedule) -> None:
        self.stage = stage
        self.schedule = schedule
        self.happened: list[Happened] = []
        self.began = 0.0
        self.left_out: list[Step] = []
        """Steps for which there was no time."""

        self._repairs: list[Repair] = []
        self._victims: list[Node] = []

    def run(self) -> None:
        """
        Carry the schedule out. A cluster that does not come back goes to the stage's problems.

        Any other exception leaves the rest to `Stage.heal`.
        """
        self.began = self.stage.clock()
        for number, step in enumerate(self.schedule.steps):
            if not self._has_time(step):
                self.left_out.append(step)
            elif not self._is_survived(partial(self._take, step), step.fault):
                self.left_out += self.schedule.steps[number + 1 :]
                return
        self._is_survived(self._mend, "the last fault")

    def _is_survived(self, deed: Callable[[], None], name: str) -> bool:
        try:
            deed()
        except (StageError, LocalNodeError, OSError) as error:
            self.stage.tell(f"GIVEN UP after {name}: {error}")
            self.stage.problems.append(f"after {name}: {error}")
            return False
        return True

    def _has_time(self, step: Step) -> bool:
        elapsed = self.stage.clock() - self.began
        limit = self.schedule.seconds
        return not limit or not self.happened or elapsed + 0.7 * step.kind.cost < limit

    def _take(self, step: Step) -> None:
        stage = self.stage
        early = step.at - (stage.clock() - self.began)
        if early > 0:
            stage.pause_for(early)
        if step.kind.is_destructive:
            self._mend()  # the budget goes before what lasts from the step before
            stage.await_whole()
        elif self.schedule.is_calm and not self._repairs:
            stage.await_whole()
        else:
            stage.leader()
        began = stage.clock()
        stage.load.mark(step.fault)
        try:
            strike = FAULTS[step.fault](stage, step)
        except InapplicableError as error:
            stage.tell(f"left out: {step.fault}: {error}")
            self._note(step, Strike((), str(error)), began, is_skipped=True)
            if not step.together:
                self._mend()
            return
        stage.tell(f"{step.fault}: {', '.join(strike.nodes)} {strike.text}")
        self._victims += strike.victims
        if strike.repair is not None:
            self._repairs.append(strike.repair)
        if step.together:
            stage.pause_for(_OVERLAP_SECONDS)
            self._note(step, strike, began)
            return
        if strike.repair is not None:
            stage.pause_for(step.seconds)
        self._mend()
        self._note(step, strike, began)
        stage.pause_for(stage.chance.uniform(*_CALM_SECONDS))

    def _mend(self) -> None:
        """End what lasts, and wait until the cluster serves, or is whole if a disk was spoilt."""
        for repair in reversed(self._repairs):
            repair()
        self._repairs.clear()
        victims = tuple(self._victims)
        self._victims.clear()
        if victims:
            self.stage.await_whole(victims)
        else:
            self.stage.supervise()
            self.stage.leader()

    def _note(self, step: Step, strike: Strike, began: float, *, is_skipped: bool = False) -> None:
        self.happened.append(
            Happened(
                step=step,
                nodes=strike.nodes,
                text=strike.text,
                began=began,
                ended=self.stage.clock(),
                is_skipped=is_skipped,
            )
        )
