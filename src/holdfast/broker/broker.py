"""
The broker: what clients and operators may ask, and what comes of it. A facade over its parts.

It has two halves. The lasting half is `state`, changed only by `apply_*`, the same on
every node. The other half exists on the leader only: it checks requests against the present state,
turns what must last into records of the gathering batch, and keeps subscriptions and deliveries.

Every method returns at once and touches nothing outside. Time is an argument where it matters.

Order: a batch is taken, made durable, committed and applied to the state; `applied` is told, and
only then does the caller release the batch's replies. Deliveries name applied messages only.

Owned by whoever conducts.
"""

from __future__ import annotations

from collections.abc import Generator

from holdfast.broker.access_changes import AccessChanges
from holdfast.broker.addressing import Addressing
from holdfast.broker.bundling import Bundling
from holdfast.broker.committing import Committing
from holdfast.broker.destinations import Destinations
from holdfast.broker.durables import Durables
from holdfast.broker.errands import Errands, IsSpent
from holdfast.broker.expiring import Expiring
from holdfast.broker.firing import Firing
from holdfast.broker.flow_control import FlowControl
from holdfast.broker.lapsing import Lapsing
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.limiting import Limiting
from holdfast.broker.moving import Moving
from holdfast.broker.operating import Operating
from holdfast.broker.outputs import Batch
from holdfast.broker.parts import Parts
from holdfast.broker.pausing import Pausing
from holdfast.broker.policy_advising import PolicyAdvising
from holdfast.broker.policy_changes import PolicyChanges
from holdfast.broker.receipts import Receipts
from holdfast.broker.recovering import Recovering
from holdfast.broker.removing import Removing
from holdfast.broker.returning import Returning
from holdfast.broker.routing import Routing
from holdfast.broker.sending import Sending
from holdfast.broker.serving.access_book import AccessBook
from holdfast.broker.serving.careful import choose
from holdfast.broker.serving.delivery import Delivery
from holdfast.broker.serving.finished_producers import FinishedProducers
from holdfast.broker.serving.policies import PolicyBook
from holdfast.broker.serving.publishing import Publishing
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.temporaries import Temporaries
from holdfast.broker.settings import BrokerSettings
from holdfast.broker.settling import Settling
from holdfast.broker.slowness import Slowness
from holdfast.model.numbering import FIRST_TERM, Numbering


