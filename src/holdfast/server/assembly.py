"""
A node put together from its configuration: here it is chosen what its parts are.

The log is that of a replicated group (`_replicated`) or shared under a lease (`leased_assembly`);
another protocol is another connection for the listener. Nothing is decided here that is not in the
configuration, and nothing runs yet.

Invariants:
    A node whose log is its own is a member of a replicated group; a single one of a group of one.
    Damage that no peer can repair is not served: a single node does not start with it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from holdfast import __version__
from holdfast.admin.forwarding import LIFE, LIFE_LENGTH
from holdfast.authorities.opening import open_authorities
from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.config.format_level import format_level_max
from holdfast.config.node import NodeConfig
from holdfast.config.tls import PEERS_TABLE
from holdfast.environment.bounded_disk import BoundedDisk
from holdfast.environment.clock import SystemClock
from holdfast.environment.descriptors import RESERVE, raise_limit
from holdfast.environment.disk import Disk, RealDisk
from holdfast.environment.randomness import SystemRandomness
from holdfast.environment.standing_disk import StandingDisk
from holdfast.environment.unsynced_disk import UnsyncedDisk
from holdfast.errors import CorruptEntryError, FencedError, ForeignDirectoryError
from holdfast.journal.checkpoint import CheckpointStore
from holdfast.journal.journal import Journal
from holdfast.journal.writer import JournalWriter
from holdfast.leases.cache import boot_id, is_cache, open_cache
from holdfast.mirrors.caretaker import Caretaker
from holdfast.mirrors.disk import MirroredDisk
from holdfast.replication.driver import Driver
from holdfast.replication.format_levels import KNOWN
from holdfast.replication.membership import Member, Membership
from holdfast.replication.peer_links import PeerLinks
from holdfast.replication.peer_tls import PeerTls
from holdfast.server.access import NodeAccess
from holdfast.server.address_key import AddressKey
from holdfast.server.connection import ClientConnection
from holdfast.server.descriptors import CLIENT_BACKLOG, SET_ASIDE, Shares, share_out
from holdfast.server.first_look import require_answer
from holdfast.server.fleeting import fleeting_places
from holdfast.server.leased_assembly import LogParts, leased, only_failures
from holdfast.server.listener import ClientPort, Listener
from holdfast.server.log_end_users import LogEndUsers
from holdfast.server.loop import Conductor
from holdfast.server.media import is_leased
from holdfast.server.mirrors import open_mirrors
from holdfast.server.parts import Parts
from holdfast.server.peer_port import peer_tls
from holdfast.server.pepper import Pepper
from holdfast.server.protocols import served
from holdfast.server.refusal_log import RefusalLog
from holdfast.server.restoring import restore
from holdfast.sessions.context import SessionContext
from holdfast.store.contract import WriteReport
from holdfast.store.replicated_store import ReplicatedStore
from holdfast.transport.handshakes import Handshakes
from holdfast.transport.tls import ServerTls

log = structlog.get_logger("holdfast.server")


class Hearer(Protocol):
    """Who is told of what happens in the parts."""

    def stored(self, result: WriteReport) -> None:
        """Something is durable, or failed for good; called on the writer's thread."""
        ...

    def role_changed(self) -> None:
        """It began or ceased to serve."""
        ...

    def damaged(self, error: CorruptEntryError) -> None:
        """An entry that is needed cannot be read."""
        ...

    def fenced(self, error: FencedError) -> None:
        """The cluster goes on without this node."""
        ...

    def fail(self, error: Exception) -> None:
        """Nothing more may be claimed."""
        ...


