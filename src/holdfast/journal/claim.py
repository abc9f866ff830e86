"""
What a node may have said that it holds, and does not know any more: noted until it is settled.

Recovery cuts what nobody knows; this node may have acknowledged it. A log that is cut there must
not look whole, and vote as if it were, until it is durable beyond the claim or a leader of a later
term has sent something else in its place.

Invariants:
    While a claim stands, the ballot says so, whatever else of the log is noted in it.

Owned by the writer's thread.
"""

from __future__ import annotations

from holdfast.journal.ballot import BallotFile
from holdfast.journal.entry import parse_header
from holdfast.journal.jobs import Claim, Piece, TruncateJob


class StandingClaim:
    """The claim of one log, if there is any, as its ballot has it."""

    __slots__ = ("_ballot_file", "value")

    def __init__(self, ballot_file: BallotFile) -> None:
        self._ballot_file = ballot_file
        self.value: Claim | None = None
        """(term, index) of what was cut unknown, until the log is durable beyond it."""

    def note_begin(self, index: int, chain: bytes) -> None:
        """Note that the log begins at this entry, and what is claimed all the same."""
        claimed = 0 if self.value is None else self.value[1]
        self._ballot_file.begin_log(index, chain, claimed)

    def note_cut(self, job: TruncateJob) -> None:
        """Note that the log is about to be cut; nothing is cut before."""
        self.value = job.claim
        if job.claim is None:
            # The claim goes first: after a crash in between, a shorter log must not look damaged.
            self._ballot_file.lower_floor(job.after_index, job.chain)
        else:
            # It stays: after a crash in between, a shorter log must not look whole, and vote so.
            self._ballot_file.claim_through(job.claim[1])

    def settle(self, run: Piece) -> None:
        """Give the claim up that a cut left, if what a leader sent instead is of a later term."""
        if self.value is None:
            return
        term, index = self.value
        if run.last_index >= index:
            self.value = None
        elif parse_header(run.buffers[-1]).term > term:
            self.value = None
            self._ballot_file.lower_floor(run.last_index, run.last_chain)
