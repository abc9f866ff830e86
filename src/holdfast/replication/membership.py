"""
Who belongs to the cluster, and which changes are allowed.

A `Membership` is the content of a CONFIG entry: the members, the cluster's identity, its
generation, and the members before the change, so that a follower that has to cut the entry knows
what ruled before. A member is a name AND a node identity: a node that lost its disk comes back
under a new identity, is taken in as a learner, and never counts as the old one.

Invariants:
    A change adds, removes or turns at most one voter: majorities before and after share one.
    Only voters and witnesses count in a quorum; learners and fenced members never do.
    Encoding is canonical: equal memberships give equal bytes on every node.
"""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Literal, get_args

from holdfast.errors import CorruptRecordError, MembershipError
from holdfast.model.digits import read_whole
from holdfast.model.numbering import Numbering

Kind = Literal["voter", "witness", "learner", "fenced"]
KINDS = get_args(Kind)
Lineage = tuple[int, int] | tuple[()]
"""Who began a generation: when, and its range of numbers; empty where that is not known."""
_NUMBERS = ("number_range", "previous_number_range", "promoted_at", "previous_promoted_at")


@dataclass(frozen=True, slots=True)
class Member:
    """One member; `node_id` is hexadecimal, empty until the node was met."""

    name: str
    address: str
    kind: Kind = "voter"
    site: str = ""
    node_id: str = ""
    promote_to: Literal["", "voter", "witness"] = ""
    """What the leader makes of it once it has caught up; empty: it stays what it is."""

    @property
    def is_voter(self) -> bool:
        """Whether it counts in quorums; a witness does."""
        return self.kind in {"voter", "witness"}


@dataclass(frozen=True, slots=True)
class Membership:
    """All members, in the order of their names, and the cluster they form."""

    members: tuple[Member, ...]
    cluster_id: str = ""
    generation: int = 0
    retired: tuple[str, ...] = ()
    """Node identities that were members once and must never count again."""

    previous_members: tuple[Member, ...] = field(default=(), compare=False)
    previous_index: int = field(default=0, compare=False)
    """The index of the CONFIG entry that ruled before this one."""

    previous_generation: int | None = field(default=None, compare=False)
    """The generation before this change; None if it changes none."""

    number_range: int | None = None
    """Where queues' numbers begin, if not at the range of the generation's own number."""

    previous_number_range: int | None = field(default=None, compare=False)
    """The same before a change that begins a generation."""

    promoted_at: int | None = None
    """When an operator began this generation by force, in microseconds since 1970, if that is
    known: of two that know nothing of each other the later one rules."""

    previous_promoted_at: int | None = field(default=None, compare=False)
    """The same of the generation before a change that begins one."""

    def __post_init__(self) -> None:
        names = [member.name for member in self.members]
        if len(set(names)) != len(names):
            raise MembershipError(f"a name stands twice among the members: {', '.join(names)}")
        ordered = tuple(sorted(self.members, key=lambda member: member.name))
        object.__setattr__(self, "members", ordered)

    @property
    def voters(self) -> tuple[Member, ...]:
        """Those that count in quorums, witnesses included."""
        return tuple(member for member in self.members if member.is_voter)

    @property
    def data_members(self) -> tuple[Member, ...]:
        """The voters that serve and keep all data: all but the witnesses."""
        return tuple(member for member in self.members if member.kind == "voter")

    @property
    def numbers(self) -> int:
        """The range that queues' numbers are of (`model.numbering`)."""
        return self.generation if self.number_range is None else self.number_range

    @property
    def lineage(self) -> Lineage:
        """Which of all that may have begun this generation did; the greater one rules."""
        return self.promoted_at or 0, self.numbers

    def numbering(self, term: int) -> Numbering:
        """
        Where queues' numbers begin under who leads in this term.

        A learner never leads by itself, but it may have what its leader lost before that was on its
        disk, and go on with it by force.
        """
        has_had_others = len(self.members) > 1 or bool(self.retired)
        return Numbering(self.numbers, term if has_had_others else 0)

    def get(self, name: str | None) -> Member | None:
        """The member of that name, if there is one."""
        return next((member for member in self.members if member.name == name), None)

    def changed(self, members: tuple[Member, ...], index: int) -> Membership:
        """The same cluster with other members; `index` is where the present ones are written."""
        kept = {member.node_id for member in members if member.kind != "fenced"}
        gone = [member.node_id for member in self.members if member.node_id not in {"", *kept}]
        return replace(
            self,
            members=members,
            retired=tuple(dict.fromkeys((*self.retired, *gone))),
            previous_members=self.members,
            previous_index=index,
            previous_generation=None,
            previous_number_range=None,
            previous_promoted_at=None,
        )

    def before(self) -> Membership:
        """
        What ruled before this change: the members, whom it had retired, and its generation.

        The first membership of a cluster, and one that was gone back to, know of none before and
        are their own.
        """
        if not self.previous_members:
            return self
        kept = {member.node_id for member in self.members if member.kind != "fenced"}
        # Whom this change retired: who was fenced before it was retired before it.
        gone = {it.node_id for it in self.previous_members if it.kind != "fenced"} - kept
        generation = self.previous_generation
        return Membership(
            members=self.previous_members,
            cluster_id=self.cluster_id,
            generation=self.generation if generation is None else generation,
            number_range=self.number_range if generation is None else self.previous_number_range,
            promoted_at=self.promoted_at if generation is None else self.previous_promoted_at,
            retired=tuple(node_id for node_id in self.retired if node_id not in gone),
        )