def assemble(config: NodeConfig, hearer: Hearer) -> Parts:
    """
    Open the data directory, recover, and put the node together; nothing listens or runs yet.

    Raises:
        ConfigError: Too few files may be open, the environment names no level of the format, or a
            file for TLS, or the key of passwords, cannot be used any more.
        StoreError: The directory is locked, foreign or damaged beyond what can be served.
    """
    clock = SystemClock()
    settings = _broker_settings(config)
    started_at = clock.monotonic()
    shown = {name: ServerTls(it, dials=name == PEERS_TABLE) for name, it in config.tls.items()}
    shares = _share_descriptors(config)
    is_shared = is_leased(config)
    journal, caretaker = _open_log(config, shares)
    directories = _answering(config, caretaker)
    pepper = _pepper(config, directories)
    checkpoint_files = CheckpointStore(journal.directory, journal.disk)
    broker, applied_index = _make_broker(config, settings, journal, checkpoint_files)
    writer = JournalWriter(journal, only_failures(hearer.stored) if is_shared else hearer.stored)
    metadata = _metadata(config, broker)
    log_parts = LogParts(journal, writer, applied_index, metadata)
    links, driver = (
        leased(config, clock, hearer.stored, log_parts)
        if is_shared
        else _replicated(config, shares, hearer, log_parts, peer_tls(config, shares, shown))
    )
    store = ReplicatedStore(driver, journal)
    context = _make_context(config, clock)
    conductor = _make_conductor(config, shares, hearer, clock, broker, store, context)
    log_end = LogEndUsers(journal, store, lambda: broker.state.access)
    vouching = open_authorities(config.authorities)
    access = NodeAccess(conductor, pepper, SystemRandomness(), vouching, log_end=log_end)
    context.check = access.logins.check
    addresses = AddressKey(config.secret, pepper, SystemRandomness())
    context.address_key = addresses.key
    return Parts(
        config=config,
        clock=clock,
        started_at=started_at,
        metadata=metadata,
        shares=shares,
        journal=journal,
        checkpoint_files=checkpoint_files,
        caretaker=caretaker,
        # That of a broker whose log is elsewhere is a cache: its medium tells of itself.
        fleeting=() if is_shared else fleeting_places(directories),
        writer=writer,
        links=links,
        driver=driver,
        store=store,
        broker=broker,
        context=context,
        address_key=addresses,
        conductor=conductor,
        access=access,
        listener=_make_listener(config, shares, conductor, hearer, shown, access),
        shown=shown,
    )


def _make_conductor(
    config: NodeConfig,
    shares: Shares,
    hearer: Hearer,
    clock: SystemClock,
    broker: Broker,
    store: ReplicatedStore,
    context: SessionContext,
) -> Conductor:
    return Conductor(
        broker=broker,
        store=store,
        context=context,
        clock=clock,
        settings=replace(config.sections.server, connection_count_max=shares.clients),
        protocols=served(config.sections.stomp),
        policies=config.policies,
        on_role_change=hearer.role_changed,
        on_damage=hearer.damaged,
        on_failure=hearer.fail,
    )


