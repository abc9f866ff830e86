"""
What the group looks like from one member, as values for operators and programs.

Also keeps the lag ledger: when the leader appended what, so that the lag of a peer can be told in
seconds, records and bytes without reading the log.

Invariants:
    Nothing here is guessed: what only the leader can know is None elsewhere.
    The ledger is bounded; the lag of a peer behind its beginning is told by the log's timestamps.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass

from holdfast.errors import StoreError
from holdfast.replication import promotion, unknown_ends
from holdfast.replication.promotion import LogEnd
from holdfast.replication.state import NEVER, Role, State

LEDGER_ENTRIES_MAX = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """One member, as this node knows it. Lags are known to the leader only."""

    name: str
    address: str
    kind: str
    site: str
    node_id: str
    connected: bool
    last_seen_seconds: float | None
    """How long ago it was there for the last time; 0 while it is, None if not in this process."""

    metadata: dict[str, str]
    space_low: bool = False
    disk_hangs: bool = False
    match_index: int | None = None
    lag_entries: int | None = None
    lag_records: int | None = None
    lag_bytes: int | None = None
    lag_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationStatus:
    """The group from this node's point of view."""

    name: str
    node_id: str
    cluster_id: str
    generation: int
    role: str
    term: int
    leader: str | None
    leader_contact_seconds: float | None
    commit_index: int
    last_index: int
    stored_index: int
    config_index: int
    uncommitted_bytes: int
    damaged: tuple[int, ...]
    incomplete: str
    """What a log that was begun anew lacks, in a sentence; empty if it is full."""

    unknown_end: str
    """Why the only voter does not lead or serve, where that is damage in its log or its end."""

    log_end: LogEnd
    """How far the log goes, as it is compared before several nodes go on by force."""

    awaited: tuple[str, ...]
    """Who is taken along by a promotion here and has not followed yet: it waits for them."""

    is_cut_short: bool
    """Whether a promotion by force began here, or took this node along, and was not ended."""

    repaired_count: int
    fenced_reason: str
    disk_wait_seconds: float
    """How long the own disk has got nothing done; 0 while it does or has nothing to do."""

    disk_hangs: bool
    members: tuple[MemberView, ...]


class LagLedger:
    """When the leader appended what; one line per entry, the oldest forgotten first."""

    __slots__ = ("_bytes", "_indexes", "_records", "_times", "bytes_total")

    def __init__(self) -> None:
        self.bytes_total = 0
        # Numbers as in C: as objects the full ledger would take 20 MB, so it takes 4.
        self._indexes = array("Q")
        self._times = array("d")
        self._bytes = array("Q")
        self._records = array("Q")

    def clear(self) -> None:
        """Forget everything: another leader's entries follow."""
        self.bytes_total = 0
        for column in (self._indexes, self._times, self._bytes, self._records):
            del column[:]

    def note(self, index: int, now: float, size: int, first_record: int) -> None:
        """An entry of `size` bytes was appended at `now`; its records start at `first_record`."""
        self._indexes.append(index)
        self._times.append(now)
        self._bytes.append(self.bytes_total)
        self._records.append(first_record)
        self.bytes_total += size
        if len(self._indexes) > 2 * LEDGER_ENTRIES_MAX:
            for column in (self._indexes, self._times, self._bytes, self._records):
                del column[:LEDGER_ENTRIES_MAX]

    def is_over(self, index: int, last_index: int, bytes_max: int) -> bool:
        """Whether the entries after `index` are of more bytes, or more than can be told."""
        if last_index - index >= LEDGER_ENTRIES_MAX:
            return True
        place = bisect_right(self._indexes, index)
        return place < len(self._indexes) and self.bytes_total - self._bytes[place] > bytes_max

    @property
    def newest_at(self) -> float:
        """When the newest entry was appended; 0 if none is known."""
        return self._times[-1] if self._times else 0.0

    def lag(
        self, match_index: int, now: float, next_record: int
    ) -> tuple[float | None, int | None, int | None]:
        """(seconds, records, bytes) that a peer with this match lacks; None where unknown."""
        place = bisect_right(self._indexes, match_index)
        if place == len(self._indexes):
            return 0.0, 0, 0
        if self._indexes[place] != match_index + 1:
            return None, None, None
        return (
            now - self._times[place],
            next_record - self._records[place],
            self.bytes_total - self._bytes[place],
        )


