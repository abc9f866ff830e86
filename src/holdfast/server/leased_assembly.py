"""
The parts of a broker whose log is on a medium that several share: driver, worker, connections.

What else a node has is put together in `assembly`, as for any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from holdfast.admin.forwarding import LIFE
from holdfast.config.node import NodeConfig
from holdfast.environment.clock import Clock, boottime
from holdfast.environment.disk import RealDisk
from holdfast.environment.randomness import SystemRandomness
from holdfast.journal.journal import Journal
from holdfast.journal.writer import JournalWriter
from holdfast.leases.contract import Claimant
from holdfast.leases.elector_thread import ElectorAsking
from holdfast.leases.namesakes import Namesakes
from holdfast.leases.seen import SeenFile
from holdfast.leases.worker import LogWorker
from holdfast.replication.format_levels import KNOWN
from holdfast.server.lease_runner import LeaseRunner
from holdfast.server.leased_group import LeasedGroup
from holdfast.server.media import make_elector, make_medium
from holdfast.store.contract import WriteReport


class LogParts(NamedTuple):
    """What a driver is made over."""

    journal: Journal
    writer: JournalWriter
    applied_index: int
    """What the newest checkpoint covers."""

    metadata: dict[str, str]
    """What this node tells the others of itself."""


def only_failures(on_stored: Callable[[WriteReport], None]) -> Callable[[WriteReport], None]:
    """Tell of a cache's writes only what fails: nobody waits for the others."""

    def tell(result: WriteReport) -> None:
        if result.failure is not None:
            on_stored(result)

    return tell


def leased(
    config: NodeConfig,
    clock: Clock,
    on_stored: Callable[[WriteReport], None],
    log_parts: LogParts,
) -> tuple[LeaseRunner, LeasedGroup]:
    """
    Let the log be the one that the configured medium keeps; nothing is reached yet.

    Raises:
        ConfigError: The packages for this kind of store, or of elector, are not installed.
    """
    seen = SeenFile(config.data, RealDisk())
    medium = make_medium(config, seen)
    randomness = SystemRandomness()
    claimant = Claimant(
        holder=log_parts.metadata[LIFE],
        name=config.name,
        admin=config.advertised_admin,
        stomp=config.advertised_stomp,
    )
    namesakes = Namesakes(
        config.data,
        RealDisk(),
        boottime,
        name=config.name,
        holder=claimant.holder,
        tell_seconds=config.sections.lease.tell_seconds,
    )
    worker = LogWorker(medium, seen, boottime, name=config.name, namesakes=namesakes)
    elector, asking = make_elector(config), None
    if elector is not None:
        session_seconds = config.sections.lease.elector_session_seconds
        asking = ElectorAsking(elector, claimant.holder, boottime, session_seconds)
    runner = LeaseRunner(worker, on_stored, asking)
    group = LeasedGroup(
        monotonic=clock.monotonic,
        settings=config.sections.lease,
        claimant=claimant,
        log=medium,
        journal=log_parts.journal,
        writer=log_parts.writer,
        worker=runner,
        clock=boottime,
        randomness=randomness,
        known_level=int(log_parts.metadata[KNOWN]),
        applied_index=log_parts.applied_index,
        elector=elector,
    )
    return runner, group
