"""
Going on by force: what an operator may do when the members that decided are lost.

One node becomes the only voter of a new generation of the cluster, and all others are shut out but
those that are taken along: they keep their logs and identities, follow it, and become voters as
soon as they have all it has. So a far site of several learners is one cluster by one act, decided
at one place: the ballot of the node that goes on.

Whoever goes on must have all that those who are taken along know to be committed, or a message that
one of them has applied would be cut from its log. So it is the furthest, by (term, index) as in an
election, and the chains of the logs prove that the others are beginnings of its own.

Invariants:
    The one that goes on leads once all who are taken along have its generation in their ballots. So
    should it die, whoever goes on next begins a newer one, and shuts it out.
    What decides is how far the logs go when their nodes come into the generation, and hear of no
    leader of a former one any more; not how far they went when they were asked for it.
    A log that is only half filled anew is taken along by nobody: what it lacks is older than where
    it begins, and the one that goes on would never send it.

Pure: values in, state changed, nothing waits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from holdfast.errors import MembershipError
from holdfast.journal.filling import utc
from holdfast.model.numbering import range_of_promotion
from holdfast.replication import candidate, last_voter
from holdfast.replication.follower import become_follower
from holdfast.replication.log import EntryLog
from holdfast.replication.membership import Membership, survivors_only
from holdfast.replication.messages import NO_CHAIN, HeldEnd, Hello
from holdfast.replication.state import Role, State

logger = logging.getLogger("holdfast.replication")

TERMS_SKIPPED: Final = 1000
"""Elections that may have been held behind the end of a copy that goes on alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """How far the log of a node goes: what is compared before several go on together."""

    name: str
    node_id: str
    generation: int = 0
    index: int = 0
    term: int = 0
    chain: str = ""
    """After the last entry, hexadecimal; empty where that entry is damaged."""

    record: int = 0
    """The number of the record after the last."""

    timestamp: int = 0
    """Of the last entry, in microseconds since 1970."""

    commit_index: int = 0
    commit_chain: str = ""
    is_incomplete: bool = False
    """The log was begun anew and is not full."""

    @property
    def position(self) -> tuple[int, int]:
        """What decides which log is further: (term, index), as in an election."""
        return self.term, self.index


def log_end(state: State) -> LogEnd:
    """Say how far the log of this node goes; reads no disk."""
    journal = state.log.journal
    return LogEnd(
        name=state.name,
        node_id=state.node_id,
        generation=state.generation,
        index=journal.last_index,
        term=journal.last_term,
        chain=_shown(state, journal.last_index),
        record=journal.next_record_number,
        timestamp=journal.last_timestamp,
        commit_index=state.commit_index,
        commit_chain=_shown(state, state.commit_index),
        is_incomplete=bool(incompleteness(journal)),
    )


def taken_along(state: State) -> tuple[str, ...]:
    """
    Identities that belong to a generation begun by force; empty where they are not known.

    That is so after a restart in the middle of a promotion, until somebody says so who knows, or
    its log is here.
    """
    membership = state.membership
    if not state.generation or membership is None:
        return ()
    if not state.knows_its_generation:
        return state.told_along
    return tuple(it.node_id for it in membership.members if it.kind != "fenced" and it.node_id)


def follow_along(state: State, hello: Hello) -> None:
    """
    Belong to the generation of this peer, which an operator began with this node among its members.

    It hears nothing of a former one from now on, and says how far its log goes: that was asked for
    before, and may have been further since. Who its members are comes with its log; until then this
    node stands for nothing. One that was to begin here and did not come to lead shuts nobody out
    any more.
    """
    if state.role is not Role.FOLLOWER:
        become_follower(state, state.term, None)
    state.forget_forced()
    state.generation = hello.generation
    state.told_along = hello.kept
    state.is_shut_out = False
    state.told_lineage = hello.lineage
    state.end = _held_end(state)
    logger.info("taken along into generation %d of the cluster", hello.generation)


def is_begun(state: State) -> bool:
    """
    Whether the generation that rules here was begun by force and has been led since.

    Whoever was taken along had it in its ballot before that. So one that is of a former generation
    by its own word has the log of that one, also where it is named as a member now: it was met when
    it had none, and was taken in by two.
    """
    return state.generation > 0 and state.knows_its_generation and state.forced is None


def is_cut_short(state: State) -> bool:
    """
    Whether a promotion is in the ballot of this node, and its members are not in the log.

    Also where the log names no members at all, if this node was shut out: it only waits.
    """
    is_anybody = state.membership is not None or state.is_shut_out
    return is_anybody and not state.knows_its_generation


def held_end(state: State) -> HeldEnd | None:
    """With how much of a log this node comes into a generation that nobody here knows as led."""
    return state.end if _knows_its_number_only(state) else None


def _knows_its_number_only(state: State) -> bool:
    """Whether no more is known here of the generation that rules, or not yet, than that it does."""
    return state.generation > 0 and not state.knows_its_generation


