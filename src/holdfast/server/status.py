"""
What a node tells its operator, put together from those who know it.

Reads memory only. The value types are the admin package's; here stands where each number is from.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Any, cast

from holdfast import __version__
from holdfast.admin.counters import (
    BatchCounters,
    ConsumerCounters,
    MemoryStatus,
    MessageCounters,
    ProducerStatus,
)
from holdfast.admin.forwarding import LIFE
from holdfast.admin.status import (
    ConnectionStatus,
    DamageStatus,
    MemberStatus,
    MirrorStatus,
    NodeStatus,
    QueueDepth,
    QueueStatus,
    StoreStatus,
)
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.router import NOBODYS_TURN, Router
from holdfast.journal.damage import Damage
from holdfast.journal.journal import Journal
from holdfast.replication.peer_links import PeerLinks
from holdfast.replication.status import MemberView, ReplicationStatus
from holdfast.server.certificate_watch import certificate_statuses
from holdfast.server.founding import awaited
from holdfast.server.lease_telling import lease_status
from holdfast.server.leased_group import LeasedGroup
from holdfast.server.log_access import hold_statuses
from holdfast.server.parts import Parts
from holdfast.server.several_databases import database_statuses
from holdfast.server.subscription_status import topic_counters
from holdfast.sessions.session import Session

_TOLD_MAX = 100
"""So many damaged places, pinned queues and the like are told of one by one."""

_COUNTED_AT_ONCE = 64
"""Consumers of a queue that are looked at in one step."""


def node_status(node: Parts) -> NodeStatus:
    """Who the node is and how far its log goes."""
    replication = node.driver.status()
    conductor = node.conductor
    return NodeStatus(
        name=replication.name,
        role=cast("Any", replication.role),
        node_id=replication.node_id,
        leader=replication.leader,
        leader_contact_seconds=replication.leader_contact_seconds,
        is_cut_short=replication.is_cut_short,
        serving=conductor.role.is_serving and node.listener.is_open,
        term=replication.term,
        commit_index=replication.commit_index,
        applied_index=node.store.applied_index,
        members=tuple(_member(node, view) for view in replication.members),
        awaits=awaited(node.driver.founders(), node.links.reasons),
        copies=node.driver.copies,
        sites=node.config.sections.replication.sites,
        site=node.config.site,
        store=_store(node, replication),
        lease=lease_status(node.driver) if isinstance(node.driver, LeasedGroup) else None,
        log_end=replication.log_end,
        cluster_id=replication.cluster_id,
        generation=replication.generation,
        turn_seconds_max=conductor.counters.turn_seconds_max,
        turn_cpu_seconds_max=conductor.counters.turn_cpu_seconds_max,
        uptime_seconds=node.clock.monotonic() - node.started_at,
        version=__version__,
        format_level=node.broker.state.format_level,
        format_level_asked=conductor.format_gate.asked,
        stomp=node.config.advertised_stomp,
        admin=node.config.advertised_admin,
        connections=len(conductor.connections),
        connections_max=conductor.clients.admission.count_max,
        connections_turned_away=conductor.clients.admission.turned_away,
        messages=_messages(node),
        consumers=ConsumerCounters(
            slow=node.broker.slowness.slow_count, aborted=node.broker.slowness.aborted_total
        ),
        topics=topic_counters(node.broker),
        queues_removed=node.broker.removing.removed_total,
        refusals=dict(node.context.refusals.by_code),
        batches=BatchCounters(
            batches=conductor.counters.batches,
            records=conductor.counters.records,
            bytes=node.writer.bytes_written,
            uncommitted_bytes=replication.uncommitted_bytes,
            serving_syncs=conductor.counters.serving_syncs,
            syncs=conductor.counters.sync_seconds.status(),
        ),
        memory=MemoryStatus(
            used_bytes=node.broker.flow.memory_bytes, limit_bytes=node.broker.settings.memory_bytes
        ),
        producers=_producers(node),
        certificates=certificate_statuses(node.shown.values(), node.clock.wall_microseconds()),
        holds=tuple(
            sorted(hold_statuses(node, node.broker.state.holds.values()), key=lambda it: it.name)
        ),
    )


def _member(node: Parts, view: MemberView) -> MemberStatus:
    metadata = dict(view.metadata)
    if view.name == node.config.name:
        metadata = node.metadata
    return MemberStatus(
        name=view.name,
        address=view.address,
        kind=cast("Any", view.kind),
        site=view.site,
        node_id=view.node_id,
        connected=view.connected,
        secured=isinstance(node.links, PeerLinks) and view.name in node.links.secured(),
        dead=not view.connected,
        last_seen_seconds=view.last_seen_seconds,
        space_low=view.space_low,
        disk_hangs=view.disk_hangs,
        match_index=view.match_index,
        lag_entries=view.lag_entries,
        lag_records=view.lag_records,
        lag_bytes=view.lag_bytes,
        lag_seconds=view.lag_seconds,
        admin=metadata.get("admin", ""),
        life=metadata.get(LIFE, ""),
        stomp=metadata.get("stomp", ""),
    )


def _store(node: Parts, replication: ReplicationStatus) -> StoreStatus:
    journal = node.journal
    places = _damaged_places(journal)
    now = node.clock.monotonic()
    pinned = node.conductor.cleaner.damage.needed
    unremovable = journal.housekeeper.unremovable.copy()
    node.conductor.look_for_room(now)  # Whoever reads "ok" may publish from then on.
    return StoreStatus(
        bytes_on_disk=journal.bytes_on_disk,
        segments=len(journal.table),
        live_messages=node.broker.state.live_count(),
        first_index=journal.first_index,
        last_index=journal.last_index,
        free_bytes=journal.disk.free_bytes(journal.directory),
        space="low" if node.store.is_full(now) else "ok",
        limit_bytes=journal.settings.log_bytes_max,
        is_full_of_live=node.conductor.cleaner.is_log_full,
        disk_wait_seconds=replication.disk_wait_seconds,
        disk_hangs=replication.disk_hangs,
        is_out_of_room=journal.is_out_of_room,
        incomplete=replication.incomplete,
        unknown_end=replication.unknown_end,
        damage=_told(places),
        damage_count=len(places),
        pinned_queues=tuple(sorted(islice(pinned, _TOLD_MAX))),
        pinned_queue_count=len(pinned),
        mirrors=mirror_statuses(node),
        mended=0 if node.caretaker is None else node.caretaker.disk.mended_total,
        warnings=node.fleeting,
        unremovable=tuple(sorted(map(str, islice(unremovable, _TOLD_MAX)))),
    )


def mirror_statuses(node: Parts) -> tuple[MirrorStatus, ...]:
    """Each directory of a node that has several, or each database that holds its log."""
    if isinstance(node.driver, LeasedGroup):
        return database_statuses(node.driver.facts())
    return tuple(
        MirrorStatus(
            directory=it.directory,
            state=it.state,
            reason=it.reason,
            bytes_filled=it.bytes_filled,
            bytes_to_fill=it.bytes_to_fill,
        )
        for it in (() if node.caretaker is None else node.caretaker.views())
    )


def damage_status(journal: Journal) -> tuple[DamageStatus, ...]:
    """Damaged places of the log as an operator is told of them; of very many not each."""
    return _told(_damaged_places(journal))


def _damaged_places(journal: Journal) -> list[Damage]:
    """
    Give all of them in the order of the log, last an end of which nobody can tell whether it is.

    Such an end counts when this node votes, and may be all that keeps everybody from leading: an
    operator who finds nobody leading must find its place here.
    """
    found = journal.damage
    start = journal.last_index + 1
    if journal.unknown_through and not any(it.index == start for it in found):
        tail = journal.recovered_tail
        reason = f"damaged or interrupted, it cannot be told which: {tail.reason}"
        segment = journal.table.last.path.name
        found.append(Damage(segment, tail.start, start, reason))
    return found


def _told(places: list[Damage]) -> tuple[DamageStatus, ...]:
    """Give the first of them and, however many they are, the last: a promotion speaks of that."""
    if len(places) > _TOLD_MAX:
        places = [*places[: _TOLD_MAX - 1], places[-1]]
    return tuple(
        DamageStatus(segment=it.segment, byte=it.byte, index=it.index, reason=it.reason)
        for it in places
    )


def _producers(node: Parts) -> ProducerStatus:
    producers = node.broker.state.producers
    return ProducerStatus(
        count=len(producers.by_id),
        count_max=node.broker.settings.producer_count_max,
        forgotten=producers.forgotten_count,
    )


def _messages(node: Parts) -> MessageCounters:
    state = node.broker.state
    counters = node.conductor.counters
    return MessageCounters(
        enqueued=state.enqueued_total + node.broker.publishing.published_total,
        delivered=counters.deliveries,
        acknowledged=state.acknowledged_total,
        redelivered=counters.redeliveries,
        receipts=node.context.receipt_count,
        refused=node.context.refusals.total,
        dead_lettered=node.broker.receipts.dead_lettered_total,
        expired=node.broker.expiring.expired_total,
        fired=node.broker.firing.fired_total,
        scheduled_refused=node.broker.firing.refused_total,
        evicted=node.broker.publishing.backlogs.evicted_total,
        advisories_missed=node.broker.advising.missed_total,
        dropped=node.broker.limiting.dropped_total + node.broker.lapsing.dropped_total,
        unmatched=node.broker.publishing.unmatched_total,
        duplicates=node.broker.sending.duplicates_total,
        answers_refused=node.broker.sending.answers_refused_total,
    )


def queue_statuses(node: Parts, names: Iterable[str]) -> Iterator[QueueStatus | None]:
    """The queues of these names that are there, each as it is when it is asked for."""
    policies = node.broker.policies
    for name in names:
        found = node.broker.destinations.find(name)
        if found is not None:
            is_paused = policies.pauses_anything and policies.is_paused(name)
            yield from queue_status(*found, is_paused=is_paused)


def queue_names(node: Parts) -> list[str]:
    """The names of all queues, temporary ones too, in no order."""
    return node.broker.destinations.queue_names()


def queue_depths(node: Parts) -> Iterator[QueueDepth | None]:
    """What is summed over all queues, each as it is when it is asked for."""
    destinations = node.broker.destinations
    for name in destinations.queue_names():
        found = destinations.find(name)
        if found is None:
            continue
        lasting, queue = found
        index = lasting.index
        if queue is None:
            yield QueueDepth(name, index.live_count, 0, 0, index.live_bytes)
            continue
        consumers = len(queue.subscriptions)
        yield QueueDepth(
            name,
            index.live_count + queue.transient_count,
            (yield from _unacknowledged(queue)) if consumers else 0,
            consumers,
            index.live_bytes + queue.transient_bytes,
        )


def _unacknowledged(queue: Queue) -> Generator[None, None, int]:
    """Count what is in delivery; very many consumers in steps."""
    subscriptions = queue.subscriptions
    if len(subscriptions) <= _COUNTED_AT_ONCE:
        return sum([len(each.unacknowledged) for each in subscriptions])
    count = 0
    left = iter(list(subscriptions))
    while some := list(islice(left, _COUNTED_AT_ONCE)):
        count += sum([len(each.unacknowledged) for each in some])
        yield
    return count


def queue_status(
    lasting: LastingQueue, queue: Queue | None, *, is_paused: bool = False
) -> Iterator[QueueStatus | None]:
    """What is known of one queue; consumers only on the leader. None is a step of a long look."""
    index = lasting.index
    sifting = None if queue is None else queue.sifting
    choice = None if queue is None else queue.choice
    turn = choice.turn if isinstance(choice, Router) else NOBODYS_TURN
    yield QueueStatus(
        name=lasting.name,
        number=lasting.number,
        messages=index.live_count + (queue.transient_count if queue else 0),
        unacknowledged=(yield from _unacknowledged(queue)) if queue else 0,
        consumers=len(queue.subscriptions) if queue else 0,
        bytes=index.live_bytes + (queue.transient_bytes if queue else 0),
        enqueued=lasting.enqueued_total,
        acknowledged=lasting.acknowledged_total,
        redelivered=queue.redelivered_total if queue else 0,
        dropped=queue.bounds.dropped_total if queue and queue.bounds else 0,
        selectors=0 if sifting is None else sifting.selector_count,
        parked=0 if sifting is None else sifting.parked_count,
        is_parked_full=sifting is not None and sifting.is_full,
        unlooked=0 if sifting is None else sifting.unlooked_count,
        sole_consumer=_name_of(turn.active),
        is_draining=turn.is_draining,
        is_gate_closed=turn.is_gate_closed,
        is_grouped=turn.is_grouped,
        is_paused=is_paused,
    )


def _name_of(consumer: Consumer | None) -> str:
    """Give by what an operator finds a consumer's connection."""
    session = None if consumer is None else consumer.receiver
    return (session.client_id or session.id) if isinstance(session, Session) else ""


def connection_statuses(node: Parts) -> Iterator[ConnectionStatus]:
    """The clients connected now, each as it is when it is asked for."""
    return (
        ConnectionStatus(
            id=connection.session.id,
            peer=_peer(connection.transport.get_extra_info("peername")),
            protocol=connection.session.protocol_name,
            connected_seconds=node.clock.monotonic() - connection.connected_at,
            subscriptions=len(connection.session.subscriptions),
            unacknowledged=sum(
                each.held_count for each in connection.session.subscriptions.values()
            ),
            paused=connection.is_paused,
        )
        for connection in list(node.conductor.connections)
    )


def _peer(address: Any) -> str:
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)
