"""
The conducting loop. One turn is a plain function; nothing in it waits.

A turn takes what every ready connection has brought, lets the broker handle it all, seals ONE
batch, hands it to the store, applies what is committed, and sends what has become sendable. While
a batch is being made durable the next one gathers: no timer, what arrived during the last sync is
the next batch (group commit). Acknowledgements that nobody waits for ride along, or go after one
tick.

The order rule: a reply leaves only after its batch is committed and applied. It stands in
`_apply_committed` and nowhere else.

Invariants:
    `pending` holds the batches proposed in this leadership, in log order, none twice; one is
    applied only when the entry of its index AND term is committed.
    A node that is not serving has no client connections.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.outputs import Batch, Replier
from holdfast.broker.queue import Queue, TransientMessage
from holdfast.broker.subscription import Subscription
from holdfast.broker.topic import Delivery
from holdfast.environment.clock import Clock
from holdfast.errors import (
    CorruptEntryError,
    HoldfastError,
    NotLeaderError,
    RecordNotFoundError,
)
from holdfast.journal.jobs import WriteResult
from holdfast.model.records import MessageRecord
from holdfast.protocols.stomp.heart_beat import HeartBeat
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.server.cleaning import Cleaner
from holdfast.server.connection import ClientConnection
from holdfast.server.containment import Containment
from holdfast.server.counters import Counters
from holdfast.server.settings import ServerSettings
from holdfast.server.slow_consumers import SLOW_CONSUMER, SlowConsumers
from holdfast.sessions.context import SessionContext
from holdfast.sessions.stomp import StompSession
from holdfast.store.replicated_store import ReplicatedStore
from holdfast.transport.admission import Admission

log = structlog.get_logger("holdfast.server")

HEART_BEAT = b"\n"
QUORUM_LOST = (
    "too few members of the cluster answer: nothing is confirmed until they return"
    " or an operator promotes this node"
)
_DAMAGED_PAUSE_SECONDS = 0.5
_WAITING_PER_TURN = 256
"""Clients whose SENDs wait for room that are asked in one turn."""


class Conductor:
    """One node's loop: connections, sessions, broker and store."""

    def __init__(
        self,
        *,
        broker: Broker,
        store: ReplicatedStore,
        context: SessionContext,
        clock: Clock,
        settings: ServerSettings,
        stomp_settings: StompSettings,
        on_role_change: Callable[[], None],
        on_damage: Callable[[CorruptEntryError], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.broker = broker
        self.store = store
        self.context = context
        self.clock = clock
        self.settings = settings
        self.stomp_settings = stomp_settings
        self.on_role_change = on_role_change
        self.on_damage = on_damage
        self.on_failure = on_failure
        self.containment = Containment(broker)
        self.cleaner = Cleaner(broker, store, settings)
        self.slow_consumers = SlowConsumers(broker, settings)
        self.parting: deque[tuple[float, ClientConnection]] = deque()
        """Closed with a last word that may never be read: ended at their time."""
        self.counters = Counters()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.connections: set[ClientConnection] = set()
        self.admission = Admission[ClientConnection](
            "client", settings.connection_count_max, lambda it: it.session.is_connected
        )
        self.ready: list[ClientConnection] = []
        self.paused: set[ClientConnection] = set()
        self.pending: deque[tuple[int, Batch]] = deque()
        """Index and batch of what was proposed in this leadership and is not applied."""
        self.is_serving = False
        self.is_scheduled = False
        self.is_draining = False
        self.has_failed = False
        self.commit_count = 0
        self.gathering_since = 0.0
        self.turned_at = 0.0
        self.silent_until = 0.0
        """This node was paused and may be deposed: until then it explains nothing to clients."""
        self.heart_beats_at = 0.0
        self.apply_again_at = 0.0
        """Applying waits until then: the next entry is damaged here and asked of a peer."""
        self.damaged: list[tuple[float, Queue, int]] = []

    # ---- when to turn

    def schedule(self) -> None:
        """Turn as soon as the sockets that are ready now have been read."""
        if not self.is_scheduled and self.loop is not None:
            self.is_scheduled = True
            self.loop.call_soon(self.turn)

    def tick(self) -> None:
        """Turn because time has passed."""
        self._guarded(self._tick)

    def turn(self) -> None:
        """Do one turn of the loop, because something has arrived."""
        self.is_scheduled = False
        self._guarded(self._turn)

    def _guarded(self, work: Callable[[float], None]) -> None:
        """Let nothing go on after a failure: what it left half done must not be built upon."""
        if self.has_failed:
            return
        began = self.clock.monotonic()
        try:
            work(began)
            self.counters.turned(self.clock.monotonic() - began)
        except Exception as error:
            self.has_failed = True
            if not isinstance(error, HoldfastError):
                log.exception("the loop broke")
            self.on_failure(error)

    def _tick(self, now: float) -> None:
        if now >= self.heart_beats_at:
            self.heart_beats_at = now + self.settings.heart_beat_tick_seconds
            self._beat(now)
            self._part(now)
            self._retry_damaged(now)
        if self.is_serving and not self.store.is_handing_over:
            self.cleaner.step(now)
        self._turn(now)

    def stored(self, result: WriteResult) -> None:
        """Take the writer's word that something is durable, or that it failed for good."""
        self.store.stored(result)
        self.counters.synced(result)
        if not self.is_scheduled:
            self.turn()  # At once: somebody waits for the receipt.

    def _turn(self, now: float) -> None:
        if now - self.turned_at > self.settings.pause_seconds:
            self.silent_until = now + self.settings.pause_seconds
        self.turned_at = now
        self._refresh(now)
        if self.store.is_handing_over:
            self._hold_clients()
        else:
            self._read()
        self._seal(now)
        self.store.turn(now)
        self._apply_committed(now)
        self._follow_role()
        if self.is_serving and not self.store.is_handing_over:
            self._dispatch()
            if self.slow_consumers.is_due():
                self._close_slow_consumers(now)
            self._unblock()
        self._flush()
        if self.is_serving and self.broker.has_batch() and not self.store.is_writing:
            self._seal(now)
            self.store.turn(now)
        if self.store.has_committed() and now >= self.apply_again_at:
            self.schedule()

    def _refresh(self, now: float) -> None:
        self.context.now = now
        self.broker.now_microseconds = self.clock.wall_microseconds()
        refusal = self.store.refusal(now)
        if (refusal is None) != (self.context.refusal is None):
            if refusal is None:
                log.info("publishing is taken again: there is room on the disk")
            else:
                log.error("publishing is refused", reason=refusal)
        self.context.refusal = refusal
        if self.context.is_lease_awaited and not self.store.is_lease_awaited(now):
            self.context.is_lease_awaited = False
            for connection in [it for it in self.connections if it.session.held]:
                try:
                    connection.session.go_on()
                except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
                    self.containment.broke(connection.session, error)

    # ---- connections

    def opened(self, connection: ClientConnection) -> None:
        """Take a new client, or turn it away."""
        session = StompSession(
            self.broker,
            self.context,
            self.stomp_settings,
            self.store.read,
            opened_at=self.clock.monotonic(),
        )
        session.owner = connection
        session.room_bytes = self.settings.output_bytes_max
        connection.session = session
        if not self.is_serving:
            connection.transport.abort()
            return
        leaving = self.admission.enter(connection, self.clock.monotonic())
        if leaving is not None:
            leaving.transport.abort()
        if leaving is connection:
            return
        self.connections.add(connection)
        self.counters.connections += 1

    def lost(self, connection: ClientConnection) -> None:
        """Give back what a client held."""
        self.admission.leave(connection)
        if connection in self.connections:
            self.connections.discard(connection)
            self.paused.discard(connection)
            self.containment.leave(connection.session)
            # Else the two hold each other, and thousands wait for the collector of cycles.
            connection.session.owner = None
            self.schedule()

    def pause(self, connection: ClientConnection) -> None:
        """Stop reading from a client until there is room for more."""
        if not connection.is_paused and not connection.is_lost:
            connection.is_paused = True
            self.paused.add(connection)
            connection.transport.pause_reading()

    def output_drained(self, connection: ClientConnection) -> None:
        """Let a client have deliveries again: its socket has caught up."""
        connection.session.room_bytes = self.settings.output_bytes_max
        self._resume(connection.session)
        self.schedule()

    def _read(self) -> None:
        if not self.ready:
            return
        ready = self.ready
        self.ready = []
        broker = self.broker
        batch_bytes_max = broker.settings.batch_bytes_max
        for connection in ready:
            connection.is_ready = False
            incoming = connection.incoming
            connection.incoming = []
            if connection not in self.connections:
                continue
            session = connection.session
            try:
                for data in incoming:
                    session.receive(data)
                    if broker.batch.size_bytes > batch_bytes_max:
                        broker.close_batch()
            except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
                self.containment.broke(session, error)
                continue
            session.protocol.note_received(self.clock.monotonic())
            if session.held or session.waiting.is_full:
                self.pause(connection)
        if broker.uncommitted_bytes > self.settings.uncommitted_bytes_max:
            for connection in ready:
                self.pause(connection)

    def _hold_clients(self) -> None:
        """
        Leave unread what comes while the lead is being handed over.

        A hand-over may be given up; then all goes on, with what is only in memory still there.
        """
        for connection in self.ready:
            self.pause(connection)

    def _unblock(self) -> None:
        """Read again from those who waited, where what they waited for has come."""
        self.broker.unblocked_topics.clear()
        waiting = self.context.waiting
        for session in list(islice(waiting, _WAITING_PER_TURN)):
            if session not in waiting:
                continue
            waiting[session] = waiting.pop(session)  # To the end: the others have their turn.
            try:
                session.send_waiting()
            except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
                self.containment.broke(session, error)
        if not self.paused or self.broker.uncommitted_bytes > self.settings.uncommitted_bytes_max:
            return
        for connection in list(self.paused):
            if connection.session.held or connection.session.waiting.is_full:
                continue
            if connection.commit_count == self.commit_count and self.pending:
                continue
            connection.is_paused = False
            connection.uncommitted_bytes = 0
            self.paused.discard(connection)
            connection.transport.resume_reading()

    def _beat(self, now: float) -> None:
        for connection in list(self.connections):
            protocol = connection.session.protocol
            if connection.is_paused:
                protocol.note_received(now)
            deadline = protocol.deadline
            if deadline is None or deadline > now:
                continue
            try:
                outcome = protocol.handle_deadline(now)
                if outcome is HeartBeat.SEND:
                    connection.transport.write(HEART_BEAT)
                    protocol.note_sent(now)
                elif outcome is HeartBeat.PEER_DEAD:
                    connection.transport.abort()
            except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
                self.containment.broke(connection.session, error)

    def _close_slow_consumers(self, now: float) -> None:
        for session, why in self.slow_consumers.look():
            assert isinstance(session, StompSession), "every receiver here is a session"
            log.warning("a slow consumer is closed", session=session.id, reason=why)
            session.farewell(why, SLOW_CONSUMER)
            self.containment.leave(session)
            if isinstance(session.owner, ClientConnection):
                session.owner.flush()
                self.parting.append((now + self.settings.drain_seconds, session.owner))

    def _part(self, now: float) -> None:
        """End the connections that did not take their last words in time."""
        while self.parting and self.parting[0][0] <= now:
            connection = self.parting.popleft()[1]
            if not connection.is_lost:
                connection.transport.abort()

    # ---- batches

    def _seal(self, now: float) -> None:
        """Hand the gathered batch to the store, if it is time."""
        broker = self.broker
        if not self.is_serving or not broker.has_batch() or self.store.is_handing_over:
            return
        in_flight_max = self.settings.batches_in_flight_max
        while broker.closed and len(self.pending) < in_flight_max:
            if not self._propose(now):
                return
        batch = broker.batch
        is_full = batch.size_bytes >= broker.settings.batch_bytes_max
        if (self.store.is_writing and not is_full) or not broker.has_batch():
            return
        if len(self.pending) >= in_flight_max:
            return
        if not batch.is_urgent and not self.is_draining:
            if not self.gathering_since:
                self.gathering_since = now
            if now - self.gathering_since < self.settings.tick_seconds:
                return
        self.gathering_since = 0.0
        self._propose(now)

    def _propose(self, now: float) -> bool:
        """Make the oldest batch one log entry; false if this node does not lead any more."""
        batch = self.broker.take_batch()
        if not batch.records:
            self._reply_after_earlier(batch)
            return True
        try:
            index = self.store.append(batch.records, now, self.clock.wall_microseconds())
        except NotLeaderError:
            # What it assigned is lost to it, so this leadership is over even if the hand-over
            # that refuses it is given up in this very turn.
            self.stop_serving()
            self.on_role_change()
            return False
        self.counters.batches += 1
        self.counters.records += len(batch.records)
        self.pending.append((index, batch))
        return True

    def _reply_after_earlier(self, batch: Batch) -> None:
        """Let replies without records of their own wait for what was proposed before them."""
        self.broker.in_flight.pop()
        if self.pending:
            self.pending[-1][1].replies.extend(batch.replies)
            self.pending[-1][1].publications.extend(batch.publications)
            return
        self.broker.publish_after_commit(batch)
        self._reply(batch)

    def _reply(self, batch: Batch) -> None:
        """Say to each that what it asked for is stored; who cannot be told is closed."""
        replies = iter(batch.replies)
        while not self._reply_to(replies):
            pass

    def _reply_to(self, replies: Iterator[tuple[Replier, bytes]]) -> bool:
        replier: Replier | None = None
        try:
            for replier, receipt in replies:
                replier.reply(receipt)
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
            self.containment.broke(replier, error)
            return False
        return True

    def _resume(self, session: StompSession) -> None:
        """Let a session have deliveries again."""
        try:
            self.broker.resume(session)
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
            self.containment.broke(session, error)

    def _apply_committed(self, now: float) -> None:
        """Apply what is committed, then, and only then, say so."""
        broker = self.broker
        pending = self.pending
        if self.store.is_begun_anew():
            self.stop_serving()
            broker.begin_anew()
        if now < self.apply_again_at:
            return
        try:
            entries = self.store.take_committed(self.settings.apply_bytes_max)
        except CorruptEntryError as error:
            self.apply_again_at = now + _DAMAGED_PAUSE_SECONDS
            self.store.report_damage(error)
            self.on_damage(error)
            return
        for entry in entries:
            if pending and pending[0][0] == entry.index and entry.term != self.context.term:
                # Another leader's entry stands where ours would have: this leadership is over,
                # and what it proposed from here on is not stored.
                self.stop_serving()
                self.on_role_change()
            if pending and pending[0][0] == entry.index:
                _, batch = pending.popleft()
                broker.apply_batch(batch, entry.first_record, entry.timestamp)
                self._reply(batch)
                self.counters.receipts += len(batch.replies)
                self.commit_count += 1
            elif entry.record_count:
                broker.apply_entry(entry.first_record, self.store.decode(entry), entry.timestamp)
            self.store.applied(entry, broker.state.cleaned_through)

    # ---- roles

    def _follow_role(self) -> None:
        should_serve = self.store.is_serving and not self.store.has_committed()
        if should_serve == self.is_serving:
            return
        if should_serve and not self.store.is_applied_whole:
            # What this term has proposed may yet be committed, and its numbers are taken.
            return
        if should_serve:
            self.context.term = self.store.term
            self.context.is_lease_awaited = True  # Until the next turn knows better.
            self.broker.lead(self.store.generation)
            self.is_serving = True
        elif self.store.is_handing_over:
            return  # Given up, it goes on as if nothing had been; done, somebody else leads.
        elif not self.store.is_serving:
            self.stop_serving(QUORUM_LOST if self._has_lost_quorum() else "")
        self.on_role_change()

    def _has_lost_quorum(self) -> bool:
        """
        Whether the lead ended because too few members answer, and not because another leads.

        After a pause this node cannot know: then it says nothing.
        """
        if self.is_draining or self.store.is_leader or self.store.term != self.context.term:
            return False  # stopped, handing over, deposed
        return self.clock.monotonic() >= self.silent_until

    def stop_serving(self, farewell: str = "") -> None:
        """Close every client, with a last ERROR if there is a reason to tell; forget the lead."""
        if farewell:
            log.warning(farewell)
        self.is_serving = False
        self.pending.clear()
        connections = list(self.connections)
        self.connections.clear()
        self.admission.clear()
        self.paused.clear()
        self.ready.clear()
        self.damaged.clear()
        for connection in connections:
            connection.session.out.clear()
            if farewell and not connection.transport.get_write_buffer_size():
                connection.session.farewell(farewell, "quorum-lost")
                connection.flush()
            else:
                connection.transport.abort()
        self.context.dirty.clear()
        self.context.waiting.clear()
        self.context.waiting_bytes = 0
        self.broker.follow()
        self.cleaner.stop()

    # ---- deliveries

    def _dispatch(self) -> None:
        broker = self.broker
        if not broker.state.touched and not broker.deliveries:
            return
        # The clock is read here and now: after a pause the lease must be seen to be over.
        if not self.store.may_dispatch(self.clock.monotonic()):
            return
        deliveries = iter(broker.dispatch())
        while not self._deliver(deliveries):
            pass
        while broker.broken:
            self.containment.destination_broke(*broker.broken.pop())

    def _deliver(self, deliveries: Iterator[Delivery]) -> bool:
        """Hand deliveries to their sessions; False where one broke and others are left."""
        session: object = None
        try:
            for subscription, key, message, record_number, redelivered in deliveries:
                session = subscription.receiver
                assert type(session) is StompSession, "every receiver here is a session"
                if message is None:
                    message = self._read_damaged_or_not(subscription, key, record_number)  # noqa: PLW2901 - the same message, now with its content
                    if message is None:
                        continue
                assert isinstance(message, MessageRecord | TransientMessage)
                session.deliver(subscription, key, message, redelivered=redelivered)
                self.counters.deliveries += 1
        except HoldfastError:
            raise  # The store's, not the session's.
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
            self.containment.broke(session, error)
            return False
        return True

    def _read_damaged_or_not(
        self,
        subscription: Subscription,
        key: int,
        record_number: int,
    ) -> MessageRecord | None:
        """Read a message from the log; one that is damaged is withheld, never served."""
        try:
            return self.store.read(record_number)
        except (CorruptEntryError, RecordNotFoundError) as error:
            queue = subscription.queue
            assert queue is not None, "only queues keep messages"
            self.broker.withhold(subscription, key)
            self.damaged.append((self.clock.monotonic(), queue, key))
            self.counters.damaged += 1
            if isinstance(error, CorruptEntryError):
                self.on_damage(error)
            return None

    def _retry_damaged(self, now: float) -> None:
        """Offer withheld messages again: a peer may have repaired them."""
        wait = self.settings.damaged_retry_seconds
        due = [item for item in self.damaged if now - item[0] >= wait]
        if not due:
            return
        self.damaged = [item for item in self.damaged if now - item[0] < wait]
        for _, queue, key in due:
            queue.withheld.discard(key)
            queue.give_back([key], redelivered=False)
            self.broker.state.touch(queue)

    def _flush(self) -> None:
        dirty = self.context.dirty
        if not dirty:
            return
        now = self.clock.monotonic()
        self.context.dirty = []
        again = False
        for session in dirty:
            connection = session.owner
            if not isinstance(connection, ClientConnection):
                continue
            was_full = connection.session.room_bytes <= 0
            try:
                connection.flush()
                connection.session.protocol.note_sent(now)
            except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
                self.containment.broke(session, error)
                continue
            if was_full and connection.session.room_bytes > 0:
                self._resume(connection.session)
                again = True
        if again:
            self.schedule()
