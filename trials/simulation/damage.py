"""
How the disks of a simulated world are spoilt: what the nemesis does to bytes that were durable.

All but one of these hurt the victim only (see faults.py for the budget). Helix damage hurts every
data node, each in another entry, so that each entry keeps a good copy somewhere: nothing may be
lost by it, and nobody is excused.

Owned by the nemesis; each function does its harm once and tells whether there was anything to harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.journal.segment import SEGMENT_HEADER_BYTES
from trials.simulation.older_copy import is_recognisable, says_all

if TYPE_CHECKING:
    from pathlib import Path

    from trials.simulation.faults import Nemesis
    from trials.simulation.simulated_node import SimulatedNode

CHECKPOINT = "bit flip in a checkpoint"
_LOOK_SECONDS = 0.1
_START_CHANCE = 0.7
_SPARED_TAIL = 3
"""So many of the newest entries are spared by helix damage: not everybody has them yet."""


def distrust(nemesis: Nemesis, node: SimulatedNode) -> None:
    """From now on this node's platters prove nothing, and messages may come out of their turn."""
    nemesis.world.checkers.distrusted.add(node.name)
    nemesis.world.history.is_order_known = False


def flip_in_segment(nemesis: Nemesis) -> bool:
    """Flip a bit anywhere in the log."""
    return _flip(nemesis, ".segment")


def flip_in_ballot(nemesis: Nemesis) -> bool:
    """Flip a bit in one of the ballot's slots."""
    return _flip(nemesis, "ballot")


def flip_in_checkpoint(nemesis: Nemesis) -> bool:
    """Flip a bit in the victim's checkpoint as soon as it has one, and often let it start on it."""
    if not nemesis.awaits_checkpoint:
        nemesis.awaits_checkpoint = True
        _flip_when_written(nemesis)
    return False


def _flip_when_written(nemesis: Nemesis) -> None:
    nemesis.awaits_checkpoint = nemesis.is_active and not _flip(nemesis, ".checkpoint")
    world = nemesis.world
    if nemesis.awaits_checkpoint:
        world.timeline.after(_LOOK_SECONDS, _flip_when_written, nemesis)
    elif nemesis.is_active:
        world.count(CHECKPOINT)
        node = nemesis.victim()
        if node is not None and nemesis.chance.random() < _START_CHANCE:
            node.stop(power=False)


def _files(node: SimulatedNode, suffix: str) -> list[Path]:
    """Files that stand on the platter and that a program can still open, sorted."""
    disk = node.disk
    found = [path for path in disk.durable_paths() if path.name.endswith(suffix)]
    return [path for path in found if disk.exists(path)]


def _flip(nemesis: Nemesis, suffix: str) -> bool:
    node = nemesis.victim()
    if node is None:
        return False
    paths = _files(node, suffix)
    if not paths:
        return False
    path = nemesis.chance.choice(paths)
    content = node.disk.content(path)
    used = len(content.rstrip(b"\0"))
    if not used:
        return False
    distrust(nemesis, node)
    node.disk.flip_bit(path, nemesis.chance.randrange(used * 8))
    nemesis.world.note(node.name, f"has a bit flipped in {path.name}")
    return True


def flip_at_the_end(nemesis: Nemesis) -> bool:
    """What it wrote last is spoilt, before it noted how far its log is durable."""
    node = nemesis.victim()
    if node is None or not node.is_alive:
        return False
    node.stop(power=False)
    paths = _files(node, ".segment")
    content = node.disk.content(paths[-1]).rstrip(b"\0") if paths else b""
    if len(content) < SEGMENT_HEADER_BYTES + 200:
        return True
    distrust(nemesis, node)
    node.disk.flip_bit(paths[-1], (len(content) - nemesis.chance.randrange(1, 300)) * 8)
    nemesis.world.note(node.name, f"has a bit flipped at the end of {paths[-1].name}")
    return True


def misdirect(nemesis: Nemesis) -> bool:
    """Let the next write to a segment miss its place; counted when it does."""
    node = nemesis.victim()
    if node is None:
        return False
    distrust(nemesis, node)
    node.disk.misdirect_next = nemesis.chance.choice((512, 4096))
    # Until the floor is noted nothing tells a write that went elsewhere from none at all.
    nemesis.world.checkers.rolled_back.add(node.name)
    return False


def spoil_sector(nemesis: Nemesis) -> bool:
    """Let a sector of the log be unreadable from now on."""
    node = nemesis.victim()
    if node is None:
        return False
    paths = _files(node, ".segment")
    if not paths:
        return False
    distrust(nemesis, node)
    path = nemesis.chance.choice(paths)
    sectors = len(node.disk.content(path)) // 512
    if not sectors:
        return False
    node.disk.make_unreadable(path, nemesis.chance.randrange(sectors))
    return True


