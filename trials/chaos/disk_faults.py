"""
Faults of disks: those that fail and keep what they have, and those that break their word.

Of the second kind (power cuts are not among them: what was synced stays) only one machine at a time
may have one, and it must be whole again before the next: so an intact copy of everything committed
remains, as the promise demands. Each of these names its victim, and the nemesis waits for it.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from functools import partial
from math import inf

from trials.chaos import bit_rot
from trials.chaos.process_faults import kill_all, start_all
from trials.chaos.schedule import Step
from trials.chaos.stage import (
    Disk,
    Fault,
    InapplicableError,
    Node,
    Stage,
    StageError,
    Strike,
)

_END_SECONDS_MAX = 20.0
"""A node whose write failed ends itself within this time."""

_SILENT_SECONDS = 2.0
"""A node that says nothing for so long of a write without room will say nothing: it was of the
ballot's floor, and an older one does."""

_STRIKES_MAX = 5
_LOG_LINES = 100_000
_COST_ONE_FILE = ("checkpoint was not written", "cannot prepare the next segment")
"""What a node says whose failed write or sync cost it a file that nothing rests on."""

_GOES_ON = ("the disk has room again: writing goes on",)
"""What it says when the log is written again after it found no room."""

_WAITS = ("the disk is full, nothing is stored until there is room",)
"""What it says when it finds no room for the log."""

_ENDS_AT_START = ("recovery could not write",)
"""What it says when it finds no room while it starts: it ends, and is started again."""

_SEGMENT_SECONDS_MAX = 10.0
"""So long sealed segments are waited for."""

_FREE_BYTES = 1 << 20
"""What a full disk tells to have: less than any reserve."""


def disk_of(node: Node) -> Disk:
    """The layer below a node; InapplicableError where there is none."""
    if node.disk is None:
        raise InapplicableError("the layer below the data folders is not there")
    return node.disk


# Disks that fail and keep what they have ----------------------------------------------------------


def _cut_power(stage: Stage, step: Step) -> Strike:
    node = stage.pick(step.where)
    disk = disk_of(node)
    stage.kill(node)
    cut = disk.power_cut(stage.chance)
    return Strike((node.name,), f"loses power: {cut}", partial(stage.start, node))


def _cut_power_everywhere(stage: Stage, step: Step) -> Strike:
    nodes = stage.nodes
    disks = [disk_of(node) for node in nodes]
    kill_all(stage, nodes)
    for disk in disks:
        disk.power_cut(stage.chance)
    names = tuple(node.name for node in nodes)
    return Strike(names, "lose power", partial(start_all, stage, nodes))


def _forget_in_quorum(stage: Stage, step: Step) -> Strike:
    """
    One follower sleeps while the other and the leader confirm; then those two are gone for a while,
    one without its unsynced pages, and the sleeper and the forgetful one are the first quorum.
    """
    leader = stage.leader()
    forgetful = stage.pick(step.where)
    disk = disk_of(forgetful)
    sleepers = [node for node in stage.others(leader, forgetful) if stage.kind(node) != "learner"]
    for node in sleepers:
        stage.freeze(node)
    stage.sleep(0.7)
    stage.kill(forgetful)
    disk.power_cut(stage.chance)
    stage.freeze(leader)
    for node in sleepers:
        stage.thaw(node)
    stage.start(forgetful)
    names = (forgetful.name, leader.name)
    repair = partial(stage.thaw, leader)
    return Strike(names, f"{forgetful.name} loses power, {leader.name} is paused", repair)


def _fail(stage: Stage, step: Step, fail: Callable[[Disk], None], what: str) -> Strike:
    """
    Let a write or sync fail; the node must end itself. Then its process is started again.

    One of a checkpoint costs only that file, and the node says so: then it strikes again until it
    meets the log.
    """
    node = stage.pick(step.where)
    stage.down.add(node.name)
    for _ in range(_STRIKES_MAX):
        spared = _said(node, _COST_ONE_FILE)
        fail(disk_of(node))
        deadline = stage.clock() + _END_SECONDS_MAX
        while node.is_running and stage.clock() < deadline:
            if _said(node, _COST_ONE_FILE) > spared:
                break
            stage.sleep(0.02)
        if not node.is_running or _said(node, _COST_ONE_FILE) == spared:
            break
    if node.is_running:
        stage.problems.append(f"{node.name} went on after {what}")
        stage.kill(node)
    code = node.wait()
    if code == 0:
        stage.problems.append(f"{node.name} ended with 0 after {what}")
    return Strike((node.name,), f"{what}: it ends with {code}", partial(stage.start, node))