def founded(members: tuple[Member, ...]) -> Membership:
    """The first membership; its cluster identity follows from the members, so all agree on it."""
    membership = Membership(members)
    digest = blake2b(encode_membership(membership), digest_size=16).hexdigest()
    return replace(membership, cluster_id=digest)


def _plain(member: Member) -> dict[str, str]:
    return {name: getattr(member, name) for name in Member.__slots__}


def encode_membership(membership: Membership) -> bytes:
    """The body of a CONFIG entry."""
    fields: dict[str, object] = {
        "cluster_id": membership.cluster_id,
        "generation": membership.generation,
        "members": [_plain(member) for member in membership.members],
        "previous_index": membership.previous_index,
        "previous_members": [_plain(member) for member in membership.previous_members],
        "retired": list(membership.retired),
    }
    if membership.previous_generation is not None:
        # Left out where it says nothing: founders of an older version must write the same bytes.
        fields["previous_generation"] = membership.previous_generation
    for name in _NUMBERS:
        if getattr(membership, name) is not None:
            fields[name] = getattr(membership, name)
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def decode_membership(body: bytes) -> Membership:
    """
    The membership in the body of a CONFIG entry.

    Raises:
        CorruptRecordError: The entry is good but its content is no membership.
    """
    try:
        fields = json.loads(body)
        generation = fields.get("previous_generation")
        return Membership(
            members=tuple(_member(plain) for plain in fields["members"]),
            cluster_id=str(fields["cluster_id"]),
            generation=read_whole(fields["generation"]),
            retired=tuple(str(node_id) for node_id in fields["retired"]),
            previous_members=tuple(_member(plain) for plain in fields["previous_members"]),
            previous_index=read_whole(fields["previous_index"]),
            previous_generation=None if generation is None else read_whole(generation),
            **{name: _number(fields, name) for name in _NUMBERS},
        )
    except (ValueError, KeyError, TypeError, AttributeError, MembershipError) as error:
        raise CorruptRecordError(f"a CONFIG entry that makes no sense: {error}") from error


def _number(fields: dict[str, object], name: str) -> int | None:
    value = fields.get(name)
    return None if value is None else read_whole(value)


def _member(plain: dict[str, str]) -> Member:
    member = Member(**{name: plain[name] for name in Member.__slots__})  # type: ignore[arg-type]
    if member.kind not in KINDS:
        raise ValueError(f"unknown kind {member.kind!r}")
    return member


def with_added(membership: Membership, member: Member) -> tuple[Member, ...]:
    """One more member, as a learner; `kind` becomes what it is promoted to."""
    if membership.get(member.name):
        raise MembershipError(f"{member.name} is a member already; remove it first")
    if any(other.address == member.address for other in membership.members):
        raise MembershipError(f"another member has the address {member.address}")
    return (*membership.members, as_learner(member))


def as_learner(member: Member) -> Member:
    """The member as it starts: a learner that remembers what it is to become."""
    if member.kind == "voter":
        return replace(member, kind="learner", promote_to="voter")
    if member.kind == "witness":
        return replace(member, kind="learner", promote_to="witness")
    return member


def with_removed(membership: Membership, name: str, leader: str) -> tuple[Member, ...]:
    """All members but one; the leader does not remove itself."""
    required(membership, name)
    if name == leader:
        raise MembershipError(f"{name} leads; transfer the lead first, then remove it")
    return tuple(member for member in membership.members if member.name != name)


def with_promoted(membership: Membership, name: str) -> tuple[Member, ...]:
    """A learner turned voter, or witness if that is what it was admitted for."""
    member = required(membership, name)
    if member.kind != "learner":
        raise MembershipError(f"{name} is a {member.kind}, not a learner")
    if not member.node_id:
        raise MembershipError(f"{name} was never met; start it first")
    promoted = replace(member, kind=member.promote_to or "voter", promote_to="")
    return with_replaced(membership, promoted)


def with_identity(
    membership: Membership, name: str, node_id: str, address: str
) -> tuple[Member, ...]:
    """A known name under a new node identity: the old one is out, the new one starts as learner."""
    member = as_learner(required(membership, name))
    learner = replace(member, kind="learner", node_id=node_id, address=address or member.address)
    return with_replaced(membership, learner)


def with_replaced(membership: Membership, member: Member) -> tuple[Member, ...]:
    """The members with this one in the place of the one of its name."""
    return tuple(member if other.name == member.name else other for other in membership.members)


def survivors_only(
    membership: Membership, name: str, companions: Container[str] = ()
) -> tuple[Member, ...]:
    """
    One voter, everyone else fenced: what an operator's forced promotion makes.

    Companions stay, as learners on their way to voters: they count once they have the log.
    """
    required(membership, name)
    return tuple(_survivor(other, name, companions) for other in membership.members)


def _survivor(member: Member, name: str, companions: Container[str]) -> Member:
    if member.name == name:
        return replace(member, kind="voter", promote_to="")
    if member.name in companions:
        return replace(member, kind="learner", promote_to="voter")
    return _fenced(member)


def _fenced(member: Member) -> Member:
    """Shut out for good under its present identity; keeps what a new one would become."""
    return replace(as_learner(member), kind="fenced")


def required(membership: Membership, name: str) -> Member:
    """The member of that name; MembershipError if there is none."""
    member = membership.get(name)
    if member is None:
        known = ", ".join(other.name for other in membership.members)
        raise MembershipError(f"no member is called {name}; the members are {known}")
    return member
