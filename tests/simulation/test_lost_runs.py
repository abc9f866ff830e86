"""
One voter's disk has lost the end of its log, and the leader dies while it is mended.

All that was confirmed stands on the leader's disk and on that voter's; the third one lacks it, and
the entries that are lost begin with the first one of a term. So whatever the voter takes a lost
header's term for, and whenever the leader dies: nobody may lead who lacks what the voter had said
that it holds. Each world is one moment.
"""

from __future__ import annotations

import pytest

from holdfast.replication.log import ReplicatedLog
from holdfast.replication.membership import Member
from holdfast.replication.messages import AppendRequest, Message
from holdfast.testing.simulated_group import SimulatedGroup

STEP_SECONDS = 0.0005
MOMENTS = (0, 2, 4, 6, 8, 10, 12, 14, 16, 20, 30)
SIZES = {
    "large": (700_000, 7, 4 << 20),
    "small": (30_000, 40, 256 << 10),
    "one": (2_000, 6, 4 << 20),
}


class World:
    """Three voters, of which `behind` lacks what `leader` and `victim` have confirmed."""

    def __init__(self, size: str) -> None:
        body, count, segment_bytes = SIZES[size]
        members = [Member(name, f"{name}:1", "voter", "") for name in "abc"]
        self.group = group = SimulatedGroup(members, seed=1, segment_bytes=segment_bytes)
        group.start()
        self.behind = self.lead()
        for number in range(3):
            group.propose(self.behind, b"old %d" % number)
        group.run(1)
        group.crash(self.behind)
        self.leader = self.lead()
        (self.victim,) = set("abc") - {self.behind, self.leader}
        self.first = group.nodes[self.behind].journal.last_index + 1
        for number in range(count):
            group.propose(self.leader, b"confirmed %d" % number + bytes([number + 1]) * body)
            group.run(0.3)
        group.run(1)
        self.confirmed = sorted(it for it in group.checker.confirmed if it >= self.first)
        group.nodes[self.victim]._writer.save_floor()
        group.checker.check = lambda node: None  # type: ignore[method-assign]  # it reads what is lost

    def lead(self, but: str = "") -> str:
        """Wait until somebody leads."""
        self.group.run_until(lambda: (it := self.group.leader()) is not None and it.name != but, 8)
        leader = self.group.leader()
        assert leader is not None
        return leader.name

    def lose_end(self) -> None:
        """All that the victim was given since the third one was gone reads as zeros."""
        node = self.group.nodes[self.victim]
        segments, place = node.journal.segments(), node.journal.place_of(self.first)
        self.group.crash(self.leader)
        self.group.crash(self.victim)
        for segment in segments:
            content = node.disk.content(segment.path)
            kept = content[: place.byte if segment.path == place.path else 4096]
            if segment.base_index > self.first or segment.path == place.path:
                node.disk.replace_content(segment.path, kept.ljust(len(content), b"\0"))

    def mend_for(self, steps: int) -> None:
        """The leader is there again, tells nobody but the victim, and dies after so many steps."""
        group = self.group
        carry = group.carry

        def to_the_victim(source: str, target: str, message: Message) -> None:
            if target != self.behind or not isinstance(message, AppendRequest):
                carry(source, target, message)

        group.carry = to_the_victim  # type: ignore[method-assign]
        group.restart(self.behind)
        group.restart(self.leader)
        group.run_until(lambda: group.nodes[self.leader].driver.is_leader, 20)
        group.restart(self.victim)
        group.run(steps * STEP_SECONDS)
        group.crash(self.leader)
        group.carry = carry  # type: ignore[method-assign]

    def lost(self) -> list[int]:
        """What was confirmed and whoever leads does not have; nobody may lead without that."""
        try:
            name = self.lead(but=self.leader)
        except AssertionError:
            self.group.restart(self.leader)
            name = self.lead()
        self.group.run(1)
        journal, committed = self.group.nodes[name].journal, self.group.checker.committed
        return [
            index
            for index in self.confirmed
            if index > journal.last_index or journal.chain_at(index) != committed[index]
        ]


def left_alone(size: str, steps: int, *, is_restarted: bool) -> list[int]:
    """Live in one world; gives what was confirmed and is lost."""
    world = World(size)
    assert len(world.confirmed) >= SIZES[size][1]
    world.lose_end()
    world.mend_for(steps)
    if is_restarted:
        world.group.run(0.05)
        world.group.crash(world.victim)
        world.group.restart(world.victim)
    return world.lost()


@pytest.mark.promise("F5")
@pytest.mark.promise("F22")
@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("steps", MOMENTS)
def test_nothing_that_was_held_is_forgotten(steps: int, size: str, is_restarted: bool) -> None:
    """The victim goes on, or its process ends as well, with what it has noted until then."""
    assert left_alone(size, steps, is_restarted=is_restarted) == []


def test_without_the_claim_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: what is cut by a guess is cut as what differs is."""

    def cut_after(self: ReplicatedLog, index: int, _commit_index: int) -> None:
        self.jobs.append(self.journal.stage_truncate(index))
        self.damaged.keep(0, index)

    monkeypatch.setattr(ReplicatedLog, "cut_after", cut_after)
    assert any(left_alone("large", steps, is_restarted=True) for steps in MOMENTS)