def _leave_no_room(stage: Stage, step: Step) -> Strike:
    """
    Let one write of the log find no room; the node must wait, and go on by itself.

    Where it met a file that nothing rests on, it strikes again. A node that is just starting ends
    with one sentence, as it does wherever its recovery cannot write.
    """
    node = stage.pick(step.where)
    ends = _said(node, _ENDS_AT_START)
    for _ in range(_STRIKES_MAX):
        has_gone_on, is_spared = _strike_once_without_room(stage, node)
        if not is_spared:
            break
    if node.is_running:
        if not has_gone_on:
            stage.problems.append(f"{node.name} did not go on after a write without room")
        return Strike((node.name,), "a write without room: it waits and goes on", lambda: None)
    stage.down.add(node.name)
    code = node.wait()
    if code == 0 or _said(node, _ENDS_AT_START) == ends:
        stage.problems.append(f"{node.name} ended after a write without room")
    return Strike(
        (node.name,), f"a write without room: it ends with {code}", partial(stage.start, node)
    )


def _strike_once_without_room(stage: Stage, node: Node) -> tuple[bool, bool]:
    """Give whether the node has gone on, and whether a file was met that nothing rests on."""
    disk = disk_of(node)
    spared, went_on, waited = (_said(node, it) for it in (_COST_ONE_FILE, _GOES_ON, _WAITS))
    failed, silent_until = disk.counts()["failed"], inf
    disk.fail_next_write(errno.ENOSPC)
    deadline = stage.clock() + _END_SECONDS_MAX
    while node.is_running and (now := stage.clock()) < deadline:
        if _said(node, _GOES_ON) > went_on:
            return True, False
        if _said(node, _COST_ONE_FILE) > spared:
            return False, True
        has_struck = disk.counts()["failed"] > failed
        silent_until = min(silent_until, now + _SILENT_SECONDS) if has_struck else inf
        if now >= silent_until and _said(node, _WAITS) == waited:
            return False, True
        stage.sleep(0.02)
    return False, False


def _said(node: Node, sentences: tuple[str, ...]) -> int:
    """How often the node has said one of these sentences."""
    told = node.log_tail(_LOG_LINES)
    return sum(told.count(sentence) for sentence in sentences)


def _fail_sync(stage: Stage, step: Step) -> Strike:
    return _fail(stage, step, lambda disk: disk.fail_next_sync(errno.EIO), "a failed sync")


def _fail_write(stage: Stage, step: Step) -> Strike:
    return _fail(stage, step, lambda disk: disk.fail_next_write(errno.EIO), "a failed write")


def _fill_disk(stage: Stage, step: Step) -> Strike:
    if step.parameters.get("how") == "at a write":
        return _leave_no_room(stage, step)
    node = stage.pick(step.where)
    disk = disk_of(node)
    disk.pretend_free(_FREE_BYTES)
    return Strike((node.name,), "has hardly any room left", partial(disk.pretend_free, None))


def _slow_disk(stage: Stage, step: Step) -> Strike:
    node = stage.pick(step.where)
    disk = disk_of(node)
    seconds = float(step.parameters.get("sync", 0.2))
    disk.slow(seconds)
    text = f"takes {seconds * 1000:.0f} ms more for each sync"
    return Strike((node.name,), text, partial(disk.slow, 0.0))


def _hang(stage: Stage, step: Step) -> Strike:
    node = stage.pick(step.where)
    disk = disk_of(node)
    disk.hang(True)
    return Strike((node.name,), "has a disk that hangs", partial(disk.hang, False))


# Disks that break their word ----------------------------------------------------------------------


def _lie(stage: Stage, step: Step) -> Strike:
    node = stage.pick(step.where)
    disk = disk_of(node)
    disk.lie(True)
    stage.pause_for(step.seconds)
    stage.kill(node)
    cut = disk.power_cut(stage.chance)
    disk.lie(False)
    text = f"said synced for {step.seconds:.1f} s, then lost power: {cut}"
    return Strike((node.name,), text, partial(stage.start, node), (node,))


def _forget(node: Node) -> None:
    """What is on the disk now is what is durable."""
    if node.disk is not None:
        node.disk.forget()


def _spoil_dead(stage: Stage, step: Step, spoil: Callable[[Node], object]) -> Strike:
    """Kill a node and spoil what it left behind."""
    node = stage.pick(step.where)
    stage.kill(node)
    try:
        text = str(spoil(node))
    except (LookupError, ValueError, OSError) as error:
        stage.start(node)
        raise InapplicableError(f"nothing to spoil on {node.name}: {error}") from error
    _forget(node)
    return Strike((node.name,), text, partial(stage.start, node), (node,))


def _flip_bit(stage: Stage, step: Step) -> Strike:
    """In a segment under a running node: it is there to be found."""
    node = stage.pick(step.where)
    where = str(step.parameters.get("part", "body"))
    _await_segments(stage, lambda: bit_rot.has_sealed_segment(node.data))
    try:
        rot = bit_rot.rot_segment(node.data, stage.chance, where=where)
    except (LookupError, ValueError, OSError) as error:
        raise InapplicableError(f"nothing to spoil on {node.name}: {error}") from error
    return Strike((node.name,), str(rot), partial(_await_mended, stage, node, rot), (node,))


def _await_segments(stage: Stage, are_there: Callable[[], bool]) -> None:
    """Wait for sealed segments: the load fills them, the cleaner takes old ones away."""
    deadline = stage.clock() + _SEGMENT_SECONDS_MAX
    while not are_there() and stage.clock() < deadline:
        stage.sleep(0.2)