class Broker:
    """
    One broker of a cluster, leader or not.

    What a part does is bound to the name by which it is asked for here: a method that only calls
    another one would cost each message twice the call.
    """

    def __init__(self, settings: BrokerSettings, state: BrokerState | None = None) -> None:
        self.settings = settings
        self.state = state or BrokerState(settings)
        self.receipts, self.errands = Receipts(), Errands()  # On its way to the log; long work.
        self.flow, self.publishing = FlowControl(settings), Publishing(settings)
        self.policies = PolicyBook(settings, self.state)
        self.access_book = AccessBook(self.state, settings.anonymous_role)
        self.policy_changes = PolicyChanges(settings, self.state, self.receipts)
        self.destinations = Destinations(settings, self.state, self.receipts, self.flow, choose)
        self.access_changes = AccessChanges(
            settings, self.state, self.receipts, lambda: self.firing.next_place
        )
        self.addressing = Addressing(self.destinations, self.policies, self.errands)
        self.durables = Durables(self.state, self.receipts, self.destinations, self.errands)
        self.parts = Parts(self.destinations, self.durables, lambda: self.sending.now_microseconds)
        self.pausing = Pausing(self.destinations, self.policies)
        self.sending = Sending(
            self.state, self.receipts, self.destinations, self.flow, self.publishing
        )
        self.routing = self._made_routing()
        self.bundling = Bundling(
            self.destinations, self.routing, self.flow, self.errands, self.durables
        )
        self.committing = Committing(
            settings,
            receipts=self.receipts,
            destinations=self.destinations,
            flow=self.flow,
            routing=self.routing,
            sending=self.sending,
            publishing=self.publishing,
            errands=self.errands,
        )
        self.moving = Moving(settings, self.state, self.receipts)
        self.settling = self._made_settling()
        self.returning = Returning(
            settings,
            self.state,
            receipts=self.receipts,
            destinations=self.destinations,
            routing=self.routing,
            sending=self.sending,
            policies=self.policies,
        )
        self.expiring, self.firing = self._made_expiring(), self._made_firing()
        self.operating = Operating(self.receipts, self.destinations)
        self.finished = FinishedProducers(
            self.state, self.receipts, self.destinations, self.errands
        )
        self.is_leading = self.is_prepared = False
        """Whether `prepare` was called, and neither the lead nor the state have changed since."""
        self.numbering = Numbering()  # Where each queue's numbers begin under the last leader here.
        self._bind()

    def _made_settling(self) -> Settling:
        return Settling(
            self.settings,
            self.state,
            receipts=self.receipts,
            destinations=self.destinations,
            routing=self.routing,
            sending=self.sending,
            committing=self.committing,
            policies=self.policies,
            moving=self.moving,
        )

    def _made_routing(self) -> Routing:
        return Routing(
            self.settings,
            destinations=self.destinations,
            flow=self.flow,
            publishing=self.publishing,
            errands=self.errands,
            policies=self.policies,
            durables=self.durables,
            pausing=self.pausing,
        )

    def _made_expiring(self) -> Expiring:
        return Expiring(
            self.settings,
            self.state,
            receipts=self.receipts,
            destinations=self.destinations,
            routing=self.routing,
            policies=self.policies,
            moving=self.moving,
            settling=self.settling,
            returning=self.returning,
        )

    def _made_firing(self) -> Firing:
        return Firing(
            self.settings,
            self.state,
            receipts=self.receipts,
            destinations=self.destinations,
            policies=self.policies,
            moving=self.moving,
            returning=self.returning,
        )

    def _made_limiting(self) -> Limiting:
        return Limiting(
            self.settings,
            self.state,
            receipts=self.receipts,
            destinations=self.destinations,
            policies=self.policies,
            moving=self.moving,
            settling=self.settling,
            sending=self.sending,
            expiring=self.expiring,
            broken=self.routing.broken,
        )

    def _made_advising(self) -> PolicyAdvising:
        advising = PolicyAdvising(
            self.policies,
            state=self.state,
            destinations=self.destinations,
            flow=self.flow,
            publishing=self.publishing,
            sending=self.sending,
            errands=self.errands,
        )
        self.destinations.advising = self.routing.advising = advising
        self.settling.advising = self.expiring.advising = advising
        self.receipts.advising = self.sending.advising = self.slowness.advising = advising
        self.limiting.advising = self.committing.advising = advising
        self.publishing.backlogs.tell_evicted = advising.evicted
        return advising

    def _bind(self) -> None:
        """Give what its parts do the names by which it is asked for."""
        self.removing = Removing(
            self.state,
            destinations=self.destinations,
            durables=self.durables,
            policies=self.policies,
        )
        self.destinations.forms = self.removing.forms
        self.lapsing = Lapsing(
            self.state,
            receipts=self.receipts,
            destinations=self.destinations,
            durables=self.durables,
            policies=self.policies,
        )
        self.slowness = Slowness(self.state, destinations=self.destinations, policies=self.policies)
        self.recovering = Recovering(
            self.settings, policies=self.policies, publishing=self.publishing, sending=self.sending
        )
        self.sending.recovering = self.routing.recovering = self.recovering
        self.limiting = self._made_limiting()
        self.advising = self._made_advising()
        self.queue, self.topic = self.destinations.queue, self.destinations.topic
        self.drop_temporary = self.destinations.drop_temporary
        self.send, self.send_transient = self.sending.send, self.sending.send_transient
        self.publish, self.has_room = self.sending.publish, self.sending.has_room
        self.has_taken = self.sending.has_taken
        self.subscribe, self.unsubscribe = self.routing.subscribe, self.bundling.unsubscribe
        self.subscribe_to_several, self.left = self.bundling.subscribe, self.bundling.left
        self.resume, self.refill = self.routing.resume, self.routing.refill
        self.renew, self.broken = self.routing.renew, self.routing.broken
        self.acknowledge, self.reject = self.settling.acknowledge, self.settling.reject
        self.acknowledge_identity = self.settling.acknowledge_identity
        self.hold_identity = self.settling.hold_identity
        self.put_back, self.withhold = self.settling.put_back, self.settling.withhold
        self.give_back = self.returning.give_back
        self.begin, self.hold = self.committing.begin, self.committing.hold
        self.hold_for_all = self.committing.hold_for_all
        self.send_to_all = self.committing.send_to_all
        self.send_transient_to_all = self.sending.send_transient_to_all
        self.commit, self.abort = self.committing.commit, self.committing.abort
        self.publish_after_commit = self.committing.publish_after_commit
        self.keep_log = self.operating.keep_log
        self.purge, self.delete = self.operating.purge, self.operating.delete
        self.apply_entry = self.state.apply

    @property
    def format_level_ahead(self) -> int:
        """The level that the log has reached where stands what is put into it now."""
        return max(self.state.format_level, self.receipts.format_level)

    @property
    def temporaries(self) -> Temporaries:
        """The temporary destinations of this leadership."""
        return self.destinations.temporaries

    def prepare(self, numbering: Numbering = Numbering()) -> None:  # noqa: B008 - a value
        """Get ready to lead, under these numbers."""
        self.numbering = numbering
        self.follow()
        self.errands.begin(self.destinations.read_ahead(self.removing.forms()))
        self.is_prepared = True

    def lead(self, numbering: Numbering = Numbering()) -> None:  # noqa: B008 - a value
        """Begin to serve, from lasting state; each leader has queues' numbers of its own."""
        if not self.is_prepared or self.numbering != numbering:
            self.prepare(numbering)
        self.errands.finish()
        self.is_leading = True
        self.is_prepared = False
        self.destinations.next_queue_number = self.state.next_queue_number
        self.expiring.lead()
        self.temporaries.lead()
        self.firing.lead()
        self.durables.lead()

    def follow(self) -> None:
        """Stop serving: everything that is not lasting is dropped, nothing has to be undone."""
        self.is_leading = self.is_prepared = False
        self.moving.closed_through = 0
        self.expiring.follow()
        self.firing.follow()
        self.limiting.follow()
        self.pausing.follow()
        self.removing.follow()
        self.lapsing.follow()
        self.slowness.follow()
        self.flow.forget_leadership()
        self.flow.discards.add(*self.receipts.clear(), *self.publishing.clear())
        self.destinations.end()
        self.broken.clear()
        self.errands.clear()
        self.bundling.clear()
        self.advising.clear()
        self.recovering.clear()
        self.finished.clear()
        self.destinations.begin(self.numbering)

    def begin_anew(self) -> None:
        """Drop all state: the log it came from was replaced by a leader's."""
        self.state.begin_anew()
        self.access_book.follow()
        self.follow()

    def apply_batch(
        self, batch: Batch, first_record: int, timestamp: int, term: int = FIRST_TERM
    ) -> None:
        """Apply the oldest batch in flight at once: its entry is committed."""
        self.state.apply(first_record, batch.records, timestamp, term)
        self.receipts.applied(batch)
        for _ in self.publish_after_commit(batch):
            pass
        self.receipts.released(batch)

    @property
    def has_to_wake(self) -> bool:
        """Whether something is due at some time, or expires."""
        if self.destinations.leadership.alarms or self.firing.has_any:
            return True
        if self.expiring.has_any or self.temporaries.has_orphans:
            return True
        if self.limiting.has_any or self.removing.has_any or self.pausing.has_any:
            return True
        return self.lapsing.has_any or self.slowness.has_any

    @property
    def soonest_ms(self) -> int:
        """When a delay ends or a scheduled message is due, in ms since the epoch; 0: never."""
        times = self.destinations.leadership.alarms.soonest, self.firing.soonest_ms
        return min(filter(None, times), default=0)

    def wake(self, is_spent: IsSpent = lambda: False) -> bool:
        """Do what is due by now, as the time goes; whether more of it is."""
        is_more_due = self.returning.wake(is_spent)
        if self.is_leading and self.expiring.has_any:
            is_more_due = self.expiring.step(is_spent) or is_more_due
        if self.temporaries.has_orphans:
            is_more_due = self.destinations.drop_orphans(is_spent) or is_more_due
        if self.is_leading and self.limiting.has_any:
            is_more_due = self.limiting.step(is_spent) or is_more_due
        if self.is_leading and self.pausing.has_any:
            is_more_due = self.pausing.step(is_spent) or is_more_due
        if self.is_leading and self.removing.has_any:
            is_more_due = self.removing.step(is_spent) or is_more_due
        if self.is_leading and self.lapsing.has_any:
            is_more_due = self.lapsing.step(is_spent) or is_more_due
        if self.is_leading and self.slowness.has_any:
            is_more_due = self.slowness.step(is_spent) or is_more_due
        return is_more_due

    @property
    def has_to_dispatch(self) -> bool:
        """Whether there may be deliveries to be made."""
        publishing = self.publishing  # Asked in every turn: its parts, which costs no call.
        leadership = self.destinations.leadership
        return bool(
            leadership.touched
            or publishing.deliveries
            or publishing.spreads
            or leadership.browsing
            or leadership.stirring
        )

    def browse(self, subscription: Subscription, queue: Queue) -> None:
        """Let somebody look through what is on a queue now."""
        self.routing.browse(subscription, queue, self.sending.serial)

    def dispatch(self) -> Generator[list[Delivery], None, None]:
        """Give the deliveries to be made in short steps; see `routing`."""
        steps = self.routing.dispatch(self.settling.settle, self.expiring)
        return self.advising.dispatched(steps) if self.advising.is_heard else steps

    @property
    def has_to_let_go(self) -> bool:
        """Whether memory of what is gone is to be freed."""
        return self.flow.discards.are_waiting or self.state.discards.are_waiting

    def let_go(self, is_spent: IsSpent) -> None:
        """Free some of the memory of what is gone; at least one step."""
        while self.has_to_let_go:
            part = self.flow if self.flow.discards else self.state
            part.let_go()
            if is_spent():
                return
