"""
One voter has lost its newest segment files, and the leader has cleaned farther than what is left.

So the leader has that log begun anew, and dies while it is being filled. The third voter ends
behind the new beginning and lacks what the other two have confirmed: it must not lead for that.
"""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.replication.leader import append_config
from holdfast.replication.log import ReplicatedLog
from trials.simulation.three_voters import STEP_SECONDS, ThreeVoters

BODY_BYTES = 300_000
MOMENTS = (0, 1, 2, 3, 4, 6, 8, 12)


def lose_files(world: ThreeVoters, shared: int) -> None:
    """Only the oldest file is left; the leader cleans up to the last one that all three have."""
    node = world.group.nodes[world.victim]
    segments = node.journal.segments()
    world.group.crash(world.victim)
    for segment in segments[1:]:
        node.disk.unlink(segment.path)
    node.disk.sync_directory(segments[0].path.parent)
    bases = [segment.base_index for segment in segments]
    kept = next(base for base in reversed(bases) if base <= shared)
    world.group.nodes[world.leader].journal.drop_before(kept)


def lived(steps: int, *, is_restarted: bool) -> list[int]:
    """Live in one world; gives what was confirmed and is lost."""
    world = ThreeVoters(1 << 20)
    group = world.group
    group.restart(world.behind)
    group.run(2)
    world.put(10, BODY_BYTES)
    state = group.nodes[world.leader].driver._state
    append_config(state, state.membership)  # as it does after so many bytes: who begins needs it
    group.run(1)
    group.crash(world.behind)
    shared = group.nodes[world.behind].journal.last_index
    world.confirm(12, BODY_BYTES)
    lose_files(world, shared)
    world.tell_the_victim_alone()
    group.restart(world.behind)
    group.restart(world.victim)
    victim = group.nodes[world.victim]
    epoch = victim.driver.log_epoch
    while victim.driver.log_epoch == epoch:
        group.run(STEP_SECONDS)
    group.run(steps * STEP_SECONDS)
    world.end_leader(is_victim_restarted=is_restarted)
    return world.lost()


@pytest.mark.promise("F5")
@pytest.mark.promise("F22")
@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("steps", MOMENTS)
def test_a_log_begun_anew_forgets_nothing_that_was_lost_before(
    steps: int, is_restarted: bool
) -> None:
    """The victim goes on, or its process ends as well, with what it has noted until then."""
    assert lived(steps, is_restarted=is_restarted) == []


def test_without_the_claim_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: what was lost before a new beginning is no concern of it."""
    begin_anew = ReplicatedLog.begin_anew

    def forgetting(self: ReplicatedLog, *arguments: Any, **named: Any) -> None:
        self.forget_unknown()
        begin_anew(self, *arguments, **named)

    monkeypatch.setattr(ReplicatedLog, "begin_anew", forgetting)
    assert any(lived(steps, is_restarted=False) for steps in MOMENTS)
