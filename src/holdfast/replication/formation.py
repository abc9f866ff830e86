"""
How a cluster begins, and who may join it.

A fresh node forms a cluster only after it has met every member it was told of and all of them are
the ones it met. What they form follows from who they are, so each of them computes the same first
entry by itself and no message is needed. A fresh node that meets a formed cluster waits to be
taken in by its leader.

Invariants:
    The same members give the same first entry and the same cluster identity on every node.
    Nodes whose settings must be alike and are not make no link, and so no cluster; nor do fresh
    nodes that were told of different members.
    A node identity that was a member once and is not any more is shut out for good, once the change
    that took it out is committed: until then it counts, and may be needed to undo the change.
    Who does not know the members of its generation shuts nobody out for that generation's sake.

Pure: values in, values out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast.errors import BallotLostError
from holdfast.journal.ballot import Ballot
from holdfast.journal.entry import FIRST_CHAIN, KIND_CONFIG, Entry, seal_entry
from holdfast.replication import format_levels
from holdfast.replication.directory_owner import borrowed_identity
from holdfast.replication.listed_members import completed, difference, is_disputed
from holdfast.replication.membership import Membership, encode_membership, founded
from holdfast.replication.messages import Hello
from holdfast.replication.promotion import held_end, is_begun, taken_along
from holdfast.replication.shared_settings import refused_difference
from holdfast.replication.state import State

FOUNDING_TERM = 1
"""The term of the first entry; the first leader's is higher."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node is not let in; `is_fenced` means that it never will be under this identity."""

    reason: str
    is_fenced: bool = False
    generation: int = 0
    """The one that rules there; what is shut out keeps it in mind beyond its own end."""


def found(bootstrap: Membership, own: Hello, connected: Mapping[str, Hello]) -> Membership | None:
    """The first membership, once everyone named is met; None until then."""
    hellos = {**connected, own.name: own}
    members = []
    named = completed(bootstrap, hellos)
    if is_disputed(named, hellos.values()):
        return None
    for member in named.members:
        hello = hellos.get(member.name)
        if hello is None:
            return None
        members.append(replace(member, node_id=hello.node_id))
    membership = founded(tuple(members))
    foreign = {hello.cluster_id for hello in hellos.values()} - {"", membership.cluster_id}
    return None if foreign else membership


def founding_entry(membership: Membership) -> Entry:
    """The first entry of the log: byte for byte the same on every founder."""
    return seal_entry(
        index=1,
        term=FOUNDING_TERM,
        kind=KIND_CONFIG,
        timestamp=1,
        first_record=1,
        record_count=0,
        parts=[encode_membership(membership)],
        previous_chain=FIRST_CHAIN,
    )


def judge(state: State, bootstrap: Membership, own: Hello, hello: Hello) -> Refusal | None:
    """Say why the node of this hello may not have a link with ours; None if it may."""
    if hello.name == state.name:
        return Refusal(f"{hello.name} is this node's own name: two nodes are called alike")
    if not state.cluster_id and not hello.cluster_id:
        reason = difference(own, hello)
        if reason:
            return Refusal(reason)
    refusal = _judge_membership(state, bootstrap, hello)
    if refusal is not None:
        return refusal
    reason = borrowed_identity(state, hello)
    reason = reason or refused_difference(state.name, state.shared, hello.name, hello.shared)
    reason = reason or format_levels.refused(own, hello)
    return Refusal(reason) if reason else None


def _judge_membership(state: State, bootstrap: Membership, hello: Hello) -> Refusal | None:
    membership = state.membership
    if state.is_apart_from(hello) and not state.is_outdated_by(hello):
        return _apart(state, hello)
    known = membership or bootstrap
    # What this node knows of the members may be old, by its log or by its command line: whoever
    # knows the secret and belongs to this cluster, or to one while this node is fresh, may be its
    # present leader. Messages are judged by term and identity all the same.
    is_host = hello.cluster_id and (membership is None or hello.cluster_id == state.cluster_id)
    if known.get(hello.name) is None and not state.is_retired(hello) and not is_host:
        names = ", ".join(member.name for member in known.members)
        return Refusal(f"{hello.name} is not a member; the members are {names}")
    if hello.cluster_id and state.cluster_id and hello.cluster_id != state.cluster_id:
        return Refusal(
            f"{hello.name} belongs to another cluster: {hello.cluster_id[:8]} there,"
            f" {state.cluster_id[:8]} here"
        )
    # Also one without a cluster: what took it in may have been committed before it stored it.
    if state.is_retired(hello):
        return Refusal(
            f"{hello.name} under identity {hello.node_id[:8]} was removed or replaced;"
            f" to join again start it with an empty data directory",
            is_fenced=True,
            # A later one may rule that this node was only told of, and take the other one along.
            generation=membership.generation if membership else 0,
        )
    if not hello.cluster_id or not state.cluster_id:
        return None
    if state.is_outdated_by(hello):
        return None  # It lets us know whether it takes us along.
    if hello.generation < state.generation or hello.shut_out:
        return _judge_older(state, hello)
    return None