def _await_mended(stage: Stage, node: Node, rot: bit_rot.Rot, seconds: float = 60.0) -> None:
    """Wait until the file says again what it said, or is not needed any more."""
    deadline = stage.clock() + seconds
    while not bit_rot.is_mended(rot):
        if stage.clock() > deadline:
            raise StageError(f"{node.name} did not mend in {seconds:.0f} s: {rot}")
        stage.sleep(0.2)


def _flip_at_the_end(stage: Stage, step: Step) -> Strike:
    return _spoil_dead(
        stage, step, lambda node: bit_rot.rot_segment(node.data, stage.chance, where="tail")
    )


def _flip_ballot(stage: Stage, step: Step) -> Strike:
    return _spoil_dead(stage, step, lambda node: bit_rot.rot_ballot(node.data, stage.chance))


def _flip_checkpoint(stage: Stage, step: Step) -> Strike:
    return _spoil_dead(stage, step, lambda node: bit_rot.rot_checkpoint(node.data, stage.chance))


def _cut_tail(stage: Stage, step: Step) -> Strike:
    count = int(float(step.parameters.get("bytes", 65536)))
    return _spoil_dead(stage, step, lambda node: bit_rot.cut_tail(node.data, count))


def _roll_back(stage: Stage, step: Step) -> Strike:
    """A copy is taken of a stopped disk; after more work the disk is that copy again."""
    node = stage.pick(step.where)
    copy = stage.folder / f"copy of {node.name}"
    stage.kill(node)
    bit_rot.older_copy(node.data, copy)
    stage.start(node)
    stage.await_whole()
    stage.pause_for(step.seconds)
    stage.kill(node)
    text = str(bit_rot.roll_back(copy, node.data))
    _forget(node)
    shutil.rmtree(copy, ignore_errors=True)
    return Strike((node.name,), text, partial(stage.start, node), (node,))


def _wipe(stage: Stage, step: Step) -> Strike:
    node = stage.pick(step.where)
    stage.kill(node)
    stage.wipe(node)
    return Strike((node.name,), "comes back empty", partial(stage.start, node), (node,))


def _lose_second_data_node(stage: Stage, step: Step) -> Strike:
    """
    Beside a witness: one data node is down while the other goes on, then the other's disk is lost.
    The first one comes back, and must get from the witness's log what it missed.
    """
    survivor = stage.pick(step.where)
    lost = stage.leader()
    stage.kill(survivor)
    stage.pause_for(step.seconds)
    stage.kill(lost)
    stage.wipe(lost)
    stage.start(survivor)
    text = f"{survivor.name} was down, then the disk of {lost.name} is lost"
    stage.leader(60.0)
    return Strike((survivor.name, lost.name), text, partial(stage.start, lost), (lost,))


def _spoil_everywhere(stage: Stage, step: Step) -> Strike:
    """Each node has rot in another place: no node is whole, together they are."""
    nodes = [node for node in stage.nodes if stage.kind(node) == "voter"][:3]
    _await_segments(stage, lambda: len(_shared_segments(nodes)) >= len(nodes))
    kill_all(stage, nodes)
    rots = []
    try:
        for node, path in zip(nodes, _shared_segments(nodes), strict=True):
            rots.append(bit_rot.flip_body(node.data / "journal" / path, stage.chance))
            _forget(node)
    except (LookupError, ValueError, OSError) as error:
        start_all(stage, nodes)
        raise InapplicableError("too few sealed segments that all nodes hold") from error
    start_all(stage, nodes)
    names = tuple(node.name for node in nodes)

    def await_all() -> None:
        for node, rot in zip(nodes, rots, strict=True):
            _await_mended(stage, node, rot)

    return Strike(names, "; ".join(map(str, rots)), await_all, tuple(nodes))


def _shared_segments(nodes: list[Node]) -> list[str]:
    """Up to as many sealed segments that all of them hold."""
    held = [
        [path.name for path in sorted((node.data / "journal").glob("*.segment"))[:-1]]
        for node in nodes
    ]
    return sorted(set(held[0]).intersection(*held[1:]))[-len(nodes) :]


FAULTS: dict[str, Fault] = {
    "power cut": _cut_power,
    "power cut everywhere": _cut_power_everywhere,
    "power cut while the others are paused": _forget_in_quorum,
    "fsync EIO": _fail_sync,
    "write EIO": _fail_write,
    "disk full": _fill_disk,
    "slow disk": _slow_disk,
    "disk hangs": _hang,
    "lying disk": _lie,
    "bit flip": _flip_bit,
    "crash and a bit flip at the log's end": _flip_at_the_end,
    "bit flip in the ballot": _flip_ballot,
    "bit flip in a checkpoint": _flip_checkpoint,
    "log cut short": _cut_tail,
    "disk rolled back": _roll_back,
    "wiped disk": _wipe,
    "data node lost after the other's crash": _lose_second_data_node,
    "different damage on every node": _spoil_everywhere,
}
