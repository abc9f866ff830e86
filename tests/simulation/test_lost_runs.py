"""
One voter's disk has lost the end of its log, and the leader dies while it is mended.

The entries that are lost begin with the first one of a term. So whatever the voter takes a lost
header's term for, and whenever the leader dies: what the voter had said that it holds is not
forgotten. Each world is one moment.
"""

from __future__ import annotations

import pytest

from holdfast.replication.log import ReplicatedLog
from trials.simulation.three_voters import STEP_SECONDS, ThreeVoters

MOMENTS = (0, 2, 4, 6, 8, 10, 12, 14, 16, 20, 30)
SIZES = {
    "large": (700_000, 7, 4 << 20),
    "small": (30_000, 40, 256 << 10),
    "one": (2_000, 6, 4 << 20),
}


def lose_end(world: ThreeVoters) -> None:
    """All that the victim was given since the third one was gone reads as zeros."""
    group, node = world.group, world.group.nodes[world.victim]
    first = world.confirmed[0]
    segments, place = node.journal.segments(), node.journal.place_of(first)
    group.crash(world.leader)
    group.crash(world.victim)
    for segment in segments:
        content = node.disk.content(segment.path)
        kept = content[: place.byte if segment.path == place.path else 4096]
        if segment.base_index > first or segment.path == place.path:
            node.disk.replace_content(segment.path, kept.ljust(len(content), b"\0"))


def lived(size: str, steps: int, *, is_restarted: bool) -> list[int]:
    """Live in one world; gives what was confirmed and is lost."""
    body_bytes, count, segment_bytes = SIZES[size]
    world = ThreeVoters(segment_bytes)
    group = world.group
    world.confirm(count, body_bytes)
    lose_end(world)
    world.tell_the_victim_alone()
    group.restart(world.behind)
    group.restart(world.leader)
    group.run_until(lambda: group.nodes[world.leader].driver.is_leader, 20)
    group.restart(world.victim)
    group.run(steps * STEP_SECONDS)
    world.end_leader(is_victim_restarted=is_restarted)
    return world.lost()


@pytest.mark.promise("F5")
@pytest.mark.promise("F22")
@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("steps", MOMENTS)
def test_nothing_that_was_held_is_forgotten(steps: int, size: str, is_restarted: bool) -> None:
    """The victim goes on, or its process ends as well, with what it has noted until then."""
    assert lived(size, steps, is_restarted=is_restarted) == []


@pytest.fixture
def unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No header behind what is lost bounds its term, so that it is cut by a guess."""
    monkeypatch.setattr(
        ReplicatedLog, "_last_with_header", lambda self, _index: self.last_index + 1
    )


@pytest.mark.promise("F5")
@pytest.mark.usefixtures("unbounded")
def test_nothing_that_is_cut_by_a_guess_is_forgotten() -> None:
    """As much counts as held until it is here again."""
    assert not any(lived("large", steps, is_restarted=True) for steps in MOMENTS)


@pytest.mark.usefixtures("unbounded")
def test_without_the_claim_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: what is cut by a guess is cut as what differs is."""

    def cut_after(self: ReplicatedLog, index: int, _commit_index: int) -> None:
        self.jobs.append(self.journal.stage_truncate(index))
        self.damaged.keep(0, index)

    monkeypatch.setattr(ReplicatedLog, "cut_after", cut_after)
    assert any(lived("large", steps, is_restarted=True) for steps in MOMENTS)
