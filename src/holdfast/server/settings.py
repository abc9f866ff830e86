"""
Limits and timings of the conducting loop, each with its unit.

Everything that can pile up between a socket and the log has its maximum here, and beside it what
happens then: mostly somebody waits, and heart-beats go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from holdfast.model.allowed import Allowed
from holdfast.model.limits import (
    HOLD_EXPIRY_SECONDS_DEFAULT,
    HOLD_EXPIRY_SECONDS_MAX,
    HOLD_EXPIRY_SECONDS_MIN,
    KiB,
    MiB,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Limits and timings of one node's loop."""

    learner_hold_bytes_max: Annotated[int, Allowed(64 * MiB)] = 16 * 1024 * MiB
    """So much of the log is kept for a learner that is behind; beyond it, it must begin anew."""

    reader_hold_bytes_max: Annotated[int, Allowed(64 * MiB)] = 64 * 1024 * MiB
    """So much of the log is kept for a named reader at most, whatever it asks for."""

    hold_count_max: int = 1_000
    """Named readers that the log is kept for; a further one is refused."""

    hold_expiry_seconds: Annotated[
        int, Allowed(HOLD_EXPIRY_SECONDS_MIN, HOLD_EXPIRY_SECONDS_MAX)
    ] = HOLD_EXPIRY_SECONDS_DEFAULT
    """A hold that does not say how old it may become ends after so long without its reader."""

    hold_look_seconds: float = 5.0
    """How often the leader looks for readers that are gone."""

    learner_look_seconds: float = 5.0
    """How often the leader looks where the learners are."""

    tick_seconds: Annotated[float, Allowed(0.001, 1)] = 0.01
    """The loop turns at least so often, a quiet node's every 0.08 s and when something is due; also
    how long acknowledgements alone may wait for company, a quarter of a heartbeat there."""

    slice_seconds: Annotated[float, Allowed(0.0005, 1)] = 0.003
    """How long one turn goes on with each kind of work: reading frames, applying entries,
    delivering, writing to sockets, errands. What is left is done in the next turn, after the
    sockets and the other members had theirs."""

    read_bytes_max: int = 64 * KiB
    """What one connection brought is parsed in pieces of so many bytes."""

    incoming_bytes_max: int = 256 * KiB
    """What one connection brought and was not served yet; beyond it the connection is not read
    until all of that is served. Whoever sends faster than it is served is slowed down by this. So
    much is read at once, too: what is beyond it is that at most."""

    incoming_total_bytes_max: int = 32 * MiB
    """The same for all connections, who have equal shares of it, of 4 KiB at least: where they are
    more than 128, each may bring less, and is read in smaller pieces."""

    batch_records_max: int = 4096
    """A batch with more records is sealed at once, even while an earlier one is being written, so
    that every node applies an entry in few slices."""

    batch_settled_count_max: int = 65_536
    """The same for messages that were acknowledged, one by one or many at once."""

    seal_records_max: int = 5000
    """So many records are encoded at once, in about a millisecond; more in steps, over turns."""

    seal_bytes_max: int = MiB
    """So many bytes are joined and hashed at once, in one to two milliseconds; more in steps."""

    pause_seconds: float = 0.5
    """A turn this late means that the process was paused and may know nothing any more."""

    batches_in_flight_max: int = 64
    """Entries proposed and not yet committed. Beyond it the next batch gathers."""

    uncommitted_bytes_max: int = 64 * MiB
    """Content received and not yet committed, over all connections; beyond it producers wait."""

    connection_uncommitted_bytes_max: int = 8 * MiB
    """The same for one connection."""

    received_bytes_max: int = 128 * MiB
    """What all connections sent since the last commit while there is something to be committed:
    receipts, too, wait for it. Beyond it whoever sends more is not read before the next one."""

    output_bytes_max: int = 512 * KiB
    """Deliveries handed to one connection ahead of its socket."""

    output_high_bytes: int = 256 * KiB
    """Above this much unsent, a connection gets no deliveries until its socket has taken most."""

    unsent_bytes_max: int = 2 * MiB
    """Answers and deliveries that wait for one connection's socket; beyond it the connection is
    not read: it would ask for more answers that it does not take."""

    connection_backlog_bytes_max: int = 32 * MiB
    """What waits for one connection on all the topics it subscribes to; beyond it the connection is
    closed with the code `slow-consumer`."""

    backlog_bytes_max: int = 192 * MiB
    """The same for all connections; beyond it the one with the most is closed."""

    backlog_look_bytes: int = MiB
    """So much more must wait before it is looked at again; it may be passed by that."""

    unfinished_bytes_max: int = 128 * MiB
    """What all clients' frames take that have not come whole; beyond it the connection with the
    largest is closed with the code `too-much-unfinished`, where there are users the largest of the
    user whose frames take the most."""

    unfinished_seconds_max: Annotated[float, Allowed(1, 86_400)] = 60.0
    """In this time 1 KiB of a frame that is begun has to come, or its end; else its connection is
    closed with the code `unfinished-too-long`."""

    held_bytes_max: int = 192 * MiB
    """What clients make the node hold in all: frames that have not come whole, open transactions,
    what waits for subscribers of topics, and what they do not read. From half of it on nobody is
    read who has `output_high_bytes` to take; beyond it the connection that holds the most is closed
    with the code `too-much-held`."""

    connection_count_max: Annotated[int, Allowed(16, 1_000_000)] = 10_000
    """Beyond it the oldest client that has not said who it is goes, or the new one."""

    plain_without_tls: bool = False
    """Whether passwords and tokens are taken in clear from other machines, too: whoever is on the
    way can read them."""

    scram: bool = False
    """Whether a new password is kept for SCRAM-SHA-256, too, and may be shown by it; it is offered
    once each user with a password has it kept so."""

    heart_beat_tick_seconds: float = 0.075
    """How often the deadlines of client connections are looked at, where the node looks at the
    clock at all: at rest it does so every 80 ms."""

    damaged_retry_seconds: float = 5.0
    """How often a message whose bytes are damaged is tried again: a peer may have repaired it."""

    operator_wait_seconds: float = 10.0
    """How long an operator's change waits to be committed before it is said that it is not."""

    drain_seconds: float = 5.0
    """How long a node that stops waits for what is under way and for a successor."""

    close_seconds_max: float = 10.0
    """How long a node that stops waits for its disk, before it ends as if it had crashed."""

    clean_bytes_per_second: int = 32 * MiB
    """Live content that the cleaner writes again per second, at most."""

    clean_look_seconds: float = 1.0
    """How long the cleaner rests when nothing needs cleaning and no segment comes or goes."""

    damage_look_seconds: float = 60.0
    """How often the cleaner looks whether messages still live in a damaged entry in its way."""

    clean_segment_count_min: int = 3
    """Sealed segments that are always kept."""

    clean_dead_ratio: Annotated[float, Allowed(0.05, 0.95)] = 0.5
    """The cleaner works while more than this share of the log is dead."""