def far_lag(
    state: State, ledger: LagLedger, match_index: int
) -> tuple[float | None, int | None, int | None]:
    """
    (seconds, records, bytes) that a peer lacks, by the log itself, over any distance.

    Told by the timestamps of entries; of a peer whose place is gone, from the first kept entry on.
    None where that entry is damaged.
    """
    journal = state.log.journal
    first = max(match_index + 1, journal.first_index)
    try:
        entry = journal.entry(first)
        start = journal.place_of(first).byte
    except StoreError:
        return None, None, None
    size = journal.table.bytes_from(first) - start
    since_last = state.now - (ledger.newest_at or state.leader_since)
    seconds = (journal.last_timestamp - entry.timestamp) / 1e6 + since_last
    return max(seconds, 0.0), journal.next_record_number - entry.first_record, size


def role_name(state: State) -> str:
    """The role in an operator's words."""
    if state.is_witness:
        return "witness"
    own = state.own
    if own is not None and own.kind == "learner":
        return "learner"
    if state.role is Role.LEADER:
        return "leader"
    return "follower" if state.role is Role.FOLLOWER and state.leader else "candidate"


def whole_status(
    state: State, ledger: LagLedger, *, repaired_count: int, disk_wait_seconds: float
) -> ReplicationStatus:
    """The group from this node's point of view; no disk is read."""
    journal = state.log.journal
    return ReplicationStatus(
        name=state.name,
        node_id=state.node_id,
        cluster_id=state.cluster_id,
        generation=state.generation,
        role=role_name(state),
        term=state.term,
        leader=state.leader,
        leader_contact_seconds=contact_seconds(state),
        commit_index=state.commit_index,
        last_index=journal.last_index,
        stored_index=journal.stored_index,
        config_index=state.config_index,
        uncommitted_bytes=state.uncommitted_bytes,
        damaged=tuple(state.log.damaged),
        incomplete=promotion.incompleteness(journal),
        unknown_end=unknown_ends.what_is_awaited(state),
        log_end=promotion.log_end(state),
        awaited=tuple(state.awaited),
        is_cut_short=promotion.is_cut_short(state),
        repaired_count=repaired_count,
        fenced_reason=state.fenced_reason,
        disk_wait_seconds=disk_wait_seconds,
        disk_hangs=state.is_disk_hanging,
        members=view_members(state, ledger),
    )


def view_members(
    state: State, ledger: LagLedger, *, is_log_read: bool = True
) -> tuple[MemberView, ...]:
    """
    All members with what is known of them here.

    The lag of who is far behind stands in the log; where that is not to be read, it is None.
    """
    return tuple(_view(state, ledger, name, is_log_read=is_log_read) for name in state.members)


def _view(state: State, ledger: LagLedger, name: str, *, is_log_read: bool) -> MemberView:
    member = state.members[name]
    hello = state.connected.get(name)
    is_self = name == state.name
    match: int | None = None
    seconds: float | None = None
    records = size = None
    journal = state.log.journal
    if state.role is Role.LEADER and (is_self or name in state.progress):
        match = journal.stored_index if is_self else state.progress[name].match_index
        seconds, records, size = ledger.lag(match, state.now, journal.next_record_number)
        if match == journal.last_index:
            seconds, records, size = 0.0, 0, 0
        elif not seconds and is_log_read:
            seconds, records, size = far_lag(state, ledger, match)
    return MemberView(
        name=name,
        address=member.address,
        kind=member.kind,
        site=member.site,
        node_id=member.node_id,
        connected=is_self or hello is not None,
        last_seen_seconds=_last_seen_seconds(state, name),
        metadata=dict(hello.metadata) if hello else {},
        space_low=hello is not None and hello.space_low,
        disk_hangs=state.is_disk_hanging if is_self else hello is not None and hello.disk_hangs,
        match_index=match,
        lag_entries=None if match is None else journal.last_index - match,
        lag_records=records,
        lag_bytes=size,
        lag_seconds=seconds,
    )


def _last_seen_seconds(state: State, name: str) -> float | None:
    if name == state.name or name in state.connected:
        return 0.0
    seen_at = state.last_seen.get(name)
    return None if seen_at is None else max(state.now - seen_at, 0.0)


def contact_seconds(state: State) -> float | None:
    """How long ago any leader was heard; 0 on the leader, None if never since the start."""
    if state.role is Role.LEADER:
        return 0.0
    return None if state.heard_at == NEVER else max(state.now - state.heard_at, 0.0)