def _metadata(config: NodeConfig, broker: Broker) -> dict[str, str]:
    """What this node tells the others of itself."""
    return {
        "admin": config.advertised_admin,
        "stomp": config.advertised_stomp,
        LIFE: SystemRandomness().bytes(LIFE_LENGTH // 2).hex(),
        KNOWN: str(broker.settings.known_format_level),
    }


def _share_descriptors(config: NodeConfig) -> Shares:
    """Take as many descriptors as this process may have, and say so where they are few."""
    shares = share_out(raise_limit(), config)
    RESERVE.hold(SET_ASIDE)
    wanted = config.sections.server.connection_count_max
    if shares.clients < wanted:
        log.warning(
            "fewer client connections than configured: too few files may be open",
            clients=shares.clients,
            connections=wanted,
            open_files=shares.open_files,
            remedy=f"allow {shares.wanted:,} open files (ulimit -Hn, or LimitNOFILE= of its"
            f" service), or set connections to {shares.clients:,}",
        )
    return shares


def _open_log(config: NodeConfig, shares: Shares) -> tuple[Journal, Caretaker | None]:
    """Open the journal; of several directories with who looks after them."""
    disk = RealDisk()
    if not config.mirrors:
        require_answer(config.data, disk)
    _refuse_caches(config, disk)
    caretaker = None if is_leased(config) else open_mirrors(config, disk)
    if caretaker is None:
        # A cache is not waited for: what is read of the log meanwhile would fill the memory.
        used = disk if is_leased(config) else StandingDisk(disk, waits=True)
        return _open_journal(config, shares, used), None
    journal = _open_journal(config, shares, caretaker.disk)
    caretaker.start()
    return journal, caretaker


def _open_journal(config: NodeConfig, shares: Shares, disk: Disk) -> Journal:
    settings = replace(config.sections.journal, open_files_max=shares.read_files)
    if is_leased(config):
        return open_cache(config.data, UnsyncedDisk(disk), settings, boot_id())
    directory = disk.base if isinstance(disk, MirroredDisk) else config.data
    return Journal.open(directory, disk, settings, resolve_unknown_tail=not config.members)


def _answering(config: NodeConfig, caretaker: Caretaker | None) -> tuple[Path, ...]:
    """Give the node's directories but for those that failed, and may hang."""
    if caretaker is None:
        return (config.data,)
    return tuple(it.directory for it in caretaker.disk.keeper.targets)


def _pepper(config: NodeConfig, directories: Sequence[Path]) -> Pepper:
    is_shared = bool(config.members) or is_leased(config)
    return Pepper(config.secret, directories, is_shared=is_shared)


def _refuse_caches(config: NodeConfig, disk: Disk) -> None:
    """
    Make sure that no directory is that of a broker whose log is elsewhere.

    Raises:
        ForeignDirectoryError: One is.
    """
    for directory in () if is_leased(config) else (config.data, *config.mirrors):
        bounded = BoundedDisk(disk, directory)
        bounded.seconds = config.sections.mirrors.timeout_seconds
        try:
            is_foreign = is_cache(directory, bounded)
        except OSError:
            if not config.mirrors:
                raise
            continue  # Of several it is told of with the others.
        finally:
            bounded.end()
        if is_foreign:
            raise ForeignDirectoryError(
                f"{directory} belongs to a broker whose log is kept in a store that several share:"
                f" nothing was changed. Start it with the --store or --shared that it had, or give"
                f" another --data"
            )


def _broker_settings(config: NodeConfig) -> BrokerSettings:
    return replace(config.sections.broker, known_format_level=format_level_max(os.environ))


def _make_broker(
    config: NodeConfig, settings: BrokerSettings, journal: Journal, files: CheckpointStore
) -> tuple[Broker, int]:
    """Bring the broker to where the newest checkpoint was; gives which entry that was behind."""
    state, applied_index = restore(
        journal, files, settings, is_alone=not config.members and not is_leased(config)
    )
    broker = Broker(settings, state)
    broker.follow()
    return broker, applied_index


def _replicated(
    config: NodeConfig,
    shares: Shares,
    hearer: Hearer,
    log_parts: LogParts,
    tls: PeerTls | None,
) -> tuple[PeerLinks, Driver]:
    """Let the log be that of a group of members, though it be a group of one."""
    journal, writer, applied_index, metadata = log_parts
    randomness = SystemRandomness()
    links = PeerLinks(
        secret=config.secret,
        randomness=randomness,
        listen=str(config.peers) if config.peers is not None else "",
        settings=replace(
            config.sections.links,
            strangers_max=shares.strangers,
            strangers_per_source_max=shares.strangers_per_source,
        ),
        tls=tls,
    )
    driver = Driver(
        settings=config.sections.replication,
        name=config.name,
        journal=journal,
        ballot_file=journal.ballot_file,
        writer=writer,
        links=links,
        randomness=randomness,
        bootstrap=_bootstrap(config),
        applied_index=applied_index,
        metadata=metadata,
        on_fenced=hearer.fenced,
    )
    return links, driver


def _bootstrap(config: NodeConfig) -> Membership:
    return Membership(
        tuple(
            Member(member.name, str(member.address), member.kind, member.site)
            for member in config.members
        )
    )


def _make_context(config: NodeConfig, clock: SystemClock) -> SessionContext:
    context = SessionContext(
        node=config.name, version=__version__, default_persistent=config.default_persistent
    )
    context.refusals.tell = RefusalLog(clock)
    return context


def _make_listener(
    config: NodeConfig,
    shares: Shares,
    conductor: Conductor,
    hearer: Hearer,
    shown: Mapping[str, ServerTls],
    access: NodeAccess,
) -> Listener:
    clients = conductor.clients
    ports = [ClientPort(config.stomp, lambda: ClientConnection(clients))]
    for each in config.listen:
        spoken = tuple(it for it in clients.protocols if it.name.lower() in each.protocols)
        ports.append(
            ClientPort(
                each.address,
                partial(ClientConnection, clients, spoken),
                shown[each.tls] if each.tls else None,
            )
        )
    admission = clients.admission
    handshakes = Handshakes(
        config.sections.ports,
        count_max=shares.tls_strangers,
        lent=lambda: admission.count_max - len(admission),
    )
    clients.make_way = handshakes.shrink
    return Listener(
        ports,
        conductor.role,
        handshakes,
        backlog=CLIENT_BACKLOG,
        lets_others_in=lambda: access.lets_others_in,
        fail=hearer.fail,
    )
