"""
The conducting loop. One turn is a plain function; nothing in it waits.

A turn takes what every ready connection has brought, lets the broker handle it all, seals ONE
batch, hands it to the store, applies what is committed, and sends what has become sendable. While
a batch is being made durable the next one gathers: no timer, what arrived during the last sync is
the next batch (group commit). Acknowledgements that nobody waits for ride along, or go after one
tick.

The order rule: a reply leaves only after its batch is committed and applied. The broker's ledger
(`broker.receipts`) keeps it; `_apply` says what is applied.

Nothing in a turn is long: reading, applying, delivering, writing and errands have a slice of time
each, and go on in the next turn, which comes at once, after the sockets and members were heard. An
entry that is applied in several turns is never seen half done: until it is whole it does not count
as applied, nothing is delivered and nobody begins to serve.

Invariants:
    The ledger holds the batches proposed in this leadership, in log order, none twice; one is
    applied only when the entry of its index AND term is committed.
    A node that is not serving has no clients; those it had are closed in slices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.record_steps import is_one_step, record_steps
from holdfast.broker.outputs import Batch
from holdfast.broker.serving.consumer import Receiver
from holdfast.broker.serving.delivery import Delivery
from holdfast.environment.clock import Clock
from holdfast.errors import CorruptEntryError, HoldfastError, NotLeaderError, RefusedError
from holdfast.model.limits import KiB
from holdfast.model.policies import NO_POLICIES, FilePolicies
from holdfast.model.records import Record
from holdfast.server.chores import Chores
from holdfast.server.cleaning import Cleaner
from holdfast.server.clients import Clients
from holdfast.server.confirming import Confirming
from holdfast.server.containment import Containment
from holdfast.server.counters import Counters
from holdfast.server.departures import Departures
from holdfast.server.flushing import Flushing
from holdfast.server.format_gate import FormatGate
from holdfast.server.heart_beats import HeartBeats
from holdfast.server.held_memory import HeldMemory
from holdfast.server.loop_attributes import LOOP_ATTRIBUTES
from holdfast.server.policy_file import PolicyFile
from holdfast.server.rejudging import Rejudging
from holdfast.server.releasing import Releasing
from holdfast.server.rest import Rest
from holdfast.server.resuming import Resuming
from holdfast.server.role import Role
from holdfast.server.sealer import Sealer
from holdfast.server.settings import ServerSettings
from holdfast.server.turn_budget import TurnBudget
from holdfast.server.waking import Waking
from holdfast.server.withheld import WithheldMessages
from holdfast.sessions.context import SessionContext
from holdfast.sessions.registration import Registration
from holdfast.store.contract import CommittedEntry, LogStore, WriteReport

log = structlog.get_logger("holdfast.server")

_DAMAGED_PAUSE_SECONDS = 0.5
_APPLIED_AT_ONCE_BYTES = 32 * KiB
"""A longer entry may hold acknowledgements of more than 4,000 messages."""
_APPLIED_AT_ONCE_UNSEEN = 8
"""So many records of another node's entry are looked at before any of them is applied."""


