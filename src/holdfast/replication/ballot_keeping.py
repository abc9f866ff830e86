"""
The ballot on its way to the disk: what it must say, and whether it says so there.

Term, vote, cluster and generation change in memory at once. Nothing that depends on them may be
told before the ballot that holds them is durable, so somebody has to know whether one is under way.

Invariants:
    While `job` is set, the newest ballot is not known to be durable.
    A job that was replaced does not count: the newest ballot covers what an older one says.

Owned by the driver; the writer keeps what is given out here.
"""

from __future__ import annotations

from holdfast.journal.ballot import Ballot, BallotFile
from holdfast.journal.jobs import BallotJob
from holdfast.replication.state import State


class BallotKeeper:
    """What the ballot of one member must say, and which one is being written."""

    __slots__ = ("_state", "_wanted", "file", "job", "noted")

    def __init__(self, state: State, file: BallotFile) -> None:
        """Begin with a state that was restored from this file."""
        self._state = state
        self.file = file
        self.job: BallotJob | None = None
        """The newest ballot, while it is on its way to the disk."""
        self.noted: Ballot | None = None
        """The one on disk whose edition was taken up."""
        self._wanted = _due(state)

    @property
    def kept(self) -> Ballot:
        """The ballot that is on disk."""
        ballot = self.file.current
        assert ballot is not None
        return ballot

    @property
    def is_generation_kept(self) -> bool:
        """Whether the generation that rules here is in the ballot on disk."""
        ballot = self.file.current
        return ballot is not None and ballot.generation >= self._state.generation

    def take_changed(self) -> BallotJob | None:
        """Give the job to write the ballot, if it must say something else than before."""
        state = self._state
        wanted = _due(state)
        if wanted == self._wanted:
            return None
        self._wanted = wanted
        term, voted_for, cluster_id, generation, is_shut_out = wanted
        ballot = Ballot(
            node_id=bytes.fromhex(state.node_id),
            term=term,
            voted_for=voted_for,
            generation=generation,
            cluster_id=bytes.fromhex(cluster_id),
            is_shut_out=is_shut_out,
        )
        # An older job still under way does not matter: the newest ballot covers it.
        self.job = BallotJob(ballot)
        return self.job

    def take_stored(self) -> Ballot | None:
        """Give the ballot that was on its way, once it is durable."""
        job = self.job
        if job is None or not job.is_done:
            return None
        self.job = None
        return job.ballot


def _due(state: State) -> tuple[int, str | None, str, int, bool]:
    """Give what the ballot must say before anything else is said."""
    generation = max(state.generation, state.fenced_by)
    return state.term, state.voted_for, state.cluster_id, generation, state.is_shut_out
