"""
A disk that lies about its syncs loses no more than the promise allows for.
"""

from __future__ import annotations

import pytest

from trials.simulation import damage
from trials.simulation.faults import Nemesis, focused
from trials.simulation.older_copy import is_recognisable, says_all
from trials.simulation.simulated_node import SimulatedNode
from trials.simulation.simulator import simulate

LYING = "lying disk"


@pytest.mark.slow
def test_what_a_lying_disk_leaves_is_known_to_be_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    By the others, or by its own ballot: else it could pass for the whole disk.
    """
    ends: list[bool] = []
    end_lie = damage._end_lie

    def look_after(nemesis: Nemesis, node: SimulatedNode) -> None:
        before = nemesis.world.faults[LYING]
        told, stored = node.driver.hello.edition, node.journal.stored_index
        end_lie(nemesis, node)
        if nemesis.world.faults[LYING] > before:
            others = [it.disk.snapshot() for it in nemesis.world.nodes if it is not node]
            voters = sum(member.is_voter for member in nemesis.plan.members)
            left = node.disk.snapshot()
            is_seen = is_recognisable(left, others, voters)
            ends.append(is_seen or says_all(left, told, stored))

    monkeypatch.setattr(damage, "_end_lie", look_after)
    for seed in range(1, 8):
        assert "" == simulate(seed, focused(seed, [LYING])).violation, f"seed {seed}"

    assert len(ends) > 5
    assert all(ends)
