"""
Generations of a simulated cluster: what a forced promotion gave up, and what must never come back.

A promotion by force lets one copy go on alone. What it lacked is lost, as it was told: confirmed
messages, acknowledgements, producers' numbers. So the books are turned back to where the copy
ended, and everything is held to all promises again from there. Whoever is of an earlier generation
proves nothing any more, and may do nothing but end.

A generation begins here when its first entry is committed, not when it is asked for; somebody may
be shut out for its sake once a ballot that names it is on a platter.

Invariants (each violation is raised with its name):
    S2: an entry of a generation that was given up is committed in no later one.
    S9: a place that was given to a message in one generation is given to no other one.
    S15: nobody is shut out but by a generation that stands on somebody's platter.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from holdfast.errors import CorruptEntryError
from holdfast.journal.ballot import SLOT_BYTES, Ballot, decode_ballot
from trials.simulation.committed_log import CommittedLog
from trials.simulation.history import place_of

if TYPE_CHECKING:
    from trials.simulation.checkers import Checkers
    from trials.simulation.simulated_node import SimulatedNode

BEGUN = "generation begun by force"
LAGGED = "forced promotion of a copy that lags"
GIVEN_UP = "confirmed message given up by force"
UNDONE = "confirmed acknowledgement undone by force"


class Generations:
    """Which generation rules, and what the ones before it have left behind."""

    def __init__(self, checkers: Checkers) -> None:
        self._checkers = checkers
        self.ruling = 0
        """The newest generation of which anything is committed."""
        self.began_at = 0.0
        self.lost: dict[tuple[int, int], str] = {}
        """What stood in the log of an earlier generation only: place and token."""
        self._fenced: set[tuple[str, int]] = set()
        """Whose disks were of an earlier generation when their nodes were shut out."""

    def is_past(self, node: SimulatedNode) -> bool:
        """Whether this node is of a generation that another one has taken the place of."""
        generation = node.driver.generation
        if generation != self.ruling:
            return generation < self.ruling
        return self._was_shut_out(node)

    def _was_shut_out(self, node: SimulatedNode) -> bool:
        """Whether all that this node knows of the ruling generation is that it is no part of it."""
        # Asked several times in each turn, and hardly ever so: what costs least is looked at first.
        hello, membership = node.driver.hello, self._checkers.log.membership
        if (
            (membership is None or hello.node_id not in membership.retired)
            and (not self._fenced or (node.name, node.disk_number) not in self._fenced)
            and not (hello.shut_out and self.is_fenced(node))
        ):
            return False
        return node.driver.status().is_cut_short  # Last: a whole status costs more than a turn.

    def look(self, node: SimulatedNode) -> None:
        """Turn the books back if this node has committed the first of a new generation."""
        if node.driver.generation <= self.ruling:
            return
        fork = self._fork(node)
        if node.driver.commit_index > fork:
            self._begin(node, fork)

    def _fork(self, node: SimulatedNode) -> int:
        """Through which entry this node's log is what was committed so far."""
        checkers, journal = self._checkers, node.journal
        index = min(checkers.commit_index, journal.last_index)
        while index >= journal.first_index:
            try:
                if journal.chain_at(index) == checkers.commit_chains.get(index):
                    break
            except CorruptEntryError:
                pass  # What comes before it decides.
            index -= 1
        return index

    def _begin(self, node: SimulatedNode, fork: int) -> None:
        checkers, world = self._checkers, self._checkers.world
        self.ruling = node.driver.generation
        self.began_at = world.timeline.now
        world.count(BEGUN)
        lacking = checkers.commit_index - fork
        if lacking:
            world.count(LAGGED)
        world.note(node.name, f"begins generation {self.ruling} and lacks {lacking} entries")
        self._turn_log_back(fork)
        checkers.turn_back(fork, node.driver.hello.node_id)

    def _turn_log_back(self, fork: int) -> None:
        """Read the log again as far as the copy has it; give up what only the rest said."""
        checkers, history = self._checkers, self._checkers.history
        before = checkers.log
        log = CommittedLog(history)
        for entry in before.entries:
            if entry.index <= fork:
                log.feed(entry)
        for place, token in before.tokens.items():
            if place not in log.tokens:
                self.lost[place] = token
        checkers.log = log
        faults = checkers.world.faults
        for token in [it for it in history.confirmed if not log.is_committed(it)]:
            del history.confirmed[token]
            history.given_up.add(token)
            faults[GIVEN_UP] += 1
        for client in checkers.world.clients:
            client.turned_back()
        for message_id in [it for it in history.settled_at if place_of(it) not in log.settled]:
            del history.settled_at[message_id]
            faults[UNDONE] += 1
        for removal in chain.from_iterable(history.removals.values()):
            removal.confirmed_at = None  # Whatever the copy says of it, or not, holds.

    def is_fenced(self, node: SimulatedNode) -> bool:
        """
        Whether this node may be shut out for the sake of another generation.

        A later one than its own stands in a ballot on somebody's platter; or one that its own
        ballot said when its process began, maybe before a power cut that nobody could judge. What
        it wrote into that ballot as it was told proves nothing of who told it.
        """
        own, ballot = node.driver.generation, newest_ballot(node)
        is_told = ballot is not None and ballot.is_shut_out
        if is_told and (node.name, node.disk_number) in self._fenced:
            return True
        was_told = ballot is not None and ballot.is_shut_out and ballot.generation == own
        others = self._checkers.world.network.nodes.values()
        found = (newest_ballot(other) for other in others if other is not node)
        least = own if was_told else own + 1
        return any(it is not None and it.generation >= least for it in found)

    def note_fenced(self, node: SimulatedNode) -> None:
        """Keep that it was, with its disk."""
        self._fenced.add((node.name, node.disk_number))


def newest_ballot(node: SimulatedNode) -> Ballot | None:
    """The ballot that a node would find after a power cut."""
    path = node.journal.directory / "ballot" if hasattr(node, "journal") else None
    content = bytes((path and node.disk.durable_content(path)) or b"")
    slots = (decode_ballot(content[start:][:SLOT_BYTES]) for start in (0, SLOT_BYTES))
    return max(filter(None, slots), key=lambda ballot: ballot.sequence, default=None)


def has_shut_out(nodes: Iterable[SimulatedNode], ruling: int) -> bool:
    """Whether a generation after the ruling one stands on a disk of somebody it has shut out."""
    ballots = [newest_ballot(node) for node in nodes]
    return any(it is not None and it.is_shut_out and it.generation > ruling for it in ballots)
