"""
The others die while a copy that was too far behind is filling a log that it had to begin anew.

What lives of the time before was written again further on, so the half of it is worth less than the
old log, which is kept until then. The operator is refused a promotion of the half, takes the old
log back, and promotes that. Counted when a log was taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble, let_the_log_turn_over
from trials.troubles.forced_promotions import HALF_FILLED, Story, fit_copies

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan

_LOOK_SECONDS = 0.1
_NEAR_SECONDS = 0.002


def leave_one_far_behind(nemesis: Nemesis) -> bool:
    """Begin: choose the copy, and let the log turn over while it is down."""
    fit = fit_copies(nemesis)
    if fit:
        _FarStory(nemesis, nemesis.chance.choice(fit)).begin()
    return False


class _FarStory(Story):
    """The copy comes back when the others keep nothing any more that continues its log."""

    def begin(self) -> None:
        """Stop the copy."""
        self.nemesis.promoting = self.copy
        self.nemesis.kept_down.add(self.copy.name)
        self.copy.stop(power=False)
        self.world.note("chaos", f"leaves {self.copy.name} far behind")
        self._after(_LOOK_SECONDS, self._await_past)

    def _await_past(self) -> None:
        leader = self.world.leader()
        if leader is None or leader.journal.first_index <= self.copy.journal.last_index + 1:
            self._after(_LOOK_SECONDS, self._await_past)
            return
        self.nemesis.kept_down.discard(self.copy.name)
        if not self.copy.is_alive:
            self.nemesis.revive(self.copy)
        self._await_begun(400)

    def _await_begun(self, left: int) -> None:
        """Let the others die once the new log has begun, and before it is full."""
        journal = self.copy.journal
        filling = journal.filling if self.copy.is_alive else None
        is_half = filling is not None and not filling.is_reached(journal.last_index)
        # Only what the writer has begun is on the disk.
        if is_half and journal.stored_index >= journal.first_index:
            self.kill_the_others()
        elif left and self.world.leader() not in {None, self.copy}:
            self._after(_NEAR_SECONDS, self._await_begun, left - 1)
        else:
            self._give_up()


def with_a_small_log_in_small_pieces(plan: Plan) -> None:
    """Let the log turn over within the chaos, and be filled slowly."""
    let_the_log_turn_over(plan, HALF_FILLED)
    plan.window_bytes = plan.append_bytes_max = 1024
    plan.is_one_left_dead = plan.is_disk_left_hanging = False
    plan.ending = ""


TROUBLES = (
    RareTrouble(
        name=HALF_FILLED,
        act=leave_one_far_behind,
        chance=0.06,
        topologies=("three", "learner", "five"),
        prepare=with_a_small_log_in_small_pieces,
    ),
)