def _apart(state: State, hello: Hello) -> Refusal:
    """Of two promotions that knew nothing of each other the earlier one gives way."""
    return Refusal(
        f"{state.name} and {hello.name} go on by promotions that knew nothing of each other,"
        f" and the one of {state.name} is the later one: keep the data directory of {hello.name}"
        f" for inspection and start it with an empty one",
        is_fenced=True,
        generation=state.generation + 1,
    )


def _judge_older(state: State, hello: Hello) -> Refusal | None:
    """Let in whom an operator's promotion takes along; everybody else of before is shut out."""
    kept = taken_along(state)
    if not kept and hello.generation == state.generation:
        return None  # Nobody knows here who belongs to it.
    if not kept:
        return Refusal(
            f"{state.name} does not know yet who belongs to generation {state.generation} of the"
            f" cluster, which an operator's promotion began: {hello.name} may be one of them"
        )
    if hello.node_id not in kept:
        return Refusal(
            f"generation {state.generation} of the cluster rules since an operator promoted it;"
            f" the log of {hello.name} is of one before: keep its data directory for inspection and"
            f" start it with an empty one",
            is_fenced=True,
            generation=state.generation,
        )
    return None


def renewed(state: State, hello: Hello) -> Hello:
    """What this node says of itself now; the same object if there is no news."""
    kept = taken_along(state) if state.generation else ()
    voters, members, index = state.voter_ids, state.possible_members, state.config_index
    end_known = not state.log.unknown_index
    named = () if state.cluster_id else hello.listed
    lineage = state.lineage
    wanted = (state.cluster_id, state.generation, kept, voters, members, index, end_known, named)
    said = (hello.cluster_id, hello.generation, hello.kept, hello.voters, hello.members)
    is_old = (*said, hello.config_index, hello.end_known, hello.listed) == wanted
    begun, end = is_begun(state), held_end(state)
    further = hello.lineage, hello.shut_out, hello.begun, hello.end
    if is_old and further == (lineage, state.is_shut_out, begun, end):
        return hello
    return replace(
        hello,
        cluster_id=state.cluster_id,
        generation=state.generation,
        kept=kept,
        voters=voters,
        members=members,
        config_index=index,
        end_known=end_known,
        listed=named,
        lineage=lineage,
        shut_out=state.is_shut_out,
        begun=begun,
        end=end,
    )


def own_fence(state: State, hello: Hello) -> str:
    """Why the peer of this hello shuts US out; empty if it does not."""
    if not state.is_outdated_by(hello):
        return ""
    if state.is_apart_from(hello):
        return (
            f"{state.name} and {hello.name} go on by promotions that knew nothing of each other,"
            f" and the one of {hello.name} is the later one: keep this data directory for"
            f" inspection and start with an empty one"
        )
    if not hello.kept or (state.node_id in hello.kept and not hello.begun):
        return ""  # It does not know yet whom that generation takes along, or it takes us.
    return (
        f"{hello.name} is of generation {hello.generation} of this cluster, this node of"
        f" {state.generation}: an operator promoted the other side; keep this data directory for"
        f" inspection and start with an empty one"
    )


def bar(state: State, hello: Hello) -> int:
    """
    The generation that a node keeps in mind which the peer of this hello shuts out.

    Its own number tells nothing where the peer's is the same: then it is the next one.
    """
    return max(hello.generation, state.generation + 1)


def is_taken_along(state: State, hello: Hello) -> bool:
    """
    Whether the peer of this hello is of a newer generation, to which this node belongs too.

    Or of the one that this node was taken along into before its process was restarted, and which
    it was told nothing of since. Nobody comes into one that has been led with the log of another.
    """
    is_newer = hello.generation > state.generation and not hello.begun
    is_forgotten = hello.generation == state.generation and not taken_along(state)
    is_ours = hello.cluster_id == state.cluster_id and state.node_id in hello.kept
    return is_ours and (is_newer or is_forgotten)


def addresses(state: State, bootstrap: Membership) -> dict[str, str]:
    """
    Where to dial whom: the log says who, the command line may know better where.

    Whom a change takes out that is not yet committed stays linked: it may lead, and undo it.
    """
    settled = state.settled_membership() or bootstrap
    known = state.membership or bootstrap
    found = {}
    for member in (*settled.members, *known.members):
        named = bootstrap.get(member.name)
        if member.name != state.name:
            found[member.name] = (named.address if named else "") or member.address
    return found


def require_ballot_of_the_log(ballot: Ballot, last_term: int) -> None:
    """
    A ballot is durable before the first entry of its term, but for the founding entry.

    Raises:
        BallotLostError: This one is older than the log, so it is a copy.
    """
    is_older = ballot.term < last_term and last_term > FOUNDING_TERM
    # A ballot without an edition was written by a version that did not keep this order.
    if is_older and ballot.edition:
        raise BallotLostError(
            f"the ballot is of term {ballot.term}, the log of term {last_term}: the ballot is"
            f" an older copy of itself, and this node may have voted since; keep the data"
            f" directory for inspection and start with an empty one"
        )
