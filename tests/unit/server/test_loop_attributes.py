"""Tests of server/loop_attributes.py: the loop's object stays quick to call."""

from __future__ import annotations

from holdfast.server.loop_attributes import LOOP_ATTRIBUTES


def test_every_attribute_of_the_loop_has_its_slot(node) -> None:
    """One that has none goes into a mapping, whose making slows every turn down."""
    assert {} == vars(node.conductor)


def test_every_slot_is_an_attribute(node) -> None:
    """What is not there any more is not listed."""
    names = set(LOOP_ATTRIBUTES) - {"__dict__", "__weakref__"}

    assert [] == [name for name in sorted(names) if not hasattr(node.conductor, name)]