def is_beginning_of_ours(state: State, hello: Hello) -> bool:
    """
    Whether the log of a node that does not know who began its generation is a beginning of ours.

    It may have been filled by who was promoted apart from us, and have forgotten that by a restart.
    What ends before our log begins cannot be compared, and is begun anew.
    """
    end = hello.end
    if end is None:
        return False
    is_before = end.last_index < state.log.journal.first_index - 1
    is_equal = bool(end.chain) and _shown(state, end.last_index) == end.chain
    return is_before or is_equal or not end.last_index


def restore(state: State) -> None:
    """Take up, and tell of, a promotion that the last process did not see completed."""
    if _knows_its_number_only(state):
        state.end = _held_end(state)
    if is_cut_short(state):
        logger.error(
            "this node knows of generation %d of the cluster, and not of its members: it was shut"
            " out, or ended as an older copy of itself, or a promotion was cut short here. It waits"
            " for whoever leads that generation; if nobody does, repeat the promotion, or if others"
            " go on, start this node with an empty data directory",
            state.generation,
        )


def _held_end(state: State) -> HeldEnd:
    end = log_end(state)
    return HeldEnd(
        end.index, end.term, end.chain, end.commit_index, end.commit_chain, end.is_incomplete
    )


def _shown(state: State, index: int) -> str:
    chain = state.log.chain_at(index) if state.log.term_at(index) >= 0 else NO_CHAIN
    return "" if chain == NO_CHAIN else chain.hex()


def promote_force(
    state: State,
    companions: Iterable[LogEnd] = (),
    *,
    is_incomplete_accepted: bool = False,
    wall_microseconds: int | None = None,
) -> None:
    """
    Make this node the only voter of a new generation, and shut out all but its companions.

    The companions become voters by themselves, once they have what this node has. For an operator
    who knows that the others are lost: what only they had confirmed is lost too. When that is
    decides between this promotion and one that knows nothing of it.

    Raises:
        MembershipError: This node is no data node, has a damaged log, or leads already; or its log
            was begun anew and is not full, and that is not accepted; or a companion cannot follow
            it, and why.
    """
    lack = incompleteness(state.log.journal)
    if lack and not is_incomplete_accepted:
        raise MembershipError(lack)
    # What an earlier act here wanted and never came to lead is over with this one.
    known = state.membership if state.unforced is None else state.unforced
    if known is None or state.own is None:
        raise MembershipError("this node belongs to no cluster yet; there is nothing to take over")
    if state.is_witness:
        raise MembershipError("a witness keeps no service to take over; promote a data node")
    # What is lost at its end is given up.
    if state.log.whole_index < state.log.last_index and not last_voter.may_go_on_without(state):
        raise MembershipError(
            f"entry {state.log.damaged.first} of this log is damaged; promote a node that is whole"
        )
    if state.role is Role.LEADER:
        raise MembershipError("this node leads already; remove the lost member instead")
    ends = list(companions)
    if lack and ends:
        raise MembershipError(f"{lack}; nobody can be filled from it: leave {state.name} out")
    for end in ends:
        _require_follows(state, known, end)
    state.log.give_up_end()
    # Who is taken along may have been promised to another one that died before it was its leader.
    # What shut this node out may not be on its disk yet.
    generation = max(state.generation, state.fenced_by, *(end.generation for end in ends)) + 1
    state.fenced_reason = ""
    state.fenced_by = 0
    state.is_shut_out = False
    state.unforced = known
    state.forced = _forced(state, known, {end.name for end in ends}, generation, wall_microseconds)
    # It rules before it is written: the node needs only its own vote to write it.
    state.adopt(state.forced, state.config_index)
    if state.role is not Role.FOLLOWER:
        become_follower(state, state.term, None)
    # Elections were held that this copy knows nothing of: clients take a lower term than one they
    # have seen for a deposed leader's, and ids of non-persistent messages name the term.
    # As often as there may have been a promotion that this copy was not told the members of.
    state.enter_term(state.term + TERMS_SKIPPED * (generation - known.generation))
    state.awaited = {end.name: end.node_id for end in ends}
    state.misfits.clear()
    advance(state)


def _forced(
    state: State,
    known: Membership,
    companions: set[str],
    generation: int,
    wall_microseconds: int | None,
) -> Membership:
    """Give the members of the generation that this node begins."""
    members = survivors_only(known, state.name, companions)
    identities = [it.node_id for it in known.members if it.node_id]
    return replace(
        known.changed(members, state.config_index),
        generation=generation,
        previous_generation=known.generation,
        number_range=range_of_promotion(known.numbers, identities, state.node_id),
        previous_number_range=known.number_range,
        promoted_at=wall_microseconds,
        previous_promoted_at=known.promoted_at,
    )


def advance(state: State) -> None:
    """Begin to lead a generation begun by force, once all who are taken along belong to it."""
    if state.forced is None or state.fenced_reason:
        return
    for name in list(state.awaited):
        hello = state.connected.get(name)
        # It says so once it is durable: whoever goes on after us knows of this generation then.
        if hello is None or state.is_apart_from(hello):
            continue
        is_here = (hello.node_id, hello.generation) == (state.awaited[name], state.generation)
        if is_here and _still_follows(state, name, hello):
            del state.awaited[name]
    if not state.awaited:
        candidate.start_election(state, is_transfer=False)


