"""
Limits and defaults of the broker, each with its unit.

Everything that can grow has a maximum here; what happens at the maximum is said beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from holdfast.errors import AccessError, ConfigError
from holdfast.model.allowed import NO_SETTING, Allowed
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.limits import QUEUE_NAME_BYTES_MAX, KiB, MiB
from holdfast.security.names import NAME_BYTES_MAX, require_name


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Limits of one broker."""

    memory_bytes: Annotated[int, Allowed(16 * MiB)] = 256 * MiB
    """Message contents kept in memory. Beyond it persistent bodies are read from the log again, and
    producers of non-persistent messages wait: these may take so much beside the others."""

    message_memory_overhead_bytes: Annotated[int, Allowed(0)] = 400
    """What one message in memory costs beside its content; counted against `memory_bytes`."""

    prefetch_default: Annotated[int, Allowed(1, 65_535)] = 1000
    """Most deliveries unacknowledged at once per subscription, unless it says otherwise."""

    prefetch_max: Annotated[int, Allowed(1, 65_535)] = 65_535
    """A subscription that asks for more, or for no limit, gets this."""

    dispatch_mark_step_min: int = 4096
    """How far the dispatch mark runs ahead; messages below it are flagged after a failover."""

    dispatch_mark_step_max: int = 65_536
    """The step doubles up to this while a backlog is drained."""

    transaction_bytes_max: Annotated[int, Allowed(1, 60 * MiB)] = 60 * MiB
    """Content of one transaction; it must fit one log entry. More is refused."""

    transactions_bytes_max: int = 128 * MiB
    """What all open transactions hold, counted as messages in memory are; an empty one counts as
    two messages. More is refused, and so is one more transaction; where there are users, what has
    one of them hold more than three times what is left."""

    transaction_operation_count_max: int = 100_000
    """Sends and acknowledgements in one transaction. More is refused."""

    transaction_destination_count_max: int = 5_000
    """Queues and topics that one transaction sends to, and subscriptions and queues from which it
    acknowledges: COMMIT sees each of them at once. More is refused."""

    batch_bytes_max: int = 4 * MiB
    """A batch over this is sealed at once, even while an earlier one is being written, and takes
    nothing more. One message or transaction that is larger makes a batch alone."""

    topic_pending_bytes_max: int = 4 * MiB
    """What waits for one slow topic subscriber; beyond it the topic's producers wait."""

    spread_bytes_max: int = 64 * MiB
    """Messages on their way to many subscribers, or from a COMMIT to any; beyond it the producers
    of topics wait, and a COMMIT with messages for topics is refused."""

    recovery_bytes_max: int = 64 * MiB
    """What all topics together keep for subscribers that come later, where policies say so; beyond
    it the oldest goes of the topic to which nothing came for longest."""

    send_wait_seconds_max: float = 30.0
    """A SEND without room, in memory or on a blocked topic, waits so long; then it is refused,
    and so is each after it to where it was full until there is room there."""

    send_fail_if_no_space: bool = True
    """What is to be stored is refused at once while there is no room on the disk; else it waits as
    long as what finds no room in memory does, and is refused then."""

    waiting_bytes_max: int = 64 * KiB
    """What waits so of one connection; beyond it the connection is not read for now."""

    waiting_total_bytes_max: int = 64 * MiB
    """What waits so of all connections; beyond it a SEND without room is refused at once, and where
    there are users one that has its user have more than three times what is left."""

    producer_idle_seconds: float = 7 * 24 * 3600.0
    """A producer's last sequence is forgotten after so long without a message, by log time."""

    producer_count_max: int = 200_000
    """Producers whose last sequence is kept. Beyond it those are forgotten that have not sent for
    the longest, by log time, of the user who has the most; one that comes back is refused with the
    code `producer-forgotten`."""

    queue_count_max: int = 100_000
    """Queues of the broker. A client that names one more is refused."""

    topic_count_max: int = 100_000
    """Topics that somebody uses. At the limit those without subscribers are forgotten first."""

    temporary_count_max: int = 10_000
    """Temporary queues, and temporary topics, of all connections. One more is refused, and where
    there are users one that has its user have more than three times what is left."""

    temporary_orphan_seconds: float = 60.0
    """So long those of a client that can be known again wait for it when its connection is lost,
    and a new leader takes what is sent to one that it does not know yet."""

    subscription_count_max: int = 10_000
    """Subscriptions of one connection. One more is refused."""

    subscriptions_count_max: int = 200_000
    """Subscriptions of all connections. One more is refused."""

    subscriptions_bytes_max: int = 192 * MiB
    """What they take, with their names; one more is refused. Reached before their number only where
    names are long."""

    transaction_count_max: int = 1_000
    """Open transactions of one connection. One more is refused."""

    step_count_max: int = 64
    """Long work is done in steps of so many frames, deliveries or keys, well under a millisecond;
    between two steps the loop looks at the clock."""

    dead_letter_queue: Annotated[str, Allowed(1, QUEUE_NAME_BYTES_MAX)] = "ActiveMQ.DLQ"
    """Where rejected messages go."""

    schedule_time_zone: Annotated[str, Allowed(1, 64)] = "UTC"
    """By which the cron expressions of scheduled messages are meant that name no time zone."""

    anonymous_role: Annotated[str, Allowed(0, NAME_BYTES_MAX)] = ""
    """The role of clients that show nothing once there are users; empty: they are not let in then.
    With it ports that other machines reach are open before there is a user, to everybody."""

    policy_count_max: int = 1_000
    """Patterns of which a policy says something, in files and at run time. One more is refused."""
    user_count_max: Annotated[int, NO_SETTING] = 10_000
    grant_count_max: Annotated[int, NO_SETTING] = 10_000

    known_format_level: Annotated[int, NO_SETTING] = NEWEST_LEVEL
    """The level of the log's format that this node knows; a log beyond it is refused."""

    def __post_init__(self) -> None:
        if self.anonymous_role:
            try:
                require_name(self.anonymous_role, "role")
            except AccessError as error:
                raise ConfigError([f"anonymous_role: {error}"]) from error
