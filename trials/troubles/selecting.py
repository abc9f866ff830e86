"""
Clients that want some messages of a queue only; they join at the first stroke, and some more later.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble
from trials.simulation.selecting_clients import (
    SELECTED,
    SELECTED_GROUPS,
    WANTED,
    PickyGroupConsumer,
    PickyGroupProducer,
    SelectedProducer,
    SelectingConsumer,
)

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis

_COUNT_MAX = 6


def begin_to_select(nemesis: Nemesis) -> bool:
    """Let them come, one for each selector, or one more."""
    world = nemesis.world
    there = sum(isinstance(client, SelectingConsumer) for client in world.clients)
    if there >= _COUNT_MAX:
        return False
    if not there:
        world.clients.append(SelectedProducer(world, "x0"))
    for number in range(there, there + 1 if there else len(WANTED)):
        world.clients.append(SelectingConsumer(world, f"x{number + 1}", number))
    return True


def begin_to_select_from_groups(nemesis: Nemesis) -> bool:
    """The same with messages in groups; and one that wants all of them."""
    world = nemesis.world
    there = sum(isinstance(client, PickyGroupConsumer) for client in world.clients)
    if there >= _COUNT_MAX:
        return False
    if not there:
        world.clients.append(PickyGroupProducer(world, "y0"))
    for number in range(there, there + 1 if there else len(WANTED)):
        world.clients.append(PickyGroupConsumer(world, f"y{number + 1}", number))
    return True


TROUBLES = (
    RareTrouble(name=SELECTED, act=begin_to_select, chance=0.0),
    RareTrouble(name=SELECTED_GROUPS, act=begin_to_select_from_groups, chance=0.0),
)