def _still_follows(state: State, name: str, hello: Hello) -> bool:
    """
    Whether a companion can follow this node with the log that it has come with.

    It may have heard a leader of before since it was asked: then the operator must ask again.
    """
    if hello.end is None:
        return True  # Older versions do not say it.
    held = hello.end
    end = LogEnd(
        name=name,
        node_id=hello.node_id,
        index=held.last_index,
        term=held.last_term,
        chain=held.chain,
        commit_index=held.commit_index,
        commit_chain=held.commit_chain,
        is_incomplete=held.is_incomplete,
    )
    try:
        _require_log_follows(state, end)
    except MembershipError as error:
        if name not in state.misfits:
            state.misfits.add(name)
            logger.error(  # noqa: TRY400 - the sentence says it all
                "%s has heard more since it was asked how far its log goes, and %s waits: repeat"
                " the promotion; %s",
                name,
                state.name,
                error,
            )
        return False
    return True


def _require_follows(state: State, known: Membership, end: LogEnd) -> None:
    """
    Make sure that a companion can follow this node without losing what it has applied.

    Raises:
        MembershipError: It cannot, and why.
    """
    member = known.get(end.name)
    if end.name == state.name or member is None:
        raise MembershipError(f"{end.name} is no other member of this cluster")
    if member.kind == "fenced":
        raise MembershipError(
            f"{end.name} was shut out by a promotion before; start it with an empty data directory"
        )
    if "witness" in {member.kind, member.promote_to}:
        raise MembershipError(f"{end.name} is a witness: leave it out, and add it again afterwards")
    if member.node_id != end.node_id:
        raise MembershipError(f"{end.name} has another identity than the member of that name")
    _require_log_follows(state, end)


def _require_log_follows(state: State, end: LogEnd) -> None:
    """
    Make sure that this log has all that a companion's holds and may have applied.

    Raises:
        MembershipError: It has not, or cannot fill that one, and why.
    """
    if end.is_incomplete:
        raise MembershipError(
            f"the log of {end.name} was begun anew and is not full, and {state.name} cannot fill"
            f" it: stop {end.name} and take its old log back with 'holdfast store take-back', or"
            f" promote without it and add it again with an empty data directory"
        )
    journal = state.log.journal
    if end.position > (journal.last_term, journal.last_index):
        raise MembershipError(
            f"{end.name} is further than {state.name}: entry {end.index:,} of term {end.term}"
            f" there, {journal.last_index:,} of {journal.last_term} here; promote {end.name}"
            f" together with {state.name}: the furthest decides"
        )
    if not _is_beginning(state, end):
        raise MembershipError(
            f"the logs of {end.name} and {state.name} differ: neither is the beginning of the"
            f" other; compare the two, keep the right one, and promote without the other"
        )


def _is_beginning(state: State, end: LogEnd) -> bool:
    """
    Whether a log is a beginning of ours, as far as it is known to be committed.

    What it holds beyond that and we do not was never confirmed: who led the newer term had all that
    was. It is cut, as in every change of leader. So is it of a node that was started again and does
    not know of anything yet that it is committed: there is nothing to compare, and our newer term
    tells. A log that ends before ours begins cannot be compared; it is kept beside the one that
    replaces it until that is full.
    """
    for index, chain in ((end.index, end.chain), (end.commit_index, end.commit_chain)):
        if index < state.log.journal.first_index - 1:
            return True
        if chain and _shown(state, index) == chain:
            return True
    return not end.commit_index and 0 < end.term < state.log.journal.last_term


def incompleteness(journal: EntryLog) -> str:
    """
    Say what a log that was begun anew lacks and what else there is; empty if it is full.

    Its older messages were written again further on; where the log ends before that, they are lost
    with it although they were confirmed long ago.
    """
    filling = journal.filling
    # What is in memory only may wait for room for ever.
    last = max(journal.stored_index, journal.first_index - 1)
    if filling is None or filling.is_reached(last):
        return ""
    missing = filling.missing_records(journal.previous(last + 1)[2])
    said = (
        f"this log was begun anew at entry {filling.base_index:,} and ends with"
        f" {last:,} of {filling.target.index:,}: up to {missing:,} messages and"
        f" acknowledgements of the time before {utc(filling.target.timestamp)} are missing, old"
        f" messages among them"
    )
    kept = filling.kept
    if kept is None:
        return f"{said}; accept that as incomplete, or restore from the archive"
    if journal.is_out_of_room:
        return (
            f"{said}; the log before it is kept, and there is no room for both: give the disk"
            f" more, or, if the others are safe, stop this node, give up the older log with"
            f" 'holdfast store give-up-older', and start it again"
        )
    since = max(filling.target.record - kept.record, 0)
    return (
        f"{said}; the log before it is kept and holds everything to {utc(kept.timestamp)}, and"
        f" lacks {since:,} that came after: stop this node, take it back with 'holdfast store"
        f" take-back', and promote again; or accept the new one as incomplete"
    )
