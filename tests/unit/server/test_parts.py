"""
A node's parts, as those who tell of it find them.
"""

from __future__ import annotations

from dataclasses import fields

from holdfast.server.node import Node
from holdfast.server.parts import Parts
from tests.unit.server.whole_node import config


def test_every_part_is_there_and_belongs_to_the_others(tmp_path) -> None:
    """
    One broker, one store, one clock: what is told of a node is told of what runs. Nobody looks
    after its directory where there is one only.
    """
    node = Node(config(tmp_path))
    parts = node.parts
    parts.journal.close()
    missing = [each.name for each in fields(Parts) if getattr(parts, each.name) is None]
    assert ["caretaker"] == missing
    conductor = parts.conductor
    assert (conductor.broker, conductor.store) == (parts.broker, parts.store)
    assert (conductor.context, conductor.clock) == (parts.context, parts.clock)
    assert parts.store.driver is parts.driver
    assert node.driver is parts.driver
