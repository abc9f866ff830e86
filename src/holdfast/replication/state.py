"""
What one member knows: term, vote, role, members, log, and what it wants sent.

Plain state with the small moves that every role needs; the rules of the roles are in `follower`,
`candidate`, `leader` and `voting`, which take it as their first argument. Pure: the time is the
field `now`, set by whoever brings an event; chance is handed in.

Invariants:
    term never decreases; voted_for is set at most once per term.
    commit_index never decreases, except when the log is begun anew from a leader's base.
    commit_index <= log.last_index.
    leader == name exactly while role is LEADER.
    A peer counts in a quorum only under the node identity that the membership names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum

from holdfast.environment.randomness import Randomness
from holdfast.journal.entry import KIND_CONFIG, Entry
from holdfast.replication.beginning import Beginning
from holdfast.replication.edition_table import EditionTable
from holdfast.replication.lease_promise import Answer, Promise
from holdfast.replication.log import ReplicatedLog
from holdfast.replication.membership import Lineage, Member, Membership, decode_membership
from holdfast.replication.messages import AppendRequest, HeldEnd, Hello, Message
from holdfast.replication.progress import Progress
from holdfast.replication.quorum import default_copies
from holdfast.replication.settings import ReplicationSettings
from holdfast.replication.shared_settings import shared_settings

NEVER = float("-inf")
ALWAYS = float("inf")


class Role(Enum):
    """What a member does in the present term."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Transfer:
    """A hand-over under way: no proposals are taken until it is done or given up."""

    __slots__ = ("deadline", "is_sent", "target")

    def __init__(self, target: str, deadline: float) -> None:
        self.target = target
        self.deadline = deadline
        self.is_sent = False


