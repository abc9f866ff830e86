"""
A process that may open no further file: sockets took all descriptors, its own or the system's.

Nothing is wrong with the disk, and what is open stays open. It strikes the threads beside the
writer, at any moment between two of its steps; the writer itself waits in the real disk (see
environment/descriptors.py), so for it nothing happens but time.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis

_STEPS = ("open", "sync_directory")


def run_out(nemesis: Nemesis) -> bool:
    """The housekeeper and the scrubber cannot open what they need next."""
    node = nemesis.leader_or_any()
    if node is None or node.is_disk_hanging or not node.disk.is_calm:
        return False
    disk, housekeeper = node.disk, node.journal.housekeeper
    before = disk.refused
    number = nemesis.chance.choice((errno.EMFILE, errno.ENFILE))
    for step in _STEPS:
        disk.fail_next[step] = number
        housekeeper.turn()
        disk.fail_next[step] = number
        node.scrubber.close()  # its next entry is in a file that is not open
        node.tell_damage(node.scrubber.turn(node.clock.monotonic()))
        disk.fail_next.pop(step, None)
    return disk.refused > before


TROUBLES = (RareTrouble(name="descriptors run out", act=run_out, chance=0.06, weight=6),)
