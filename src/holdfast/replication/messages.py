"""
What members say to each other.

One small class per message, slots only: built once, sent and forgotten. Terms, indexes and chains
are those of the log; `sent_at` is the sender's monotonic clock, echoed by the answer, so that
only its sender ever compares it with anything.

Invariants:
    A message is not changed after it was sent: the same object may go to several peers. What was
    received belongs to the receiver.
    `entries` of an append request are consecutive and start at `previous_index` + 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.journal.entry import Entry
from holdfast.replication.membership import Lineage

NO_CHAIN = bytes(16)


@dataclass(slots=True)
class PreVoteRequest:
    """Would you vote for me in `term`? Asked before a term is spent on it."""

    term: int
    last_index: int
    last_term: int


@dataclass(slots=True)
class PreVoteResponse:
    """Answer to a pre-vote; `term` is the asked one if granted, the voter's own if not."""

    term: int
    granted: bool


@dataclass(slots=True)
class VoteRequest:
    """Vote for me in `term`; `is_transfer` says that the leader itself wants it."""

    term: int
    last_index: int
    last_term: int
    is_transfer: bool = False


@dataclass(slots=True)
class VoteResponse:
    """A vote, durable before it was sent; or a refusal. The rest: see lease.py."""

    term: int
    granted: bool
    lease_term: int = 0
    """Of the leader that this voter has answered last."""

    lease_left: float = 0.0
    """For so many seconds that leader may still dispatch, for all that this voter knows."""

    older_left: float = 0.0
    """The same for all leaders before it."""


@dataclass(slots=True)
class AppendRequest:
    """Entries to follow `previous_index`; without entries it is a heartbeat."""

    term: int
    previous_index: int
    previous_term: int
    previous_chain: bytes
    commit_index: int
    data_match: int
    """The least index both data nodes hold durably: a witness may trim its log up to here."""

    sent_at: float
    entries: list[Entry] = field(default_factory=list)
    encoded: list[bytes] | None = field(default=None, compare=False, repr=False)
    """The frame, once made: the same request usually goes to several peers."""


@dataclass(slots=True)
class AppendResponse:
    """
    How far this member's log is durable and known to equal the leader's.

    A rejection says that `previous_index` did not match; the hint is where to try next.
    """

    term: int
    match_index: int
    match_chain: bytes
    sent_at: float
    rejected: bool = False
    hint_index: int = 0
    hint_term: int = 0


@dataclass(slots=True)
class ResetRequest:
    """
    Begin your log anew at `base_index`: what is before it is no longer kept.

    It is worth something once it has the leader's log as it is now: through `target_index`, where
    the next record is `target_record` and the last entry is of `target_timestamp` microseconds.
    """

    term: int
    base_index: int
    previous_term: int
    previous_chain: bytes
    base_record: int
    sent_at: float
    target_index: int = 0
    target_record: int = 0
    target_timestamp: int = 0


@dataclass(slots=True)
class TransferRequest:
    """Stand at once: the leader hands over to you."""

    term: int


@dataclass(slots=True)
class RepairRequest:
    """Send me your copy of this entry: mine is damaged."""

    index: int


@dataclass(slots=True)
class RepairResponse:
    """The asked entry as it stands on the sender's disk; None if it has no good copy."""

    index: int
    entry: Entry | None


class ListedMember(NamedTuple):
    """One member as a command line names it."""

    name: str
    address: str
    kind: str
    site: str


class HeldEnd(NamedTuple):
    """How far a log goes, and how far it is known to be committed; see `promotion.LogEnd`."""

    last_index: int
    last_term: int
    chain: str
    commit_index: int
    commit_chain: str
    is_incomplete: bool


@dataclass(slots=True)
class Hello:
    """
    Who a node is; said when a link is made and again whenever one of these changes.

    `node_id` and `cluster_id` are lower-case hexadecimal. An empty `cluster_id` means a fresh node.
    """

    name: str
    node_id: str
    cluster_id: str = ""
    generation: int = 0
    address: str = ""
    instance: str = ""
    """Random for each process: tells a restarted peer from a second connection of the same one."""

    metadata: dict[str, str] = field(default_factory=dict)
    """What the application wants the other members to know, such as its client port."""

    edition: int = -1
    """Of its ballot; -1 from a node of a version that has none. Kept up to date by the receiver."""

    seen: dict[str, int] = field(default_factory=dict)
    """The newest editions of other identities that it knows of, see editions.py."""

    shared: dict[str, float] = field(default_factory=dict)
    """What must be alike on all members, see shared_settings.py; empty from an older version."""

    has_ended: bool = False
    """Its process ends, and dispatches nothing any more."""

    disk_hangs: bool = False
    """Its disk does not answer: it cannot take over, and lags until the disk does."""

    space_low: bool = False
    """It is a witness, and its disk is almost full."""

    kept: tuple[str, ...] = ()
    """Identities of the members of its generation, if an operator began that; empty while it does
    not know them."""

    voters: tuple[str, ...] = ()
    """Identities of the voters by its log, in the order of their names; empty while that tells none
    of them, and from an older version."""

    members: dict[str, str] = field(default_factory=dict)
    """Name by identity of whoever may be a member by its log, see `State.possible_members`; empty
    from an older version."""

    config_index: int = 0
    """Where its log names them last."""

    end_known: bool = False
    """Nothing that it ever stored is missing at the end of its log; not said by older versions."""

    listed: tuple[ListedMember, ...] = ()
    """Whom its command line names, see listed_members.py; empty once it belongs to a cluster, and
    from an older version."""

    site: str = ""
    """Where it stands by its own command line: the others' lists need not say."""

    shut_out: bool = False
    """It knows of its generation that it has no part in it, and no more."""

    begun: bool = False
    """Its generation, begun by an operator, has been led: whoever was taken along into it is of it
    since before that. Not said by older versions."""

    end: HeldEnd | None = None
    """With how much of a log it comes into its generation, as long as nobody has led that one; not
    said by older versions."""

    lineage: Lineage = ()
    """Who began its generation; empty in the first one, where that is not known, and from an older
    version."""


@dataclass(slots=True)
class Editions:
    """The newest edition of their ballots known of these identities, by hexadecimal node_id."""

    editions: dict[str, int]


Message = (
    PreVoteRequest
    | PreVoteResponse
    | VoteRequest
    | VoteResponse
    | AppendRequest
    | AppendResponse
    | ResetRequest
    | TransferRequest
    | RepairRequest
    | RepairResponse
    | Hello
    | Editions
)
