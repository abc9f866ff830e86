"""
Three voters: one whose disk loses something, the leader with a good one, and one that is behind.

What is confirmed stands on two disks. Whatever one of them loses, nobody may lead who lacks it.
"""

from __future__ import annotations

from holdfast.replication.membership import Member
from holdfast.replication.messages import AppendRequest, Message
from trials.simulation.simulated_group import SimulatedGroup

STEP_SECONDS = 0.0005
_LEAD_SECONDS_MAX = 8


class ThreeVoters:
    """A group, and who is what in it; `behind` led first, and has given way to `leader`."""

    def __init__(self, segment_bytes: int) -> None:
        members = [Member(name, f"{name}:1", "voter", "") for name in "abc"]
        self.group = SimulatedGroup(members, seed=1, segment_bytes=segment_bytes)
        self.group.start()
        self.behind = self.lead()
        for number in range(3):
            self.group.propose(self.behind, b"old %d" % number)
        self.group.run(1)
        self.group.crash(self.behind)
        self.leader = self.lead()
        (self.victim,) = set("abc") - {self.behind, self.leader}
        self.confirmed: list[int] = []
        """What `behind` lacks."""

    def lead(self, but: str = "") -> str:
        """Wait until somebody leads, and not this one; AssertionError if nobody does."""

        def is_led() -> bool:
            leader = self.group.leader()
            return leader is not None and leader.name != but

        self.group.run_until(is_led, _LEAD_SECONDS_MAX)
        leader = self.group.leader()
        assert leader is not None
        return leader.name

    def put(self, count: int, body_bytes: int) -> None:
        """Let so many entries be confirmed."""
        for number in range(count):
            self.group.propose(self.leader, b"entry %d" % number + bytes([number + 1]) * body_bytes)
            self.group.run(0.3)
        self.group.run(1)

    def confirm(self, count: int, body_bytes: int) -> None:
        """Let so many entries be confirmed without `behind`; from then on damage is looked over."""
        last = self.group.nodes[self.behind].journal.last_index
        self.put(count, body_bytes)
        self.confirmed = sorted(it for it in self.group.checker.confirmed if it > last)
        assert len(self.confirmed) >= count
        self.group.nodes[self.victim]._writer.save_floor()  # noqa: SLF001 - as it does when idle
        self.group.checker.check = lambda _node: None  # type: ignore[assignment,method-assign]

    def tell_the_victim_alone(self) -> None:
        """From now on the leader's entries reach nobody else."""
        carry = self.group.carry

        def carried(source: str, target: str, message: Message) -> None:
            if target != self.behind or not isinstance(message, AppendRequest):
                carry(source, target, message)

        self.group.carry = carried  # type: ignore[method-assign]

    def end_leader(self, *, is_victim_restarted: bool) -> None:
        """The leader dies; the links are whole, and the victim's process may end as well."""
        self.group.crash(self.leader)
        if is_victim_restarted:
            self.group.run(0.05)
            self.group.crash(self.victim)
            self.group.restart(self.victim)
        del self.group.carry

    def lost(self) -> list[int]:
        """What was confirmed and whoever leads does not have; if nobody does, with the leader."""
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