class State:
    """All that one member of the group knows; see the module's header for what always holds."""

    def __init__(
        self,
        name: str,
        node_id: str,
        settings: ReplicationSettings,
        log: ReplicatedLog,
        randomness: Randomness,
    ) -> None:
        self.name = name
        self.node_id = node_id
        self.settings = settings
        self.shared = shared_settings(settings, log.journal.settings.segment_bytes)
        """What must be alike on all members."""
        self.log = log
        self.randomness = randomness
        self.lease_seconds = settings.lease_seconds
        self.now = 0.0
        self.outbox: list[tuple[str, Message]] = []

        # Durable through the ballot.
        self.term = 0
        self.voted_for: str | None = None
        self.cluster_id = ""
        self.generation = 0
        self.editions = EditionTable(node_id)
        """Of the ballots: what tells an older copy of a disk."""

        # Every role.
        self.role = Role.FOLLOWER
        self.leader: str | None = None
        self.commit_index = 0
        self.taken_index = 0
        """Through which entry what is committed was given out to be applied."""
        self.election_timeout = 0.0
        self.election_deadline = ALWAYS
        self.fenced_reason = ""
        self.fenced_by = 0
        """The generation that shut this node out; 0 if none did."""
        self.is_shut_out = False
        """It was shut out of the generation that its ballot names, in this process or before."""
        self.is_disk_hanging = False
        """Nothing was stored here for so long that this node must not lead, stand or vote."""

        self._begin_membership(settings)
        self._begin_following()
        self._begin_promoting()
        self._begin_standing()
        self._begin_leading()

    def _begin_membership(self, settings: ReplicationSettings) -> None:
        """Who the members are, and what is known of them."""
        self.membership: Membership | None = None
        self.config_index = 0
        self.members: dict[str, Member] = {}
        self.peers: list[str] = []
        self.voter_names: list[str] = []
        self.voter_ids: tuple[str, ...] = ()
        """The identities of the voters, in the order of their names."""
        self._present_ids: dict[str, str] = {}
        self._possible_ids: dict[str, str] = {}
        self.copies = settings.copies or 1
        """Nodes with data that must hold an entry before it is committed."""
        self.connected: dict[str, Hello] = {}
        self.last_seen: dict[str, float] = {}
        """When a peer that has no link now was there for the last time."""
        self.own: Member | None = None
        """This node among the members, if its present identity is one."""
        self.is_voter = False
        """Whether this node counts in quorums."""
        self.is_witness = False
        """Whether this node keeps the log but never serves."""

    def _begin_following(self) -> None:
        """What a follower keeps of its leader."""
        self.leader_contact_at = NEVER
        """When the leader of this term was last heard, for judging whether it lives."""
        self.heard_at = NEVER
        """When any leader said what was heard last, for operators; also when this one began to
        lead."""
        self.is_leader_link_closed = False
        self.quick_rounds = 0
        """How many quick elections may still follow the closing of the leader's link."""
        self.leader_sent_at = NEVER
        self.leader_offset = ALWAYS
        """How far our clock is ahead of this leader's; what a message takes is in it."""
        self.matched_index = 0
        """Known to equal the log of this term's leader; what may be acknowledged if durable."""
        self.match_sent = 0
        self.is_reply_due = False
        self.data_match = 0
        self.told_commit_index = 0
        """Through which entry any leader has said that the log is committed; they may not be here
        yet."""
        self.sure_index = -1
        """All that was committed before this process began is at or before this entry; -1: no
        leader that knows has told so."""

    def _begin_promoting(self) -> None:
        """What a promotion by force needs (promotion.py)."""
        self.forced: Membership | None = None
        """What an operator's forced promotion makes of the members once its term is durable."""
        self.unforced: Membership | None = None
        """The members by the log, while `forced` rules instead and is not written yet."""
        self.awaited: dict[str, str] = {}
        """Name and identity of those it takes along that have not said yet that they follow."""
        self.misfits: set[str] = set()
        """Names of those whose logs are further than they said when they were asked."""
        self.end: HeldEnd | None = None
        """How far the log went when this node came to know of a generation that nobody has led."""
        self.told_along: tuple[str, ...] = ()
        """Identities that belong to the generation it was taken along into, as it was told."""
        self.told_lineage: Lineage = ()
        """Who began that generation, or the one that this node was taken in by, as it was told."""

    def _begin_standing(self) -> None:
        """Votes, and what is known of leases, one's own and those of earlier leaders (lease.py)."""
        self.votes: dict[str, bool] = {}
        self.promise = Promise()
        """What this voter promised to leaders by answering them."""
        self.lease_answers: dict[str, Answer] = {}
        """What voters have promised to leaders before us, as they said with their votes."""
        self.lease_voters: tuple[str, ...] = ()
        """Who could vote when this leader was elected."""
        self.lease_over_term = 0
        """The leader of this term is known to dispatch no more."""
        self.lease_until = NEVER
        self.dispatch_from = ALWAYS
        """Leaders before this one may dispatch until then."""

    def _begin_leading(self) -> None:
        """What only a leader uses."""
        self.progress: dict[str, Progress] = {}
        self.term_start = 0
        """The index of this leader's first own entry; nothing is served before it is committed."""
        self.leader_since = NEVER
        self.hole_since = ALWAYS
        """Since when this leader has a damaged entry that is not committed."""
        self.look_at = NEVER
        """When it looks again whether a quorum answers, and whether the members must change."""
        self.transfer: Transfer | None = None
        self.beginning = Beginning()
        """Whether a witness that leads may let others begin with its log."""
        self.uncommitted: deque[tuple[int, int]] = deque()
        self.uncommitted_bytes = 0
        self.bytes_since_config = 0
        self.requests: dict[int, AppendRequest] = {}
        """Append requests made in this turn by their next index: peers at one place share one."""

    def send(self, peer: str, message: Message) -> None:
        """Put a message in the outbox; it leaves when what it claims is durable."""
        self.outbox.append((peer, message))

    def enter_term(self, term: int) -> None:
        """A higher term: no vote given in it yet, nothing known of its leader."""
        assert term > self.term, f"term {term} after {self.term}"
        self.term = term
        self.voted_for = None
        self.leader = None
        self.matched_index = 0
        self.match_sent = 0
        self.told_commit_index = 0  # Of a promotion by force the log may be shorter.

    def adopt(self, membership: Membership, index: int) -> None:
        """Let this membership rule; it is written at `index` (0: not in the log)."""
        self.membership = membership
        self.config_index = index
        self.cluster_id = membership.cluster_id or self.cluster_id
        self.generation = max(self.generation, membership.generation)
        self.members = {member.name: member for member in membership.members}
        own = self.members.get(self.name)
        if own is not None and own.node_id != self.node_id:
            own = None
        self.own = own
        self.is_voter = own is not None and own.is_voter
        self.is_witness = own is not None and "witness" in {own.kind, own.promote_to}
        self.peers = [
            member.name
            for member in membership.members
            if member.name != self.name and member.kind != "fenced"
        ]
        self.voter_names = [member.name for member in membership.voters]
        self.voter_ids = tuple(member.node_id for member in membership.voters)
        self._present_ids = _identities(membership.members)
        learners = [it for it in membership.previous_members if it.kind == "learner"]
        self._possible_ids = {**_identities(learners), **self._present_ids}
        data_count = len(membership.data_members)
        self.copies = self.settings.copies or default_copies(data_count, len(self.voter_names))
        self.bytes_since_config = 0

    def told_facts(self) -> tuple[object, ...]:
        """
        What the ballot, the hello and the links go by, beside what never changes.

        While it is the same none of the three has anything new to say, so a turn asks for this
        first, and once. Whoever lets one of them depend on more puts that here
        (`test_what_is_told_depends_on_the_told_facts_alone`).
        """
        return (
            self.term,
            self.voted_for,
            self.cluster_id,
            self.generation,
            self.fenced_by,
            self.is_shut_out,
            self.membership,
            self.config_index,
            self.config_index <= self.commit_index,
            self.forced,
            self.end,
            self.told_along,
            self.told_lineage,
            self.log.unknown_index,
        )

    @property
    def knows_its_generation(self) -> bool:
        """
        Whether the members that rule here are those of the generation that rules.

        Not where an operator's promotion is in the ballot and not yet in the log: then nobody knows
        here who may vote, and who is shut out.
        """
        return self.membership is not None and self.membership.generation >= self.generation

    @property
    def lineage(self) -> Lineage:
        """Who began the generation that rules here; empty in the first one, or if not known."""
        if not self.generation:
            return ()
        membership = self.membership
        if membership is None or membership.generation < self.generation:
            return self.told_lineage
        return membership.lineage

    @property
    def has_settled_members(self) -> bool:
        """Whether the members that rule here are known to be committed."""
        return self.config_index <= self.commit_index

    def settled_membership(self) -> Membership | None:
        """
        The newest membership known to be committed: by it links are judged, and who is shut out.

        A change is made only when the one before is committed. So of a change that may yet be cut,
        by a leader who was cut off or after a restart that does not know, the one before counts.
        """
        if self.membership is None or self.has_settled_members:
            return self.membership
        return self.membership.before()

    def is_retired(self, hello: Hello) -> bool:
        """
        Whether this node was a member once and, by a committed change, must never be again.

        A change binds its own generation: whoever was promoted since rules, and shuts us out. That
        also where this node knows nothing of that promotion but that there was one, and where that
        one has the number of the generation of the change: it was begun without a word of it.
        """
        membership = self.settled_membership()
        if membership is None or hello.node_id not in membership.retired:
            return False
        if hello.cluster_id != self.cluster_id:
            return True
        if hello.generation > membership.generation or self.is_outdated_by(hello):
            return False
        is_its_own = hello.generation == membership.generation
        return not is_its_own or hello.lineage in {(), membership.lineage}

    def is_outdated_by(self, hello: Hello) -> bool:
        """Whether this hello is of a newer generation of our cluster, or of the later of two."""
        if hello.cluster_id != self.cluster_id or hello.generation < self.generation:
            return False
        is_later = self.is_apart_from(hello) and hello.lineage > self.lineage
        return hello.generation > self.generation or is_later

    def is_apart_from(self, hello: Hello) -> bool:
        """
        Whether this hello is of our generation by its number, and another promotion began it.

        The two knew nothing of each other, and have nothing in common since.
        """
        if not hello.lineage or hello.generation != self.generation:
            return False
        if hello.cluster_id != self.cluster_id:
            return False
        own = self.lineage
        return own not in {(), hello.lineage}

    def adopt_from(self, entries: list[Entry]) -> None:
        """Let the newest CONFIG entry among these rule from now on, committed or not."""
        for entry in reversed(entries):
            if entry.kind == KIND_CONFIG:
                self.adopt(decode_membership(bytes(entry.body)), entry.index)
                return

    @property
    def possible_members(self) -> dict[str, str]:
        """
        Name by identity of whoever may be a member, as far as this node's log tells.

        A learner that a change takes out which may yet be undone still counts.
        """
        return self._present_ids if self.has_settled_members else self._possible_ids

    def forget_unsettled_change(self) -> None:
        """Let the members before the newest change rule again, if it may be uncommitted."""
        membership = self.membership
        if membership is not None and not self.has_settled_members:
            self.adopt(membership.before(), membership.previous_index)

    def forget_forced(self) -> None:
        """Let the members by the log rule again, if an operator's promotion was not written yet."""
        if self.forced is not None and self.unforced is not None:
            self.adopt(self.unforced, self.config_index)
        self.forced = self.unforced = None
        self.awaited.clear()

    def cut_log_after(self, index: int) -> None:
        """Remove the log's end; the members before a removed change rule again."""
        self.log.cut_after(index, self.commit_index)
        if self.config_index > index:
            self.forget_unsettled_change()
            assert self.config_index <= index, "two changes of members were under way at once"
        self.matched_index = min(self.matched_index, index)

    def is_counted(self, peer: str) -> bool:
        """Whether the node at the other end of the link is the member of that name."""
        hello = self.connected.get(peer)
        member = self.members.get(peer)
        return hello is not None and member is not None and member.node_id == hello.node_id

    def other_voters(self) -> list[str]:
        """The voters but this node."""
        return [name for name in self.voter_names if name != self.name]

    def await_leader(self) -> None:
        """Start waiting for a leader's sign of life, for a newly drawn time."""
        settings = self.settings
        self.election_timeout = self.randomness.uniform(
            settings.election_seconds_min, settings.election_seconds_max
        )
        if self.is_witness:
            # Data nodes go first: a witness that leads can only hand over again.
            self.election_timeout += settings.witness_stagger_seconds
        self.election_deadline = self.now + self.election_timeout

    def await_retry(self) -> None:
        """Stand again soon: an election was lost or undecided and no leader is known."""
        settings = self.settings
        pause = self.randomness.uniform(settings.retry_seconds_min, settings.retry_seconds_max)
        if self.is_witness:
            pause += settings.witness_stagger_seconds
        self.election_deadline = min(self.election_deadline, self.now + pause)

    def has_live_leader(self) -> bool:
        """Whether a leader was heard so recently that no other should be helped to power."""
        if self.leader is None or self.is_leader_link_closed:
            return False
        if self.leader == self.name:
            return True
        return self.now - self.leader_contact_at < self.settings.election_seconds_min


def _identities(members: Iterable[Member]) -> dict[str, str]:
    """Name by identity of those that were met and are not shut out."""
    return {it.node_id: it.name for it in members if it.node_id and it.kind != "fenced"}
