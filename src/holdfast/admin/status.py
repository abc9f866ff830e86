"""
What a node says of itself, as values.

The node builds these, the HTTP interface writes them as JSON, the command line reads them back, the
metrics are counted from them: one list of fields behind all four. Every field has a default (except
the names), so a program of one version reads the status of a node of another.

Invariants:
    Values only: frozen, no behaviour but conversion.
    A field that only the leader can know is None on every other node, never a guess.

Made on the node's loop; safe to hand to any thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from holdfast.admin.certificate_status import CertificateStatus
from holdfast.admin.counters import (
    BatchCounters,
    ConsumerCounters,
    MemoryStatus,
    MessageCounters,
    ProducerStatus,
    TopicCounters,
)
from holdfast.admin.lease_status import LeaseStatus
from holdfast.replication.promotion import LogEnd

Role = Literal["leader", "follower", "candidate", "witness", "learner", "standby"]
MemberKind = Literal["voter", "witness", "learner"]
"""What a member may be admitted as."""

PresentKind = Literal["voter", "witness", "learner", "fenced", "broker"]
"""What a member may be: a promotion by force shuts some out; brokers of one store do not vote."""

Space = Literal["ok", "low"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """One member of the cluster, as the answering node knows it."""

    name: str
    address: str = ""
    kind: PresentKind = "voter"
    site: str = ""
    node_id: str = ""
    """32 hexadecimal digits; empty until the member was met."""

    connected: bool = False
    secured: bool = False
    """The answering node's link with it goes by TLS."""

    dead: bool = False
    """The answering node has no link with it."""

    last_seen_seconds: float | None = None
    """How long ago it was there for the last time: 0 while it is, None if not in this process."""

    space_low: bool = False
    """It is a witness and says that its disk is almost full."""

    disk_hangs: bool = False
    """It says that its disk does not answer: it follows no further, and cannot take over."""

    match_index: int | None = None
    """The last entry known to be durable there. Only the leader knows it."""

    lag_entries: int | None = None
    lag_records: int | None = None
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    admin: str = ""
    """Where its admin port can be reached, `host:port`; empty when unknown."""

    stomp: str = ""
    life: str = ""
    """Which process it is, see `forwarding`; empty when unknown, as of an earlier version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedStatus:
    """One member that a node without a cluster waits for, and why it is not there."""

    name: str
    address: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageStatus:
    """One place in the log whose bytes are wrong, and whether a peer's copy has mended it."""

    segment: str
    byte: int
    index: int
    reason: str
    repaired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """One of several directories that hold the same."""

    directory: str
    state: str
    """`active`: it has everything that was confirmed; `joining`, `failed` or `disabled`."""

    reason: str = ""
    """Why it failed."""

    bytes_filled: int = 0
    bytes_to_fill: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """The log on this node's disk."""

    bytes_on_disk: int = 0
    segments: int = 0
    live_messages: int = 0
    first_index: int = 0
    last_index: int = 0
    free_bytes: int | None = None
    space: Space = "ok"
    """`low`: publishing is refused until space returns; acknowledging goes on."""

    limit_bytes: int = 0
    """So many bytes of log there may be before that is so; 0: as many as the disk has room for."""

    is_full_of_live: bool = False
    """On the leader: space is low, and cleaning can free nothing, because what is kept lives."""

    disk_wait_seconds: float = 0.0
    """How long the disk has got nothing done although it should; 0 if all is well."""

    disk_hangs: bool = False
    """That has lasted so long that this node does not lead or vote until the disk answers."""

    is_out_of_room: bool = False
    """The log could not be written for want of room: nothing is stored until there is some."""

    damage: tuple[DamageStatus, ...] = ()

    damage_count: int = 0
    """Places that are damaged, also those too many to be told of in `damage`: then it has the first
    ones and the last."""

    pinned_queues: tuple[str, ...] = ()
    """On the leader: queues with messages in a damaged entry, which for their sake cannot go, nor
    can anything behind it: purge them, or restore the file."""

    pinned_queue_count: int = 0
    """How many there are, also those too many to be told of in `pinned_queues`."""

    mirrors: tuple[MirrorStatus, ...] = ()
    """Where this node has several directories, each of them."""

    mended: int = 0
    """Pieces that were wrong on one mirror, and were written again by another one's copy."""

    warnings: tuple[str, ...] = ()
    """What does not last of what is stored, and why, a sentence each."""

    unremovable: tuple[str, ...] = ()
    """Files that are not needed and could not be removed: their room is lost until they can be."""

    unknown_end: str = ""
    """Why the only voter does not lead or serve, and which command ends that; empty if it does."""

    incomplete: str = ""
    """What is missing while this log is being filled anew, in a sentence; empty if it is full."""

    @property
    def unrepaired(self) -> list[DamageStatus]:
        """Of the damage that is told what nobody's copy has mended, in the order of the log."""
        return sorted((it for it in self.damage if not it.repaired), key=lambda it: it.index)

    @property
    def unrepaired_count(self) -> int:
        """How many such places there are, also where too many are damaged to tell of each."""
        return max(self.damage_count, len(self.unrepaired))


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldStatus:
    """A named reader of the log, and from where on the log is kept for it."""

    name: str
    index: int = 0
    """The reader has taken everything before this entry."""

    bytes_max: int = 0
    held_bytes: int = 0
    """Bytes of the segments that cannot go while the hold stands here."""

    lost_through: int = 0
    """Not 0: entries up to here were dropped before they were taken."""

    lost_because: Literal["", "bound", "space"] = ""
    """Its bound was reached, or the disk was almost full, which wins over every hold."""

    expiry_seconds: int = 0
    """It ends when its reader was not heard of for so long; 0: never, as a learner's."""

    silent_seconds: float = 0.0
    """Since its reader was last heard of, by this node's clock."""

    is_near_bound: bool = False
    """The reader should be looked after, before its entries are dropped."""

    is_near_expiry: bool = False
    """The reader seems to be gone: soon the log is not kept for it any more."""

    @property
    def is_alarm(self) -> bool:
        """Whether somebody should look after it."""
        return self.is_near_bound or self.is_near_expiry


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRequest:
    """What a reader asks to have kept: the log from entry `index` on."""

    index: int
    bytes_max: int | None = None
    """How much of it at most; None leaves it as it is, or to the node."""

    expiry_seconds: int | None = None
    """The same for how long it stands without being heard of."""

    or_first: bool = False
    """From where the log begins, if that is later; else it is an error."""

    only_renews: bool = False
    """A hold that stands elsewhere stays there: it is only told that its reader is alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """What a node can give of the log to readers: entries that are committed and on its disk."""

    name: str
    role: Role = "candidate"
    cluster_id: str = ""
    generation: int = 0
    """Of the cluster: every promotion by force begins one, and may have cut the log."""

    first_index: int = 0
    commit_index: int = 0
    """The last entry that can be read here; none can if it is below `first_index`."""

    last_timestamp: int = 0
    """When the newest entry of the log was sealed, in microseconds."""

    through_index: int = 0
    """How far so many bytes reach from a given entry, if that was asked."""

    bases: Sequence[int] = ()
    """The first index of each segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSlice:
    """Entries as they stand in one file of the log; a reader verifies them."""

    path: Path
    start: int
    size: int
    next_index: int
    """The first entry behind them; none are there if it is the one that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One node: who it is, what it does, how far its log goes."""

    name: str
    role: Role = "candidate"
    node_id: str = ""
    leader: str | None = None
    leader_contact_seconds: float | None = None
    """Since any leader was last heard; 0 on the leader itself, None if never since the start."""

    is_cut_short: bool = False
    """It knows of a later generation and not its members: it was shut out by a promotion, or
    ended as an older copy of itself, or a promotion was cut short here."""

    serving: bool = False
    """The leader accepts clients: its own term is committed and applied."""

    term: int = 0
    commit_index: int = 0
    applied_index: int = 0
    members: tuple[MemberStatus, ...] = ()
    awaits: tuple[AwaitedStatus, ...] = ()
    """Before there is a cluster: whom of its members this node waits for."""

    copies: int = 1
    sites: int = 1
    site: str = ""
    store: StoreStatus = field(default_factory=StoreStatus)
    lease: LeaseStatus | None = None
    """Where the log is kept in a store that several brokers share: who may write it."""

    log_end: LogEnd | None = None
    """How far the log goes, as logs are compared before several nodes go on by force."""

    cluster_id: str = ""
    generation: int = 0
    uptime_seconds: float = 0.0
    turn_seconds_max: float = 0.0
    """The longest turn of the loop since the process started."""

    turn_cpu_seconds_max: float = 0.0
    """The longest that a core has worked for one turn; what a turn takes beyond that is waiting."""

    version: str = ""
    format_level: int = 1
    """The level of the log's format that is reached, see docs/reference/journal-format.md."""

    format_level_asked: int = 0
    """On a leader, the level whose record is written and not committed yet; 0 if there is none."""

    stomp: str = ""
    admin: str = ""
    connections: int = 0
    connections_max: int = 0
    """Beyond it silent and idle clients make room, or new ones are turned away."""

    connections_turned_away: int = 0
    """Clients closed because the port was full, since the process started."""

    messages: MessageCounters = field(default_factory=MessageCounters)
    consumers: ConsumerCounters = field(default_factory=ConsumerCounters)
    topics: TopicCounters = field(default_factory=TopicCounters)
    queues_removed: int = 0
    """Those that nobody used, as policies say so, while this node led since the process started."""

    refusals: Mapping[str, int] = field(default_factory=dict)
    """What clients were refused, and rules that they broke, by the code of the ERROR."""

    batches: BatchCounters = field(default_factory=BatchCounters)
    memory: MemoryStatus = field(default_factory=MemoryStatus)
    producers: ProducerStatus = field(default_factory=ProducerStatus)
    certificates: tuple[CertificateStatus, ...] = ()
    """What it shows by TLS and judges others by, the first to run out first."""

    holds: tuple[HoldStatus, ...] = ()

    def member(self, name: str | None) -> MemberStatus | None:
        """The member of that name, if there is one."""
        return next((member for member in self.members if member.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """One queue. Deliveries and consumers exist on the leader only and are 0 elsewhere."""

    name: str
    number: int = 0
    messages: int = 0
    """Held now, those under way to a consumer included."""

    unacknowledged: int = 0
    """Of `messages`: sent to a consumer and not settled."""

    consumers: int = 0
    bytes: int = 0
    enqueued: int = 0
    acknowledged: int = 0
    redelivered: int = 0
    dropped: int = 0
    """Taken off as it was full and newer ones came, under this leader."""

    selectors: int = 0
    """Different ones of its consumers."""

    parked: int = 0
    """Of `messages`: wait for consumers who want them and have no room, where some select."""

    is_parked_full: bool = False
    """So many are parked that nothing more is looked at until some of them are taken."""

    unlooked: int = 0
    """Places of the queue that consumers who have come have still to look through, where some
    select: of the one that has most to do."""

    sole_consumer: str = ""
    """Whose connection gets all messages, by its client-id or number; empty: nobody asked."""

    is_draining: bool = False
    """That one gets nothing yet: others still hold messages."""

    is_gate_closed: bool = False
    """Nothing goes out before enough consumers are there, or it is time."""

    is_grouped: bool = False
    """Messages of a group go to its owner."""

    is_paused: bool = False
    """Policies let nobody have any of it."""


class QueueDepth(NamedTuple):
    """What is summed over all queues: cheap, as there may be a hundred thousand."""

    name: str
    messages: int = 0
    unacknowledged: int = 0
    consumers: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStatus:
    """One client's connection."""

    id: str
    peer: str = ""
    protocol: str = ""
    connected_seconds: float = 0.0
    subscriptions: int = 0
    unacknowledged: int = 0
    paused: bool = False
    """Its socket is not read for now: the store or its own outgoing data is behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentStatus:
    """One file of the log. Sealed segments are byte-identical on every node."""

    base_index: int
    last_index: int = 0
    bytes: int = 0
    sealed: bool = False
    digest: str = ""
    """BLAKE2b of the sealed file, hexadecimal; empty while it is still written."""


Status = NodeStatus | QueueStatus | ConnectionStatus | SegmentStatus | HoldStatus | LogPosition


_FIELDS: dict[type, tuple[str, ...]] = {}


def as_json(status: Status) -> dict[str, Any]:
    """The same fields as plain dictionaries, lists, strings and numbers."""
    found: dict[str, Any] = plain(status)
    return found


def plain(value: Any) -> Any:
    """
    Take a status apart.

    Not by `dataclasses.asdict`: that copies each number, which takes five times as long.
    """
    kind = type(value)
    names = _FIELDS.get(kind)
    if names is None:
        if isinstance(value, tuple):
            return tuple(map(plain, value))
        if not is_dataclass(value):
            return value
        names = _FIELDS[kind] = tuple(each.name for each in fields(value))
    return {name: plain(getattr(value, name)) for name in names}
