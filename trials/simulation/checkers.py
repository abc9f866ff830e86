"""
The checkers of a simulated world: every invariant that applies has its name here.

They watch from outside: the platters of the disks, the messages on the wire, the entries that
are handed to the broker. What a node says of its own durability is what is checked, never what is
believed. A violation is raised where it happens, with the invariant's name (facts: S1 to S20).

Invariants checked here:
    S1 one leader per term. S2, S17 nothing committed is ever different. S3 a new leader has all
    that is committed. S4, S19 equal logs give equal states; sealed segments are equal byte by byte.
    S5 what is committed is on the platters of a quorum. S12 only one node dispatches.
    S15 one vote per term and identity, terms never fall, a new disk is a new identity.
    S16 what a reply claims is on the platter. S18 nothing that lives is dropped.
    S20 memberships that follow each other share a majority.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.environment.disk import NoRoomError
from holdfast.errors import (
    BallotLostError,
    CorruptEntryError,
    FencedError,
    HoldfastError,
    JournalFailedError,
    LogDivergedError,
    RecordNotFoundError,
)
from holdfast.journal.entry import HEADER_BYTES, KIND_CONFIG, Entry, parse_entry
from holdfast.journal.kept_log import KEPT_DIRECTORY
from holdfast.journal.segment import SEGMENT_HEADER_BYTES
from holdfast.replication.membership import Member, Membership, decode_membership
from holdfast.replication.messages import (
    NO_CHAIN,
    AppendResponse,
    Message,
    VoteRequest,
    VoteResponse,
)
from holdfast.replication.quorum import default_copies, majority
from trials.simulation.committed_log import CommittedLog
from trials.simulation.elections import Elections
from trials.simulation.generations import Generations, newest_ballot
from trials.simulation.history import History, ViolationError, place_of

if TYPE_CHECKING:
    from pathlib import Path

    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

BEGUN_TWICE = "log begun anew twice in one turn"
DIGEST_EVERY = 16
"""The state is compared after every so many entries."""


class Checkers:
    """All checkers of one world."""

    def __init__(self, world: Simulation, history: History) -> None:
        self.world = world
        self.history = history
        self.log = CommittedLog(history)
        self.leaders: dict[int, str] = {}
        self.top_term = 0
        self.dispatching_term = 0
        """The newest term whose leader may have dispatched."""
        self.commit_chains: dict[int, bytes] = {}
        """Chain values by index, as far as any node called them committed."""
        self.commit_index = 0
        self.digests: dict[int, bytes] = {}
        self.votes: dict[tuple[str, int], str] = {}
        self.claims: dict[str, dict[int, bytes]] = {}
        """By identity: the entries it said it had stored everything up to, and their chains."""
        self.rotted: dict[str, dict[int, bytes]] = {}
        """Of these what has rotted on its disk since, and is claimed no more."""
        self.owners: dict[str, tuple[str, int]] = {}
        self.terms: dict[tuple[str, int], int] = {}
        self.elections = 0
        self.generations = Generations(self)
        self.ended: Counter[str] = Counter()
        self._whole_commits: dict[str, int] = {}
        """How far each node knew of commits when it last held one whole log."""
        self._kept_commits: dict[tuple[str, int], int] = {}
        """The same for a kept log, by the entry at which the new one begins."""

        self.distrusted: set[str] = set()
        """Nodes whose disk changed behind their back: their platters prove nothing."""
        self.terms_spent = Elections(self)
        self._begun_anew: set[str] = set()
        self._epochs: dict[str, tuple[int, int]] = {}
        self.rolled_back: set[str] = set()
        """Nodes whose whole disk was replaced by an older copy of itself."""
        self._commits: dict[str, tuple[int, int]] = {}
        self._firsts: dict[str, tuple[int, int]] = {}
        self._memberships: dict[tuple[int, bytes], Membership] = {}
        self.retired: set[str] = set()
        """Identities that a committed change has taken out."""
        self.left: set[str] = set()
        """Names that were members and by the newest committed change are none."""
        self._names: set[str] = set()
        history.confirm_checks.append(self._check_confirm)
        history.settle_checks.append(self._check_settled)
        history.delivery_checks.append(self._check_delivered)

    # After each turn of a node --------------------------------------------------------------------

    def after_turn(self, node: SimulatedNode) -> None:
        """Look at a node that has just done a turn."""
        driver = node.driver
        mistakes = node.conductor.containment.mistakes
        if mistakes and node.name not in self.distrusted:
            # It costs one client only, but whatever a client says, there is to be none.
            raise ViolationError("S15", f"{node.name} broke: {mistakes[0]!r}") from mistakes[0]
        if driver.is_leader:
            self._check_leader(node)
        self._note_commit(node)
        filling = node.journal.filling
        if filling is None:
            self._whole_commits[node.name] = driver.commit_index
        else:
            known_then = self._whole_commits.get(node.name, 0)
            self._kept_commits.setdefault((node.name, filling.origin), known_then)
        first = node.journal.first_index
        known = self._firsts.get(node.name)
        if self.generations.is_past(node):
            return
        if known is None or known != (node.life, first):
            self._firsts[node.name] = (node.life, first)
            if known is not None and known[0] == node.life:
                self._check_dropped(node, first)
        self._note_epoch(node)
        self.terms_spent.check_terms(node)

    def _note_epoch(self, node: SimulatedNode) -> None:
        """Where a log was begun anew, what was said of the one before is settled."""
        epoch = node.driver.log_epoch
        if epoch:
            identity = node.driver.hello.node_id
            life, before = self._epochs.get(identity, (0, 0))
            if (life, before) != (node.life, epoch):
                if epoch - (before if life == node.life else 0) > 1:
                    self.world.count(BEGUN_TWICE)
                self._epochs[identity] = (node.life, epoch)
                self._begun_anew.add(identity)
                self.claims[identity] = {}

    def turn_back(self, fork: int, survivor: str) -> None:
        """A generation has begun on a copy that ends with entry `fork`: forget what came after."""
        self.commit_index = fork
        for known in (self.commit_chains, self.digests):
            for index in [it for it in known if it > fork]:
                del known[index]
        for identity, claims in self.claims.items():
            if identity != survivor:
                self.claims[identity] = {it: claims[it] for it in claims if it <= fork}
        self.retired.clear()
        self._names.clear()
        for _, membership in self.log.memberships:
            self._note_members(membership)

    def _note_commit(self, node: SimulatedNode) -> None:
        driver = node.driver
        self.generations.look(node)
        if self.generations.is_past(node):
            return
        life, commit = self._commits.get(node.name, (-1, 0))
        if life != node.life:
            commit = 0
        index = driver.commit_index
        if index != commit:
            self._commits[node.name] = (node.life, index)
            self._check_commit(node, commit, index)

    def _check_leader(self, node: SimulatedNode) -> None:
        term = node.driver.term
        # Of a generation of which nothing is committed nobody serves; it may be given up yet.
        is_begun = node.driver.generation <= self.generations.ruling
        may_dispatch = is_begun and node.driver.may_dispatch(node.clock.monotonic())
        if term > self.dispatching_term and may_dispatch:
            self.dispatching_term = term
        leader = self.leaders.get(term)
        if leader is None:
            self.leaders[term] = node.name
            self.elections += 1
            self.top_term = max(self.top_term, term)
            self.world.note(node.name, f"leads term {term}")
            self.world.nemesis.elected(node)
            self._check_complete(node, term)
        elif leader != node.name:
            raise ViolationError("S1", f"term {term} is led by {leader} and {node.name}")

    def _check_complete(self, node: SimulatedNode, term: int) -> None:
        """S3: a leader of a new term has everything that is committed."""
        index = self.commit_index
        journal = node.journal
        if term < self.top_term or not index:
            return
        if node.driver.generation != self.generations.ruling:
            return  # It begins a generation of its own with what it has, or is of a former one.
        if journal.last_index < index:
            raise ViolationError(
                "S3",
                f"{node.name} leads term {term} with entries to {journal.last_index};"
                f" {index} is committed",
            )
        self._compare(node, index, "S3")

    def _compare(self, node: SimulatedNode, index: int, name: str) -> None:
        journal = node.journal
        if index < journal.first_index:
            return
        try:
            chain = journal.chain_at(index)
        except CorruptEntryError:
            return  # Damaged there: the node knows, and must not serve it.
        if chain != self.commit_chains[index]:
            raise ViolationError(name, f"entry {index} on {node.name} is not what was committed")

    def _check_commit(self, node: SimulatedNode, before: int, index: int) -> None:
        journal = node.journal
        if index < before and node.driver.log_epoch == 0:
            raise ViolationError("S17", f"{node.name} took back its commit index {before}")
        if index > journal.last_index:
            raise ViolationError("S17", f"{node.name} lost entries up to {index} it knew committed")
        if index > self.commit_index:
            for each in range(max(self.commit_index + 1, journal.first_index), index + 1):
                try:
                    self.commit_chains[each] = journal.chain_at(each)
                except CorruptEntryError:
                    return
                self._check_copies(node, each)
            self.commit_index = index
            if node.driver.is_leader:
                self._check_electable(node, index)
                if journal.stored_index >= index:
                    own = self.claims.setdefault(node.driver.hello.node_id, {})
                    own[index] = self.commit_chains[index]
        elif index in self.commit_chains:
            self._compare(node, index, "S2")

    def _check_copies(self, leader: SimulatedNode, index: int) -> None:
        """S5: the entry is on the platters of a commit quorum of the present members."""
        try:
            entry = leader.journal.entry(index)
        except CorruptEntryError:
            return
        if entry.kind == KIND_CONFIG:
            self._note_members(decode_membership(bytes(entry.body)))
        membership = self.membership_of(leader)
        if membership is None:
            return
        path, byte, _ = leader.journal.place_of(index)
        found = self._missing_copies(membership.members, entry, path, byte)
        if found and leader.driver.config_index > index:
            # The members changed in the same turn, after the commit.
            found = self._missing_copies(membership.previous_members, entry, path, byte)
        if found:
            raise ViolationError("S5", f"{leader.name} committed entry {index}, which {found}")

    def _note_members(self, committed: Membership) -> None:
        """Whom a change has taken out, is out only from here on: it is committed."""
        names = {member.name for member in committed.members}
        self._names |= names
        self.left = self._names - names
        self.retired.update(committed.retired)

    def _missing_copies(
        self, members: tuple[Member, ...], entry: Entry, path: Path, byte: int
    ) -> str:
        """What a commit quorum of these members lacks on its platters; empty for nothing."""
        nodes = self.world.network.nodes
        voters = [member for member in members if member.is_voter]
        data = {member.name for member in voters if member.kind == "voter"}
        needed, copies_needed, sites_needed = self._commit_needs(voters)
        holders, unsure = [], []
        for member in voters:
            node = nodes.get(member.name)
            if node is None:
                continue
            if self.owners.get(member.node_id) != (node.name, node.disk_number):
                # The disk is lost since; what it said before that was true.
                if self._once_claimed(member.node_id) >= entry.index:
                    holders.append(member)
            elif node.name in self.distrusted or holds_at(node, entry, path, byte):
                holders.append(member)
            else:
                unsure.append((member, node))
        if len(holders) < max(needed, copies_needed) or sites_needed > 1 or len(data) < len(voters):
            # It may stand elsewhere: looked for only where it matters, for that is slow.
            holders += [member for member, node in unsure if holds(node, entry, path, byte)]
        sites = len({member.site for member in holders})
        held = sum(member.name in data for member in holders)
        if len(holders) >= needed and sites >= sites_needed and held >= copies_needed:
            return ""
        return (
            f"{len(holders)} of {len(voters)} voters, {held} with data, at {sites} sites have on"
            f" their platters; {needed}, {copies_needed}, {sites_needed} are needed"
        )

    def _commit_needs(self, voters: Sequence[Member]) -> tuple[int, int, int]:
        """How many voters, how many of them with data, and how many sites must have an entry."""
        settings = self.world.replication_settings
        data_count = sum(member.kind == "voter" for member in voters)
        copies = settings.copies or default_copies(data_count, len(voters))
        sites = min(settings.sites, len({member.site for member in voters}))
        return majority(len(voters)), min(copies, data_count), sites

    def could_confirm_without(self, absent: SimulatedNode) -> bool:
        """Whether the others, of the voters by what is committed, make a commit quorum."""
        membership = self.log.membership
        if membership is None:
            return False
        nodes = self.world.network.nodes
        others = [it for it in membership.voters if it.name != absent.name]
        others = [it for it in others if it.name in nodes and nodes[it.name].is_running]
        needed, copies_needed, sites_needed = self._commit_needs(membership.voters)
        return (
            len(others) >= needed
            and sum(member.kind == "voter" for member in others) >= copies_needed
            and len({member.site for member in others}) >= sites_needed
        )

    def _check_electable(self, leader: SimulatedNode, index: int) -> None:
        """S3: nobody who lacks what is committed could be elected."""
        membership = self.membership_of(leader)
        if membership is None or leader.driver.config_index > index:
            return
        chain = self.commit_chains[index]
        positions: dict[str, tuple[int, int]] = {}
        lacking = []
        for member in membership.voters:
            node = self.world.network.nodes[member.name]
            if self.owners.get(member.node_id) != (node.name, node.disk_number):
                continue
            if node.name in self.distrusted:
                continue  # What it has proves nothing; whether it is heard, others must see to.
            journal = node.journal
            stored = journal.stored_index
            try:
                positions[node.name] = (journal.term_at(stored), stored)
                has_it = journal.first_index > index or (
                    stored >= index and journal.chain_at(index) == chain
                )
            except (CorruptEntryError, RecordNotFoundError):
                return
            if not has_it:
                lacking.append(node.name)
        needed = majority(len(membership.voters))
        for name in lacking:
            voters = [it for it, position in positions.items() if position <= positions[name]]
            if len(voters) < needed:
                continue
            # Whoever keeps in mind that a later one rules is heard by nobody, and hears nobody.
            voters = [it for it in voters if not self._is_beyond(it, leader)]
            if len(voters) >= needed and name in voters:
                raise ViolationError(
                    "S3", f"entry {index} is committed and {name} could be elected without it"
                )

    def _is_beyond(self, name: str, leader: SimulatedNode) -> bool:
        ballot = newest_ballot(self.world.network.nodes[name])
        return ballot is not None and ballot.generation > leader.driver.generation

    def could_elect_without(self, absent: SimulatedNode) -> bool:
        """
        Whether the others could elect somebody, each by the members that its own log tells.

        A change that its leader alone has written leaves that leader with the voters it names, and
        a log that the one taken out has not: then the third voter is needed. A voter judges by all
        that it has written, also by what its disk is still at.
        """
        others = {it.name: it for it in self.world.nodes if it is not absent}
        positions: dict[str, tuple[int, int]] = {}
        for node in others.values():
            if not node.is_running or node.journal.damage:
                return False
            positions[node.name] = (node.journal.last_term, node.journal.last_index)
        for node in others.values():
            membership = self.membership_of(node)
            if membership is None or node.name not in {it.name for it in membership.voters}:
                continue
            votes = [
                member.name
                for member in membership.voters
                if positions.get(member.name, (1 << 62, 0)) <= positions[node.name]
            ]
            if len(votes) >= majority(len(membership.voters)):
                return True
        return False

    def membership_of(self, node: SimulatedNode) -> Membership | None:
        """The members as the node's own log tells them; None if it does not."""
        index = node.driver.config_index
        if not index or index < node.journal.first_index:
            return None
        try:
            key = (index, node.journal.chain_at(index))
        except CorruptEntryError:
            key = (index, self.commit_chains.get(index, b""))
        found = self._memberships.get(key)
        if found is None:
            try:
                entry = node.journal.entry(index)
            except CorruptEntryError:
                return None
            found = self._memberships[key] = decode_membership(bytes(entry.body))
            self._check_change(found)
        return found

    @staticmethod
    def _check_change(membership: Membership) -> None:
        """S20: two majorities, one of each membership, share a voter."""
        if not membership.previous_members or membership.previous_generation is not None:
            return  # The first one, or the one that a forced promotion begins with.
        now = {member.node_id for member in membership.voters}
        before = {member.node_id for member in membership.previous_members if member.is_voter}
        if now and before and len(now ^ before) > 1:
            raise ViolationError("S20", f"{len(now ^ before)} voters changed at once")

    def _check_dropped(self, node: SimulatedNode, first: int) -> None:
        """S18: nothing that lives stands before the first entry kept."""
        if node.driver.is_witness:
            if self._hold_all(node, first):
                return
            if self.log.complete_from(first) > self.log.last_index:
                raise ViolationError("S18", f"the witness begins with {first}: that is no start")
        for (queue, sequence), index in self.log.live.items():
            if index < first and index <= self.log.last_index:
                token = self.log.tokens[queue, sequence]
                raise ViolationError("S18", f"{node.name} dropped {token} with entry {index}")

    def _hold_all(self, node: SimulatedNode, first: int) -> bool:
        """Whether all data nodes hold what a witness dropped; else it must have been cleaned."""
        if node.driver.log_epoch:
            return True
        membership = self.membership_of(node)
        if membership is None or len(membership.data_members) != 2:
            return True
        for member in membership.data_members:
            peer = self.world.network.nodes[member.name]
            if peer.name in self.distrusted:
                continue  # It held the entry when it said so; an older copy of its disk does not.
            is_same = self.owners.get(member.node_id) == (peer.name, peer.disk_number)
            stored = max(self.claimed(member.node_id), peer.journal.stored_index if is_same else 0)
            if stored < first - 1:
                return False
        return True

    # Entries given to brokers ---------------------------------------------------------------------

    def on_applied(self, node: SimulatedNode, entry: Entry) -> None:
        """Look at an entry that a broker has applied."""
        if self.generations.is_past(node):
            return
        index = entry.index
        life, known = self._commits.get(node.name, (-1, 0))
        if life != node.life or index > known:
            self._note_commit(node)
        if index > node.driver.commit_index or self.commit_chains.get(index) != entry.chain:
            raise ViolationError("S17", f"{node.name} applied entry {index}, not committed so")
        log = self.log
        if index == log.last_index + 1:
            log.feed(entry)
        elif index <= log.last_index and log.chains[index] != entry.chain:
            raise ViolationError("S17", f"{node.name} applied another entry {index}")
        if index % DIGEST_EVERY == 0 and index >= log.complete_from(node.journal.first_index):
            digest = digest_of(node.broker.state)
            if self.digests.setdefault(index, digest) != digest:
                raise ViolationError("S4", f"{node.name} has another state after entry {index}")

    # Messages on the wire -------------------------------------------------------------------------

    def on_message(self, node: SimulatedNode, target: str, message: Message) -> None:
        """Look at a message that leaves a node."""
        self.terms_spent.on_message(node, target, message)
        if type(message) is AppendResponse:
            self._check_claim(node, message)
        elif type(message) is VoteRequest:
            self._vote(node, message.term, node.name)
        elif type(message) is VoteResponse and message.granted:
            self._vote(node, message.term, target)

    def _check_claim(self, node: SimulatedNode, message: AppendResponse) -> None:
        """S16: what a reply says is stored, is on the platter, and not known to be damaged."""
        index = message.match_index
        if message.rejected:
            return
        damaged = node.driver.status().damaged if node.journal.damage else ()
        if damaged and damaged[0] <= index:
            raise ViolationError(
                "S16", f"{node.name} says it has entry {index}; it knows that {damaged[0]} is rot"
            )
        if message.match_chain == NO_CHAIN:
            return
        self._note_epoch(node)
        identity = node.driver.hello.node_id
        claims = self.claims.setdefault(identity, {})
        journal = node.journal
        if claims.get(index) == message.match_chain:
            return
        if index < journal.first_index:
            claims[index] = message.match_chain  # Its log begins behind that.
            return
        place = journal.place_of(index)
        try:
            entry = journal.entry(index)
        except CorruptEntryError:
            return
        is_trusted = node.name not in self.distrusted
        if is_trusted and not holds(node, entry, place.path, place.byte):
            if has_a_bit_flipped(node, entry, place.path, place.byte):
                return  # It has not read it since, but answers from what it has in memory.
            raise ViolationError(
                "S16", f"{node.name} says it has entry {index}, which is not on its platter"
            )
        if entry.chain != message.match_chain:
            raise ViolationError("S16", f"{node.name} says it has another entry {index}")
        claims[index] = message.match_chain

    def _vote(self, node: SimulatedNode, term: int, candidate: str) -> None:
        """S15: one vote per term and identity."""
        identity = node.driver.hello.node_id
        if not self._is_vote_kept(node, term, candidate):
            raise ViolationError(
                "S15", f"{node.name} votes for {candidate} in term {term}; its platter knows not"
            )
        known = self.votes.setdefault((identity, term), candidate)
        if known != candidate:
            raise ViolationError(
                "S15", f"{node.name} voted for {known} and for {candidate} in term {term}"
            )

    def claimed(self, identity: str) -> int:
        """Through which entry this identity once said, rightly, that it has what is committed."""
        return self._through(self.claims.get(identity, {}))

    def _once_claimed(self, identity: str) -> int:
        """The same, also of what has rotted there since."""
        return max(self.claimed(identity), self._through(self.rotted.get(identity, {})))

    def _through(self, found: dict[int, bytes]) -> int:
        known = self.commit_chains
        through = self.commit_index
        return max(
            (
                index
                for index, chain in found.items()
                if index > through or known.get(index, chain) == chain
            ),
            default=0,
        )

    def _is_vote_kept(self, node: SimulatedNode, term: int, candidate: str) -> bool:
        """Whether a vote, or a newer one, is on the platter."""
        if node.name in self.distrusted:
            return True
        newest = newest_ballot(node)
        if newest is None:
            return False
        return newest.term > term or (newest.term, newest.voted_for) == (term, candidate)

    # Processes ------------------------------------------------------------------------------------

    def on_start(self, node: SimulatedNode) -> None:
        """Look at a process that has just recovered."""
        identity = node.driver.hello.node_id
        owner = (node.name, node.disk_number)
        if self.owners.setdefault(identity, owner) != owner:
            raise ViolationError("S15", f"{node.name} came back under the identity of a lost disk")
        term = self.terms.get(owner, 0)
        if node.driver.term < term and node.name not in self.distrusted:
            raise ViolationError("S15", f"{node.name} forgot term {term}: {node.driver.term}")
        journal = node.journal
        ballot = journal.ballot_file.current
        if ballot is not None and journal.last_index and ballot.first_index != journal.first_index:
            raise ViolationError(
                "S18",
                f"{node.name} begins with {journal.first_index}; its ballot says"
                f" {ballot.first_index}, and would not miss what goes before",
            )
        if journal.damage and node.name not in self.distrusted and not self.world.nemesis.spoilt:
            raise ViolationError(
                "S17", f"{node.name} finds damage that nobody did: {journal.damage[0]}"
            )
        known = max(journal.last_index, journal.unknown_through)
        due = min(self.claimed(identity), self.commit_index)
        is_emptied = not journal.last_index and identity in self._begun_anew
        is_excused = is_emptied or node.name in self.rolled_back
        if known < due and not journal.damage and not is_excused:
            raise ViolationError(
                "S17", f"{node.name} had said it stores {due} and came back with {known}"
            )

    def on_stop(self, node: SimulatedNode) -> None:
        """Note what a dead node must remember: the newest term it spoke in."""
        self.terms_spent.on_stop(node)
        if node.is_built:
            self.world.mended_count += node.driver.status().repaired_count
            self._forget_cut(node)
        owner = (node.name, node.disk_number)
        current = node.journal.ballot_file.current if hasattr(node, "journal") else None
        if current is not None:
            self.terms[owner] = max(self.terms.get(owner, 0), current.term)

    def _forget_cut(self, node: SimulatedNode) -> None:
        """What a newer leader made it cut off, a node need not come back with."""
        journal = node.journal
        claims = self.claims.get(node.driver.hello.node_id, {})
        for index in sorted(claims, reverse=True):
            try:
                if index < journal.first_index or (
                    index <= journal.last_index and journal.chain_at(index) == claims[index]
                ):
                    return
            except CorruptEntryError:
                return
            if node.name in self.distrusted:
                # Rot took it, and not a leader: whoever counted it was right to.
                self.rotted.setdefault(node.driver.hello.node_id, {})[index] = claims[index]
            del claims[index]

    def on_end(self, node: SimulatedNode, error: Exception) -> None:
        """Judge a process that ended by itself."""
        self.ended[type(error).__name__] += 1
        if isinstance(error, JournalFailedError):
            # A full disk is waited out, but for what recovery must write before it can trust a log.
            is_full_at_start = isinstance(error.__cause__, NoRoomError) and not node.is_built
            is_excused = node.disk.failures or is_full_at_start or node.name in self.distrusted
            if not is_excused:
                raise ViolationError("S16", f"{node.name} ended without a fault: {error}")
        elif isinstance(error, LogDivergedError):
            if node.name not in self.distrusted:
                raise ViolationError("S2", f"{node.name} halted: {error}")
        elif isinstance(error, FencedError):
            if self.generations.is_fenced(node):
                self.generations.note_fenced(node)
            elif node.name not in self.distrusted and node.driver.hello.node_id not in self.retired:
                raise ViolationError("S15", f"{node.name} was shut out: {error}")
        elif isinstance(error, BallotLostError) or not isinstance(error, HoldfastError):
            if node.name not in self.distrusted:
                raise ViolationError("S15", f"{node.name} broke: {error!r}")
        elif node.name not in self.distrusted or isinstance(
            error, CorruptEntryError | RecordNotFoundError
        ):
            # Damage is met, told and mended; it must not end a process.
            raise ViolationError("S17", f"{node.name} could not go on: {error}")

    def on_write_failure(self, node: SimulatedNode, failure: JournalFailedError) -> None:
        """Judge why a writer gave up: the disk may fail, the code must not."""
        if not isinstance(failure.__cause__, OSError):
            raise ViolationError("S16", f"the writer of {node.name} broke: {failure.__cause__!r}")

    # What clients see -----------------------------------------------------------------------------

    def on_written(self, node: SimulatedNode, data: bytes) -> None:
        """S12: nobody dispatches once a newer leader may."""
        if data.startswith(b"MESSAGE\n") or b"\0MESSAGE\n" in data:
            term = node.driver.term
            if term < self.dispatching_term:
                raise ViolationError(
                    "S12",
                    f"{node.name} dispatches in term {term}; the leader of"
                    f" {self.dispatching_term} does, too",
                )
            if term < self.top_term:
                self.world.count("lease outlives a leadership")

    def catch_up(self) -> None:
        """Feed what is committed and only begun to be applied: a long entry takes several turns."""
        log = self.log
        for node in self.world.network.nodes.values():
            if not node.is_alive or self.generations.is_past(node):
                continue
            while log.last_index < min(node.driver.commit_index, self.commit_index):
                try:
                    entry = node.journal.entry(log.last_index + 1)
                except (CorruptEntryError, RecordNotFoundError):
                    break
                if entry.chain != self.commit_chains.get(entry.index):
                    break
                log.feed(entry)

    def _check_confirm(self, token: str) -> None:
        if not self.log.is_committed(token):
            self.catch_up()
        if not self.log.is_committed(token):
            raise ViolationError("S5", f"{token} was confirmed and is not committed")

    def _check_delivered(self, message_id: bytes, token: str, sent_at: float) -> None:
        """S5: what is delivered is committed, in the generation that rules."""
        if sent_at <= self.generations.began_at:
            return  # It was on its way when the copy that it came from was given up.
        place = place_of(message_id)
        if place not in self.log.tokens:
            self.catch_up()
        found = self.log.tokens.get(place)
        if found != token:
            raise ViolationError("S5", f"{token} was delivered; in its place stands {found}")

    def _check_settled(self, place: tuple[int, int], queue: str) -> None:
        if place in self.log.live:
            raise ViolationError("S5", f"{place[1]} of {queue} was settled and still lives")

    # At the end -----------------------------------------------------------------------------------

    def check_end(self) -> None:
        """Look at everything once more, after healing and draining."""
        lost = [token for token in self.history.confirmed if not self._has_arrived(token)]
        if lost:
            raise ViolationError("S6", f"{len(lost)} confirmed messages are lost: {lost[:5]}")
        for node in self.world.network.nodes.values():
            if node.name not in self.distrusted and not node.is_ending:
                self._check_platters(node)
        self._check_segments()

    def _has_arrived(self, token: str) -> bool:
        if not self.log.is_committed(token):
            return False
        note, places = self.history.sent[token], self.log.identities.get(token, ())
        if note.others or note.queue in self.history.topics:  # Wherever it stood it is gone.
            return not any(place in self.log.live for place in places)
        is_removed = any(place in self.log.removed for place in places)
        is_received = token in self.history.received
        return is_removed or is_received or note.queue in self.history.settled_queues

    def _check_platters(self, node: SimulatedNode) -> None:
        """S2, S17: every committed entry that stands on a platter is the one committed."""
        for path in node.disk.durable_paths():
            if path.suffix != ".segment":
                continue
            content = node.disk.durable_content(path)
            assert content is not None
            data = bytes(content)
            offset = SEGMENT_HEADER_BYTES
            while offset + HEADER_BYTES <= len(data):
                try:
                    entry = parse_entry(data, offset)
                except CorruptEntryError:
                    break
                known = self.commit_chains.get(entry.index)
                # What was being cut when the power went still stands there, claimed by nobody. And
                # the end of a kept log may be what a leader that was deposed had written alone.
                through = min(node.driver.commit_index, node.journal.stored_index)
                if path.parent.name == KEPT_DIRECTORY:
                    # It may be there for a while after the new one is whole.
                    origin = int(path.name.partition("-")[0])
                    through = min(through, self._kept_commits.get((node.name, origin), 0))
                is_committed = entry.index <= through
                if is_committed and known is not None and known != entry.chain:
                    raise ViolationError(
                        "S17", f"{path.name} of {node.name}: {entry.index} differs"
                    )
                offset += len(entry.raw)

    def _check_segments(self) -> None:
        """S19: a sealed segment is the same on every platter."""
        seen: dict[str, tuple[str, bytes]] = {}
        for node in self.world.network.nodes.values():
            if not node.is_running or node.name in self.distrusted or node.journal.damage:
                continue
            through = min(node.journal.sealed_through, node.driver.commit_index)
            for segment in node.journal.segments():
                if not segment.sealed or not segment.base_index <= segment.last_index <= through:
                    continue
                content = bytes(node.disk.durable_content(segment.path) or b"")
                other, expected = seen.setdefault(segment.path.name, (node.name, content))
                if content != expected:
                    raise ViolationError(
                        "S19", f"{segment.path.name} differs between {other} and {node.name}"
                    )


def holds_at(node: SimulatedNode, entry: Entry, path: Path, byte: int) -> bool:
    """Whether an entry is on a platter, where it should be."""
    content = node.disk.durable_content(path)
    return content is not None and content.startswith(entry.raw, byte)


def holds(node: SimulatedNode, entry: Entry, path: Path, byte: int) -> bool:
    """Whether an entry is on a platter: where it should be, or else anywhere."""
    disk = node.disk
    return holds_at(node, entry, path, byte) or any(
        entry.raw in (disk.durable_content(other) or b"")
        for other in disk.durable_paths()
        if other.suffix == ".segment"
    )


def has_a_bit_flipped(node: SimulatedNode, entry: Entry, path: Path, byte: int) -> bool:
    """Whether a platter has an entry where it should be, but for a single bit."""
    content = node.disk.durable_content(path) or b""
    found = content[byte : byte + len(entry.raw)]
    differing = int.from_bytes(found, "big") ^ int.from_bytes(entry.raw, "big")
    return len(found) == len(entry.raw) and differing.bit_count() == 1
