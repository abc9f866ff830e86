"""
Timings and limits of one replication group.

Every wait and every buffer of this package has its name, its unit and its reason here.

Invariants (checked when the settings are made, all mistakes reported together):
    An election takes at least five heartbeats of silence.
    The dispatch lease ends before the shortest election timeout does.
    Witnesses wait longer than data nodes before they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from holdfast.errors import ConfigError
from holdfast.model.allowed import Allowed
from holdfast.model.limits import MEMBERS_MAX

KiB = 1024
MiB = 1024 * KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    """Timings and limits of one replication group; the defaults suit one data centre."""

    heartbeat_seconds: Annotated[float, Allowed(0.005, 600)] = 0.1
    """How often a leader tells followers it is alive when it has nothing else to say."""

    election_seconds_min: Annotated[float, Allowed(0.005, 600)] = 1.0
    """A follower waits at least this long in silence before it stands. Keep ten heartbeats."""

    election_seconds_max: Annotated[float, Allowed(0.005, 600)] = 2.0
    """The longest wait; the width of the range keeps two from standing at once."""

    lease_fraction: Annotated[float, Allowed(0.1, 0.9)] = 0.75
    """The share of `election_seconds_min` for which a quorum's answer lets a leader dispatch."""

    stagger_seconds_max: float = 0.03
    """After the leader's link closed, a voter stands within this time; rarely two at once."""

    witness_stagger_seconds: float = 0.15
    """A witness stands this much later than data nodes would: it can only hand over."""

    retry_seconds_min: float = 0.04
    """After a lost or undecided quick election, wait at least this long before the next."""

    retry_seconds_max: float = 0.15
    """The longest such wait; also the width that parts two who stand at once."""

    transfer_seconds_max: float = 1.0
    """A hand-over that is not done by then is given up and the leader goes on."""

    disk_hang_elections: Annotated[float, Allowed(1, 1_000)] = 3.0
    """A disk that got nothing done for so many of the shortest election timeouts hangs: a leader
    then hands over, and nobody stands or votes."""

    backlog_bytes_max: int = 64 * MiB
    """What a leader takes that a quorum has and its own disk has not; beyond it the next batch
    waits for the disk, and one election timeout without progress is a hanging disk."""

    append_bytes_max: int = 1 * MiB
    """Entries in one append request; a single larger entry travels alone."""

    window_bytes: int = 8 * MiB
    """Entries sent to one peer and not answered. More only fills buffers."""

    window_requests: Annotated[int, Allowed(1, 65_536)] = 256
    """Append requests sent to one peer and not answered."""

    peer_bytes_per_second_min: int = 16 * MiB
    """What a peer surely takes in, verifies and stores per second: so much longer a leader waits
    for its answer to a large entry, which may keep it busy for longer than an election timeout."""

    catch_up_bytes_max: int = 4 * MiB
    """Sent to one lagging peer in one turn, so that live traffic keeps its share of the loop."""

    entry_overhead_bytes: Annotated[int, Allowed(0)] = 4 * KiB
    """What each entry counts beside its bytes in a request, a window and a turn's share: to read,
    check and store a small one takes as long as so many bytes of a large one."""

    promote_entries_max: int = 1_000
    """A learner that lacks more entries is not made a voter: commits would wait for it. Of an odd
    number of voters, nor one that has lately taken longer than the shortest election timeout to
    have what the leader had."""

    config_repeat_bytes: int = 64 * MiB
    """The members are written again after this much log, so that old segments may go."""

    start_seconds_min: float = 0.1
    """After a start or a formation, wait at least this long for a leader before standing."""

    start_seconds_max: float = 0.4
    """The longest such wait. Short, because a pre-vote harms nobody."""

    trim_seconds: float = 1.0
    """How often a witness looks whether it may drop old segments."""

    repair_seconds: float = 0.5
    """How long to wait for a peer's copy of a damaged entry before asking the next."""

    edition_repeat_seconds: float = 1.0
    """How often members tell each other all ballot editions again, should a message be lost."""

    copies: Annotated[int, Allowed(1, MEMBERS_MAX)] = 0
    """
    Nodes with data that must hold an entry before it is confirmed; never more than there are.

    A witness is none. 0: as many as the members allow, see `quorum.default_copies`.
    """

    sites: Annotated[int, Allowed(1, MEMBERS_MAX)] = 1
    """Distinct sites, a witness's among them, that must hold an entry before it is confirmed."""

    def __post_init__(self) -> None:
        problems = [
            sentence
            for is_wrong, sentence in (
                (
                    self.election_seconds_min < 5 * self.heartbeat_seconds,
                    "election_seconds_min must be five heartbeats or more",
                ),
                (
                    self.election_seconds_max <= self.election_seconds_min,
                    "election_seconds_max must be more than election_seconds_min",
                ),
                (
                    not 0 < self.lease_fraction < 1,
                    "lease_fraction must lie between 0 and 1",
                ),
                (self.disk_hang_elections < 1, "disk_hang_elections must be 1 or more"),
                (self.backlog_bytes_max < 1, "backlog_bytes_max must be 1 or more"),
                (self.copies < 0, "copies must be 0 or more"),
                (self.sites < 1, "sites must be 1 or more"),
                (self.append_bytes_max < 1, "append_bytes_max must be 1 or more"),
                (
                    self.window_bytes < self.append_bytes_max,
                    "window_bytes must be append_bytes_max or more",
                ),
                (self.window_requests < 1, "window_requests must be 1 or more"),
                (
                    self.peer_bytes_per_second_min < 1,
                    "peer_bytes_per_second_min must be 1 or more",
                ),
                (
                    self.witness_stagger_seconds < self.stagger_seconds_max,
                    "witness_stagger_seconds must be stagger_seconds_max or more",
                ),
                (
                    self.retry_seconds_max <= self.retry_seconds_min,
                    "retry_seconds_max must be more than retry_seconds_min",
                ),
                (
                    self.start_seconds_max <= self.start_seconds_min,
                    "start_seconds_max must be more than start_seconds_min",
                ),
            )
            if is_wrong
        ]
        if problems:
            raise ConfigError(problems)

    @property
    def lease_seconds(self) -> float:
        """How long after a quorum's answer was asked for the leader may still dispatch."""
        return self.lease_fraction * self.election_seconds_min

    @property
    def look_seconds(self) -> float:
        """How often a leader looks whether a quorum answers: late by so little does no harm."""
        return self.heartbeat_seconds / 4

    @property
    def disk_hang_seconds(self) -> float:
        """How long a disk may get nothing done before it counts as hanging."""
        return self.disk_hang_elections * self.election_seconds_min


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """Timings and limits of the links between members."""

    dial_seconds_min: float = 0.05
    """The first pause after a failed dial; doubled each time."""

    dial_seconds_max: float = 1.0
    """The longest pause between dials."""

    yield_seconds: float = 0.3
    """How long the later name leaves dialing to the earlier one, so that one link is made."""

    handshake_seconds: float = 5.0
    """A link that has not proven itself by then is closed."""

    handshake_bytes_max: int = 64 * KiB
    """The longest frame before the other side has proven that it knows the secret."""

    strangers_max: int = 64
    """Connections from sources that are no member's and that have not yet proven themselves; when
    there are more, the oldest gives way."""

    strangers_per_source_max: int = 16
    """The same from one source; members' sources have this number apart from `strangers_max`."""

    stranger_log_seconds: float = 60.0
    """Of one source of failing strangers there is one line in the log in this time."""

    refusal_log_seconds_min: float = 60.0
    """Why a member gets no link, or gives us none, is logged at once, and again after this time;
    then after twice as long, and so on."""

    refusal_log_seconds_max: float = 3600.0
    """The longest such time."""

    doubt_seconds: float = 1.0
    """Another secret is told of after this time, in which it may turn out who has the wrong one."""

    read_bytes_max: int = 2 * MiB
    """Of one link so much is taken in at once; then everybody else has a turn."""

    ping_seconds: float = 1.0
    """How often an idle link says that it lives."""

    silence_seconds: float = 6.0
    """A link on which nothing came for so long, or whose other side took nothing of what waits to
    be sent, is given up. Elections do not wait for it."""

    watch_seconds: float = 0.1
    """How often that is looked at. Keep it far below the election timeouts: while a large entry
    crosses a slow link, nothing else tells both ends that the other one lives."""
