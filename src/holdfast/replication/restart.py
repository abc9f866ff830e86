"""
What a member knows when its process begins: from its ballot, its journal and its command line.

The ballot says who this node is and for whom it voted, the log who the members are, a checkpoint
what is known to be committed. What it says of itself when a link is made follows from the three.

Invariants:
    The term is never lower than the ballot's, nor than that of the log's last entry.
    Nothing is known to be committed that the checkpoint, or the log's beginning, does not prove.

Called once, on the loop thread, before anything is sent.
"""

from __future__ import annotations

from holdfast.environment.randomness import Randomness
from holdfast.errors import BallotLostError, StoreError
from holdfast.journal.ballot import Ballot, BallotFile
from holdfast.journal.entry import KIND_CONFIG
from holdfast.journal.journal import Journal
from holdfast.replication import formation, promotion
from holdfast.replication.directory_owner import require_own_directory
from holdfast.replication.edition_table import EditionTable
from holdfast.replication.listed_members import listed
from holdfast.replication.membership import Membership, decode_membership
from holdfast.replication.messages import Hello
from holdfast.replication.state import State


def known_ballot(ballot_file: BallotFile, journal: Journal, randomness: Randomness) -> Ballot:
    """
    Give the ballot on disk; a node without one becomes a new identity, and keeps that first.

    Raises:
        StoreError: It cannot be kept.
    """
    ballot = ballot_file.current or ballot_file.load()
    if ballot is None:
        try:
            ballot_file.save(Ballot(node_id=randomness.bytes(16), term=journal.last_term))
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(f"{journal.directory}/ballot cannot be written: {reason}") from error
        ballot = ballot_file.current
        assert ballot is not None
    return ballot


def restore(
    state: State, journal: Journal, ballot: Ballot, bootstrap: Membership, applied_index: int
) -> None:
    """
    Fill the state of a member that begins.

    Raises:
        BallotLostError: The ballot is older than the log, so votes are forgotten; or it was lost,
            and nobody is there who could take this node in under another identity.
        ForeignDirectoryError: The directory is another member's.
    """
    if len(bootstrap.members) > 1:
        formation.require_ballot_of_the_log(ballot, journal.last_term)
    seen = {node_id.hex(): edition for node_id, edition in ballot.seen}
    state.editions = EditionTable(state.node_id, ballot.edition, seen)
    state.term = max(ballot.term, journal.last_term)
    state.voted_for = ballot.voted_for if state.term == ballot.term else None
    state.cluster_id = ballot.cluster_id.hex()
    newest, size = state.log.newest_of_kind(KIND_CONFIG)
    if newest is not None:
        state.adopt(decode_membership(bytes(newest.body)), newest.index)
        state.bytes_since_config = size
    # A generation forced by an operator may be in the ballot before it is in the log.
    state.generation = max(state.generation, ballot.generation)
    state.is_shut_out = ballot.is_shut_out
    require_own_directory(state, journal.directory)
    if not ballot.cluster_id:
        _require_anybody(state, journal.directory)
    state.commit_index = max(applied_index, journal.first_index - 1, 0)
    promotion.restore(state)


def first_hello(
    state: State, ballot: Ballot, bootstrap: Membership, life: str, metadata: dict[str, str]
) -> Hello:
    """Say what this node is, in the life that begins; `state` is restored."""
    own = bootstrap.get(state.name)
    hello = Hello(
        state.name,
        state.node_id,
        state.cluster_id,
        state.generation,
        own.address if own else "",
        life,
        metadata,
        ballot.edition,
        state.editions.known,
        state.shared,
        listed=() if state.cluster_id else listed(bootstrap),
        site=own.site if own else "",
    )
    return formation.renewed(state, hello)


def _require_anybody(state: State, directory: object) -> None:
    """
    By the log, this node is a member, or another one is left that may take it in.

    Asked only where the ballot names no cluster: so is that of an identity that began on this log.
    One that is being taken in has the cluster in its ballot before it has an entry. Where it bears
    the name of the single node that it replaces, the log names nobody else until it has come to
    the entry that does.

    Raises:
        BallotLostError: It is a single node under another identity: it would wait for ever.
    """
    if state.membership is None or state.own is not None or state.peers:
        return
    raise BallotLostError(
        f"{directory} holds the log of a single node, and its ballot, which tells the identity of"
        f" that node, was lost: restore the file `ballot`, or make a new data directory of the log"
        f" with `holdfast archive --path {directory}` and `holdfast restore`"
    )
