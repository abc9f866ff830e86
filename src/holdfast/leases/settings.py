"""
How long a holder is waited for, and how often those that wait look.

What is 0 is worked out from the lease, which itself is the medium's own unless it is set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from holdfast.leases.projection import MessagesShown
from holdfast.model.allowed import Allowed
from holdfast.model.limits import MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSettings:
    """Timings and limits of a broker whose log is kept on a medium that several reach."""

    lease_seconds: Annotated[float, Allowed(0, 600)] = 0.0
    """A holder that gave no sign of life for so long may be replaced, and serves nobody any more.
    Each holder writes its own length down, and those that wait go by that. 0 stands for what suits
    the medium: 5 s in a database, 15 s on Galera, 10 s in a shared directory, 30 s on NFS."""

    margin_fraction: Annotated[float, Allowed(0.1, 0.5)] = 0.1
    """The share of the lease by which the holder ends before it; those that wait begin half of that
    after it. Two clocks may differ in their rates by so much, and by half of it again."""

    look_seconds: Annotated[float, Allowed(0.02, 60)] = 0.25
    """How often a broker that waits looks at the lease and reads what is new in the log."""

    call_seconds_max: Annotated[float, Allowed(0.1, 600)] = 5.0
    """How long one call to the medium may take; less where less of the lease is left."""

    retry_seconds_min: float = 0.05
    """After a call whose outcome is not known the same is asked again so soon, and ever later."""

    retry_seconds_max: float = 1.0
    """The longest pause before it is asked again."""

    tell_seconds: float = 2.0
    """How often a broker tells the others of itself, and asks who they are."""

    allow_unsafe_database: bool = False
    """Use a database with settings that may lose what it said was stored, and tell so in the status
    instead of refusing it."""

    sql_messages: MessagesShown = "off"
    """Whether the database shows each message that waits in a table for people, too: `off`,
    `headers`, or `full` with the bodies. Only with `store`; of several each shows it."""

    elector_session_seconds: Annotated[float, Allowed(1, 120)] = 3.0
    """An elector takes a broker that was not heard of for so long out of the line; ZooKeeper and
    etcd may make it longer. Only with `elector`."""

    elector_patience_seconds: Annotated[float, Allowed(0, 3600)] = 0.0
    """So much longer than the lease a broker waits that is not elected, or does not reach the
    elector, and then takes the lease all the same. 0 stands for two leases. Only with `elector`."""

    append_bytes_max: int = MiB
    """Entries that wait are stored together up to so many bytes; a longer one goes alone."""

    unread_bytes_max: int = 64 * MiB
    """What was read of the log and is not in the cache yet; beyond it nothing more is read."""