def lie(nemesis: Nemesis) -> bool:
    """
    For a while syncs succeed and do nothing; then the power fails.

    It fails only where the others know better than what is left, as with an older copy of the disk;
    else the disk becomes honest again in time, and nothing was lost. Some of what was not synced is
    there all the same. Should that hide that the rest is missing, as a new ballot without the
    entries behind its floor does, then none of it is there: nobody promises to see through that.
    """
    node = nemesis.victim()
    if node is None or not node.is_alive or node.disk.is_lying:
        return False
    distrust(nemesis, node)
    node.disk.is_lying = True
    nemesis.world.checkers.rolled_back.add(node.name)
    nemesis.world.note(node.name, "has a disk that lies about its syncs")
    nemesis.world.timeline.after(nemesis.chance.uniform(0.3, 1.2), _end_lie, nemesis, node)
    return False  # Counted when it loses what it lied about.


def _end_lie(nemesis: Nemesis, node: SimulatedNode) -> None:
    if not node.disk.is_lying:
        return
    others = [other.disk.snapshot() for other in nemesis.world.nodes if other is not node]
    voters = [member for member in nemesis.plan.members if member.is_voter]
    if nemesis.is_active and is_recognisable(node.disk.snapshot(), others, len(voters)):
        durable, told, stored = (
            node.disk.snapshot(),
            node.driver.hello.edition,
            node.journal.stored_index,
        )
        node.disk.stop_lying(is_kept=False)
        node.stop(power=True)
        left = node.disk.snapshot()
        if not (is_recognisable(left, others, len(voters)) or says_all(left, told, stored)):
            node.disk.restore(durable)
        nemesis.world.count("lying disk")
        return
    node.disk.stop_lying(is_kept=True)


def cut_tail(nemesis: Nemesis) -> bool:
    """
    Cut the end off a dead node's log, below what it had noted to be durable.

    Only where everything durable is below that note: what is above it could not be missed.
    """
    node = nemesis.victim()
    if node is None or not node.is_alive:
        return False
    journal = node.journal
    ballot = journal.ballot_file.current
    # What nobody knows of the end is above the note, too.
    last = max(journal.last_index, journal.unknown_through)
    if ballot is None or ballot.durable_floor < last:
        return False
    node.stop(power=False)
    paths = _files(node, ".segment")
    used = [path for path in paths if len(_used(node, path)) > SEGMENT_HEADER_BYTES]
    if not used:
        return True
    distrust(nemesis, node)
    content = _used(node, used[-1])
    cut = nemesis.chance.choice((64, 512, 4096, 1 << 20))
    kept = content[: max(SEGMENT_HEADER_BYTES, len(content) - cut)]
    size = len(node.disk.content(used[-1])) if nemesis.chance.random() < 0.5 else len(kept)
    node.disk.replace_content(used[-1], kept.ljust(size, b"\0"))
    nemesis.world.note(node.name, f"loses {len(content) - len(kept)} bytes of {used[-1].name}")
    return True


def _used(node: SimulatedNode, path: object) -> bytes:
    return node.disk.content(path).rstrip(b"\0")  # type: ignore[arg-type]


def helix(nemesis: Nemesis) -> bool:
    """Spoil on every data node another entry that all of them have."""
    nodes = [node for node in nemesis.world.nodes if node.is_alive and not node.driver.is_witness]
    if len(nodes) < 3 or any(node.journal.damage for node in nodes):
        return False
    first = max(node.journal.first_index for node in nodes)
    last = min(min(node.journal.stored_index, node.driver.commit_index) for node in nodes)
    # An entry is spoilt once: that the first harm was mended nobody knows.
    whole = [index for index in range(first, last - _SPARED_TAIL) if index not in nemesis.spoilt]
    if len(whole) < len(nodes):
        return False
    indexes = nemesis.chance.sample(whole, len(nodes))
    nemesis.spoilt.update(indexes)
    nemesis.world.history.is_order_known = False
    for node, index in zip(nodes, indexes, strict=True):
        spoil_entry(nemesis, node, index)
    return True


def spoil_entry(nemesis: Nemesis, node: SimulatedNode, index: int) -> None:
    """Flip a bit of one entry on one disk."""
    place = node.journal.place_of(index)
    bit = nemesis.chance.randrange((place.size - 8) * 8)  # Not in what only fills it up.
    node.disk.flip_bit(place.path, place.byte * 8 + bit)
    nemesis.world.note(node.name, f"has a bit flipped in entry {index}")
