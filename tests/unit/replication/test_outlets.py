"""What the driver reaches out through: the real ones and the simulated ones keep one contract."""

from __future__ import annotations

import inspect

import pytest

from holdfast.journal.writer import JournalWriter
from holdfast.replication.outlets import Links, Writer
from holdfast.replication.peer_links import PeerLinks
from trials.simulation import simulated_group
from trials.simulation.simulated_network import NodeLinks
from trials.simulation.simulated_node import SimulatedNode


def asked(kind: type) -> list[str]:
    """The methods that a contract names."""
    return [name for name in vars(kind) if not name.startswith("_")]


@pytest.mark.parametrize(
    ("contract", "kept_by"),
    [
        (Links, PeerLinks),
        (Links, NodeLinks),
        (Links, simulated_group._Links),
        (Writer, JournalWriter),
        (Writer, SimulatedNode),
        (Writer, simulated_group.SimulatedNode),
    ],
)
def test_every_outlet_has_the_same_methods(contract: type, kept_by: type) -> None:
    """The driver calls them by position, over sockets and threads and in simulators alike."""
    assert asked(contract)
    for name in asked(contract):
        wanted = list(inspect.signature(getattr(contract, name)).parameters)
        assert wanted == list(inspect.signature(getattr(kept_by, name)).parameters)
