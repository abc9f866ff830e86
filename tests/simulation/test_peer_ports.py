"""
Peer ports in the simulated world: the real handshake, crowds of strangers, settings that differ.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import assert_kept
from trials.safeguards.ablation import catch
from trials.safeguards.membership import ABLATIONS
from trials.simulation.faults import Plan, focused
from trials.simulation.simulator import Simulation
from trials.troubles.membership import CROWD, HARMLESS_CUT, MISTAKE, MISTAKEN_LEAD, REMOVAL


def plan(seed: int, kind: str) -> Plan:
    made = focused(seed, (kind, "crash") if kind == CROWD else (kind,))
    made.chaos_seconds = 6.0
    return made


@pytest.mark.parametrize(
    ("kind", "happened"),
    [
        (CROWD, {"dial gets through a crowd of strangers", "dial crowded out by strangers"}),
        (REMOVAL, {"the voter to be removed leads", REMOVAL}),
        (MISTAKE, {MISTAKE}),
        (MISTAKEN_LEAD, {MISTAKEN_LEAD}),
        (HARMLESS_CUT, {HARMLESS_CUT}),
    ],
)
def test_the_trouble_happens_and_breaks_nothing(kind: str, happened: set[str]) -> None:
    """Counted when it happens, not when it is asked for; seen among a few seeds."""
    assert_kept(lambda seed: plan(seed, kind), first=1, count=3, happened=happened)


def test_nodes_that_must_not_be_linked_are_not() -> None:
    """The one that was started with other settings follows nobody until it is started rightly."""
    world = Simulation(3, plan(3, MISTAKE))
    for node in world.nodes[:2]:
        node.start()
    odd = world.nodes[2]
    odd.mistaken_settings = world.replication_settings.__class__(copies=3)
    odd.start()
    world.timeline.run(3.0)
    assert not odd.driver.status().cluster_id
    assert {None} == {node.driver.leader for node in world.nodes}

    odd.stop(power=False)
    odd.mistaken_settings = None
    odd.start()
    world.timeline.run(3.0)

    assert world.leader() is not None
    assert odd.driver.leader == world.leader().driver.leader


def test_one_with_other_settings_that_is_let_in_is_noticed() -> None:
    """It is given the lead, is cut off, and dispatches on when the others have elected another."""
    (ablation,) = (it for it in ABLATIONS if it.kinds == (MISTAKEN_LEAD,))
    caught = catch(ablation, range(1, 4))

    assert caught is not None
    assert "S12" in caught[1]