class Conductor:
    """One node's loop: connections, sessions, broker and store."""

    __slots__ = LOOP_ATTRIBUTES

    def __init__(
        self,
        *,
        broker: Broker,
        store: LogStore,
        context: SessionContext,
        clock: Clock,
        settings: ServerSettings,
        protocols: tuple[Registration, ...],
        policies: FilePolicies = NO_POLICIES,
        on_role_change: Callable[[], None],
        on_damage: Callable[[CorruptEntryError], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.broker = broker
        self.store = store
        self.context = context
        self.clock = clock
        self.settings = settings
        self.on_damage, self.on_failure = on_damage, on_failure
        self.containment = Containment(broker)
        self.record_step_count = 8 * broker.settings.step_count_max
        """To apply a record takes less than to take a frame."""
        self.releasing = Releasing(broker, self.containment, self.record_step_count)
        self.cleaner = Cleaner(broker, store, settings)
        self.format_gate = FormatGate(broker, store, on_role_change)
        self.policy_file = PolicyFile(broker, policies)
        self.departures = Departures(broker, self.containment)
        self.held_memory = HeldMemory(broker, settings, self.containment, self.departures)
        self.slow_consumers = self.held_memory.slow_consumers
        self.heart_beats = HeartBeats(self.containment)
        self.role = Role(self, on_role_change)
        self.counters = Counters()
        self.withheld = WithheldMessages(broker, store, clock, self.counters, on_damage)
        self.waking = Waking(broker, store, on_damage)
        self.budget = TurnBudget(clock, settings.slice_seconds)
        self.chores = Chores(broker, self.containment, self.budget)
        self.confirming = Confirming(broker, store, clock, self.containment, self.budget)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.resuming = Resuming(broker, self.containment)
        self.flushing = Flushing(context, clock, self.containment, self.resuming, self.budget)
        self.sealer = Sealer(broker, store, settings)
        self.clients = Clients(self, protocols)
        self.connections = self.clients.connections
        self.rejudging = Rejudging(self, on_role_change)
        self.applying: Iterator[None] | None = None
        """The rest of the committed entry that is being applied, and of what waited for it."""
        self.is_within_entry = False
        """It is applied in part: nothing is delivered."""
        self.collect_cycles: Callable[[float], None] = lambda _now: None
        """What looks for cycles of objects at each tick; set by whoever has the process."""
        self.rest = Rest()
        self.is_scheduled = self.has_failed = False
        self.is_behind = False
        """Topic messages are left that the last turn had no time to deliver."""
        self.turned_at = self.heart_beats_at = 0.0
        self.refusal_at = 0.0
        """When it is looked again whether there is room to store anything."""
        self.apply_again_at = 0.0
        """Applying waits until then: the next entry is damaged here and asked of a peer."""

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
        if self.rest.is_long:
            self.rest.cut_short()

    def _guarded(self, work: Callable[[float], None]) -> None:
        """Let nothing go on after a failure: what it left half done must not be built upon."""
        if self.has_failed:
            return
        clock = self.clock
        began, cpu = clock.monotonic(), clock.thread_cpu()
        try:
            work(began)
            seconds = clock.monotonic() - began
            # A shorter one cannot have worked for longer; to ask how long it did is a system call.
            if seconds > self.counters.turn_cpu_seconds_max:
                self.counters.turned(seconds, clock.thread_cpu() - cpu)
        except Exception as error:
            self.has_failed = True
            if not isinstance(error, HoldfastError):
                log.exception("the loop broke")
            self.on_failure(error)

    def _tick(self, now: float) -> None:
        self.collect_cycles(now)
        self.budget.begin()
        until = now + self.settings.drain_seconds
        self.held_memory.look(self.connections, until, self.budget.is_spent)
        self.held_memory.close_standing(now)
        if now >= self.heart_beats_at:
            self.heart_beats_at = now + self.settings.heart_beat_tick_seconds
            self.heart_beats.begin(self.connections)
            self.departures.part(now)
            self.withheld.offer_again(now - self.settings.damaged_retry_seconds)
            self.broker.returning.look_at_the_clock()
        is_leading = self.role.is_serving and not self.store.is_handing_over
        self.format_gate.step(now, is_leading=is_leading)
        self.policy_file.step(is_leading=is_leading, is_spent=self.budget.is_spent)
        if is_leading and not self.is_within_entry:  # Half of one counts what came back twice.
            self.budget.begin()
            self.cleaner.step(now, self.budget.is_spent)
        self._turn(now)

    def stored(self, result: WriteReport) -> None:
        """Take the writer's word that something is durable, or that it failed for good."""
        self.store.stored(result)
        self.counters.synced(result, is_serving=self.role.is_serving)
        if not self.is_scheduled:
            self.turn()  # At once: somebody waits for the receipt.

    def _turn(self, now: float) -> None:
        if now - self.turned_at > self.settings.pause_seconds:
            self.role.silent_until = now + self.settings.pause_seconds
        self.turned_at = now
        # What has nothing to do costs no call: a turn is half the price of a message sent alone.
        self._refresh(now)
        if self.heart_beats.is_under_way or self.departures.are_waiting:
            self.clients.attend(now)
        if self.store.is_handing_over:
            if self.clients.have_brought or self.is_behind:
                self.clients.hold()
        else:
            if self.is_behind or self.rejudging.is_under_way:
                self.schedule()  # First what was published goes out: else more comes than leaves.
            elif self.clients.have_brought:
                self.clients.read(now)
            if self.role.is_serving:
                self._seal(now)
        self.store.turn(now)
        is_more_committed = self._apply_committed(now)
        is_served = self.role.follow()
        if is_served:
            if self.broker.state.access.change_count != self.rejudging.seen_count:
                self.rejudging.step()
            if self.resuming.drained:
                self.budget.begin()
                if not self.resuming.step(self.connections, self.budget.is_spent):
                    self.schedule()
            self._dispatch()
            if self.broker.publishing.receipts and not self.confirming.step():
                self.schedule()
            if self.broker.publishing.backlogs.growth_bytes and self.slow_consumers.is_due():
                self.held_memory.close_slow_consumers()
            if self.clients.paused or self.context.waiting:
                is_behind = self.is_behind or self.rejudging.is_under_way
                self.clients.unblock(now, is_behind=is_behind)
        if self.context.dirty and self.flushing.step():
            self.schedule()
        if self.broker.errands.under_way or self.broker.errands.telling:
            self.chores.run_errands()
            self.schedule()  # For the rest of it, or to deliver what was given back.
        if self.broker.flow.discards.are_waiting or self.broker.state.discards.are_waiting:
            self.chores.let_go()
            self.schedule()
        is_free = self.sealer.under_way is None and self.broker.receipts.has_batch()
        if is_served and self.role.is_serving and is_free and not self.store.is_writing:
            self._seal(now)
            self.store.turn(now)
            is_more_committed = self.has_to_apply() and now >= self.apply_again_at
        if is_more_committed:
            self.schedule()

    def _refresh(self, now: float) -> None:
        self.context.now = now
        self.broker.sending.now_microseconds = self.clock.wall_microseconds()
        if self.broker.has_to_wake:
            self.budget.begin()
            if self.waking.step(self.budget.is_spent):
                self.schedule()
        if now >= self.refusal_at:
            self.refusal_at = now + self.settings.tick_seconds
            self.look_for_room(now)
        self.context.is_lease_over = not self.store.holds_lease(now)
        if self.context.is_lease_awaited and not self.store.is_lease_awaited(now):
            self.clients.go_on()

    def look_for_room(self, now: float) -> None:
        """Refuse to store while a disk is almost full, and no longer."""
        refusal = self.store.refusal(now)
        self.context.message_bytes_max = self.store.message_bytes_max
        self.broker.receipts.message_bytes_max = self.context.message_bytes_max
        self.sealer.bound(self.store.batch_bytes_max)
        if self.context.refuse(refusal, now):
            if refusal is None:
                log.info("publishing is refused no longer")
            else:
                log.error("publishing is refused", reason=refusal)
        self.broker.expiring.is_full = self.broker.firing.is_full = refusal is not None

    def _seal(self, now: float) -> None:
        """Hand the gathered batch to the store, if it is time."""
        broker = self.broker
        sealer = self.sealer
        in_flight_max = self.settings.batches_in_flight_max
        if broker.receipts.closed or sealer.under_way is not None:
            self.budget.begin()
            if sealer.under_way is not None and not self._propose(now):
                return
        while broker.receipts.closed and broker.receipts.proposed_count < in_flight_max:
            if not self._propose(now):
                return
            if self.budget.is_spent():
                self.schedule()
                return
        if not broker.receipts.has_batch() or (self.store.is_writing and not sealer.is_full()):
            return
        if broker.receipts.proposed_count >= in_flight_max:
            self.sealer.close_full()  # What is dispatched to who never acknowledges goes on.
            return
        is_to_store = broker.receipts.batch.records or broker.receipts.acknowledged_queues
        if not is_to_store and (self.context.is_lease_over or broker.publishing.is_behind):
            return  # Nothing that a quorum must store: its replies wait until one answers.
        if self.role.is_draining or sealer.is_due(now):
            self._propose(now)

    def _propose(self, now: float) -> bool:
        """Make the oldest batch one log entry; false if that takes more time, or was in vain."""
        sealed = self.sealer.take(self.budget.is_spent)
        if sealed is None:
            self.schedule()
            return False
        batch, body = sealed
        if not batch.records:
            if not self.broker.receipts.joins_earlier(batch):
                self.applying = chain(self.applying or (), self.releasing.steps(batch, self.role))
            return True
        wall = self.clock.wall_microseconds()
        try:
            index = self.store.append(batch.records, now, wall, body)
        except NotLeaderError:
            # What it assigned is lost to it, so this leadership is over even if the hand-over
            # that refuses it is given up in this very turn.
            self.role.end()
            return False
        self.counters.batches += 1
        self.counters.records += len(batch.records)
        self.broker.receipts.proposed(batch, index)
        return True

    def has_to_apply(self) -> bool:
        """Whether something committed is not applied yet, or not told."""
        return self.applying is not None or self.store.has_committed()

    def _apply_committed(self, now: float) -> bool:
        """Apply what is committed, entry by entry, as the time goes; whether some is left."""
        if self.store.is_begun_anew():
            self.applying = None
            self.is_within_entry = False
            self.role.end()
            self.broker.begin_anew()
        if not self.has_to_apply() or now < self.apply_again_at:
            return False
        is_spent = self.budget.is_spent
        self.budget.begin()
        while True:
            was_begun = self.applying is not None
            if self.applying is None:
                entry = self._take_committed(now)
                if entry is None:
                    return False
                self.applying = self._apply(entry)
            for _ in self.applying:
                if is_spent():
                    return True
            self.applying = None
            if not self.store.has_committed():
                return False
            # After a long entry the others have their turn, else it might end within the next.
            if was_begun or is_spent():
                return True

    def _take_committed(self, now: float) -> CommittedEntry | None:
        try:
            entries = self.store.take_committed(1)
        except CorruptEntryError as error:
            self.apply_again_at = now + _DAMAGED_PAUSE_SECONDS
            self.store.report_damage(error)
            self.on_damage(error)
            return None
        return entries[0] if entries else None

    def _apply(self, entry: CommittedEntry) -> Iterator[None]:
        """Apply an entry in steps, then, and only then, say so."""
        broker = self.broker
        receipts = broker.receipts
        batch = receipts.awaiting(entry.index)
        if batch is not None and entry.term != self.context.term:
            # Another leader's entry stands where ours would have: this leadership is over,
            # and what it proposed from here on is not stored.
            self.role.end()
            batch = None
        records = batch.records if batch is not None else self.store.decode(entry)
        if batch is None and 0 < entry.record_count <= _APPLIED_AT_ONCE_UNSEEN:
            records = list(records)
        first, count_max, queues = entry.first_record, self.record_step_count, broker.state.queues
        self.is_within_entry = True
        if entry.record_count == 0:
            pass  # The members of the cluster, or nothing.
        elif entry.record_count <= count_max and self._is_short(entry, batch, records):
            broker.apply_entry(first, records, entry.timestamp, entry.term)
        else:
            for number, some in record_steps(first, records, count_max, queues):
                broker.apply_entry(number, some, entry.timestamp, entry.term)
                yield
        self.store.applied(entry, broker.state.cleaned_through)
        self.is_within_entry = False
        # The leadership may have ended since the first step.
        if batch is not None and receipts.is_next(batch):
            receipts.applied(batch)
            self.clients.committed()
            if not self.releasing.at_once(batch):
                yield from self.releasing.steps(batch, self.role)

    def _is_short(
        self, entry: CommittedEntry, batch: Batch | None, records: Iterable[Record]
    ) -> bool:
        """Whether an entry takes no longer than its bytes and records tell: it is one step."""
        if entry.body_length > _APPLIED_AT_ONCE_BYTES:
            return False
        if batch is not None:
            return not (batch.may_take_long or batch.returns or batch.moved_count)
        queues, most = self.broker.state.queues, self.record_step_count
        return entry.record_count <= _APPLIED_AT_ONCE_UNSEEN and is_one_step(records, most, queues)

    @property
    def is_serving(self) -> bool:
        """Whether clients are served now; the role alone decides it."""
        return self.role.is_serving

    def let_go_of_clients(self, farewell: str) -> None:
        """
        Forget the lead and close every client, with a last ERROR if there is a reason to tell.

        Many clients are closed in slices; none of them is served any more.
        """
        self.is_behind = False
        self.sealer.stop()
        self.clients.send_away(farewell)
        self.withheld.clear()
        self.context.forget_sessions()
        self.broker.follow()
        self.cleaner.stop()
        self.format_gate.stop()
        self.policy_file.stop()
        self.rejudging.stop()
        self.clients.attend(self.turned_at)

    def close(self) -> None:
        """Stop serving and close every client now: the node ends."""
        self.role.end()
        self.departures.step(lambda: False)

    def _dispatch(self) -> None:
        broker = self.broker
        if self.is_within_entry or self.rejudging.is_under_way:
            return
        self.is_behind = False
        if not broker.has_to_dispatch:
            return
        # The clocks are read here and now: after a pause the lease must be seen to be over, and
        # what has expired in it is not delivered.
        now = self.clock.monotonic()
        if not self.store.may_dispatch(now):
            return
        broker.sending.now_microseconds = self.clock.wall_microseconds()
        self.budget.begin(now)
        steps = broker.dispatch()
        for step in steps:
            deliveries = iter(step)
            while not self._deliver(deliveries):
                # Of who is closed now nothing more goes out.
                deliveries = iter([each for each in deliveries if not each[0].is_closed])
            if self.budget.is_spent():
                break
        steps.close()
        # A message that is being spread stops its own publisher only.
        self.is_behind = broker.publishing.is_behind
        if broker.has_to_dispatch or self.clients.have_brought:
            self.schedule()  # Of those who are ready some may have waited for just this.
        while broker.broken:
            self.containment.destination_broke(*broker.broken.pop())

    def _deliver(self, deliveries: Iterator[Delivery]) -> bool:
        """Hand deliveries to their sessions; False where one broke and others are left."""
        session: Receiver | None = None
        count = 0
        try:
            for subscription, key, message, record_number, redelivered in deliveries:
                session = subscription.receiver
                if message is None:
                    message = self.withheld.read(subscription, key, record_number)  # noqa: PLW2901 - the same message, now with its content
                if message is not None:
                    session.deliver(subscription, key, message, redelivered=redelivered)
                    count += 1
                    if redelivered:
                        self.counters.redeliveries += 1
        except Exception as error:
            if isinstance(error, HoldfastError) and not isinstance(error, RefusedError):
                raise  # The store's, not the session's.
            self.containment.broke(session, error)  # A mistake of ours costs one client.
            return False
        finally:
            self.counters.deliveries += count
        return True
