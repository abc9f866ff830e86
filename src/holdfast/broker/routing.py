"""
What hangs together: consumers and destinations, and where what was held goes now.

A consumer is bound to a queue or topic here, gets what it has room for, and is unbound. In each
turn those queues that may have something for somebody have their turn, beside topics.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from functools import partial
from typing import Protocol

from holdfast.broker.destinations import Destinations
from holdfast.broker.durables import Durables
from holdfast.broker.errands import Errands
from holdfast.broker.flow_control import FlowControl
from holdfast.broker.pausing import Pausing
from holdfast.broker.serving.advises import SILENCE, Advises
from holdfast.broker.serving.browser import Browser, look_on
from holdfast.broker.serving.bundle import Bundle
from holdfast.broker.serving.consumer import AcknowledgeMode, Receiver
from holdfast.broker.serving.delivery import Delivery, Step
from holdfast.broker.serving.dispatch import Settle, dispatch
from holdfast.broker.serving.durable import StoredTopic
from holdfast.broker.serving.policies import PolicyBook
from holdfast.broker.serving.publishing import Broken, Publishing
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.recovers import NOTHING_KEPT, Recovers
from holdfast.broker.serving.router.router import group, has_groups, has_priorities, join
from holdfast.broker.serving.subscription import Subscriber, Subscription
from holdfast.broker.serving.suspects import is_awaited
from holdfast.broker.serving.time_limits import TimeLimits
from holdfast.broker.serving.topic import Topic
from holdfast.broker.settings import BrokerSettings
from holdfast.model.records import ReturnCause


class Sifts(Protocol):
    """What leaves out what has expired on its way to somebody."""

    def sift(self, queue: Queue, step: Step) -> Step:
        """Give those deliveries of a queue that have not expired; take back the others."""

    def sift_topics(self, step: Step) -> Step:
        """Give those deliveries of topics that have not expired."""


class Routing:
    """Who gets what from where."""

    __slots__ = (
        "_destinations",
        "_durables",
        "_flow",
        "_is_queues_turn",
        "_pausing",
        "_policies",
        "_publishing",
        "_settings",
        "advising",
        "broken",
        "errands",
        "recovering",
    )

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        destinations: Destinations,
        flow: FlowControl,
        publishing: Publishing,
        errands: Errands,
        policies: PolicyBook,
        durables: Durables,
        pausing: Pausing,
    ) -> None:
        self._settings = settings
        self._durables = durables
        self._pausing = pausing
        self._policies = policies
        self._destinations = destinations
        self._flow = flow
        self._publishing = publishing
        self.errands = errands
        self._is_queues_turn = False
        """The last dispatch was left off among topics' deliveries."""
        self.broken: Broken = []
        self.advising: Advises = SILENCE
        self.recovering: Recovers = NOTHING_KEPT

    def current_of(self, destination: Queue | Topic) -> Queue | Topic:
        """Give what has the name of a held destination now: it may have been deleted since."""
        if not destination.is_deleted or destination.is_temporary:
            return destination
        if isinstance(destination, StoredTopic):
            # Declared anew it may have no subscription; who commits lets it go again then.
            return self._destinations.stored.declare(destination.name)
        if isinstance(destination, Queue):
            # A record for the deleted one would be lost.
            return self._destinations.queue(destination.name)
        return self._destinations.topics.get(destination.name, destination)

    def subscribe(self, subscription: Subscription, destination: Queue | Topic) -> None:
        """Add a consumer; dispatch to it begins with the next `dispatch`."""
        self._flow.subscribed(subscription)
        if isinstance(destination, Topic):
            subscription.topic = destination
            policy = self._policies.of(destination)
            subscription.drops_oldest = not policy.has_flow_control
            if subscription.pending_max is None:
                subscription.pending_max = policy.pending_max_for(subscription.width)
            destination.add_subscription(subscription)
            if self.recovering.is_on:
                self.recovering.recover(subscription, destination)
            if subscription.is_wild:
                destination.wild_count += 1
            else:
                self._destinations.idle_topics.remove(destination)
            if self.advising.listeners:
                self.advising.subscribed(subscription, destination)
            return
        self._destinations.idle.pop(destination.number, None)
        destination.wild_count += subscription.is_wild
        policy = self._policies.of(destination)
        if policy.limits is not None:
            self._destinations.leadership.filling[destination] = None
        sharing = policy.sharing
        subscription.queue = destination
        subscription.claim = sharing.counted(subscription.claim)
        destination.subscriptions[subscription] = None
        destination.suspect_after = policy.suspect_after
        if subscription.mode is AcknowledgeMode.INDIVIDUAL:
            # One word of mode `client` is about many: what is taken back one by one, and perhaps
            # delivered again, could not be told from what it is about.
            subscription.delivery_ms_max = policy.delivery_ms_max
        if subscription.delivery_ms_max and destination.time_limits is None:
            leadership = self._destinations.leadership
            rouse = partial(leadership.rouse, destination)
            destination.time_limits = TimeLimits(leadership, rouse)
        join(destination, subscription, sharing)
        destination.choice.make_ready(subscription)
        destination.touch()
        if destination.topic_number:
            self._durables.attached(destination)
        if self.advising.listeners:
            self.advising.subscribed(subscription, destination)

    def browse(self, subscription: Subscription, queue: Queue, last_serial: int) -> None:
        """Let somebody look through what is on a queue now; it is none of its consumers."""
        self._flow.subscribed(subscription)
        by_priority = has_priorities(queue) and self._policies.of(queue).is_prioritized
        subscription.browser = Browser(queue, last_serial, by_priority=by_priority)
        self.refill(subscription)

    def unsubscribe(
        self, subscription: Subscription, cause: ReturnCause = ReturnCause.RELEASED
    ) -> None:
        """
        Remove a consumer; what it holds goes back to the head of the queue, for this cause.

        What an open transaction has acknowledged stays with the transaction until its end. Where
        it holds much the queue waits until all of it is given back, in the old order.
        """
        if cause is ReturnCause.LOST and subscription.held_count == 1:
            cause = ReturnCause.LOST_ALONE
        self.close(subscription, cause)

    def close(self, subscription: Subscription, cause: ReturnCause) -> None:
        """Remove a consumer; what it holds goes back for exactly this cause."""
        self._flow.unsubscribed(subscription)
        if subscription.browser is not None:
            subscription.is_closed = True
            subscription.prefetch = 0
        elif subscription.topic is not None:
            topic = subscription.topic
            self._publishing.close(topic, subscription)
            topic.wild_count -= subscription.is_wild
            if topic.is_unnamed and not (topic.is_temporary or topic.is_deleted):
                self._destinations.idle_topics.add(topic)
        elif subscription.queue is not None:
            subscription.queue.wild_count -= subscription.is_wild
            subscription.queue.close_subscription(subscription)
            if subscription.queue.topic_number:
                self._durables.detached(subscription.queue)
            giving_back = self._give_back(subscription.queue, subscription, cause)
            self.errands.begin(giving_back, subscription.receiver)
        if self.advising.listeners and subscription.browser is None:
            place = subscription.topic or subscription.queue
            if place is not None:
                self.advising.unsubscribed(subscription, place)

    def _give_back(
        self, queue: Queue, subscription: Subscription, cause: ReturnCause
    ) -> Iterator[None]:
        try:
            yield from queue.take_back(subscription, self._settings.step_count_max, cause)
        except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
            self.broken.append((queue, error))
        queue.touch()

    def renew(self, queue: Queue, leaving: set[int]) -> list[Receiver]:
        """
        Build the leader's half of a queue anew from its lasting half; give who consumed from it.

        Their subscriptions are closed, and what they may have seen is flagged. Non-persistent
        messages of the queue are gone, as they are when the leader changes. `leaving` are the keys
        whose acknowledgement is on its way to the log.
        """
        receivers = list(dict.fromkeys(each.receiver for each in queue.subscriptions))
        self._destinations.empty(queue)
        queue.renew(leaving)
        if queue.topic_number:
            self._durables.detached(queue)
        return receivers

    def resume(self, receiver: Subscriber) -> None:
        """
        Note that a connection has room again.

        The first to be served is another one each time, or it took all the room of a slow reader.
        """
        subscriptions = receiver.subscriptions
        for subscription in subscriptions.values():
            self.refill(subscription)
        if len(subscriptions) > 1:
            first = next(iter(subscriptions))
            subscriptions[first] = subscriptions.pop(first)

    def refill(self, subscription: Subscription) -> None:
        """Let a subscription have more, now that there is room."""
        subscription.step_back()
        self._give_more(subscription)

    def _give_more(self, subscription: Subscription) -> None:
        if subscription.topic is not None:
            self._publishing.drain(subscription.topic, subscription)
            return
        queue = subscription.queue
        if queue is not None and (
            queue.choice.make_ready(subscription) or is_awaited(queue, subscription)
        ):
            queue.touch()
        elif subscription.browser is not None:
            self._look_on_later(subscription, subscription.browser)

    def _look_on_later(self, subscription: Subscription, browser: Browser) -> None:
        if subscription.is_ready or subscription.is_closed or browser.is_over:
            return
        if subscription.has_room():
            subscription.is_ready = True
            self._destinations.leadership.browsing.append(subscription)

    def dispatch(self, settle: Settle, sieve: Sifts) -> Generator[list[Delivery], None, None]:
        """
        Give the deliveries to be made in short steps, assigning messages as each is asked for.

        Also what finds nothing to deliver is a step. It may be closed after any; the next one goes
        on, with that queue behind others. Where topics took all the time, queues come first then;
        of those who look through a queue one has a step first, and all others last.
        """
        browsing = self._destinations.leadership.browsing
        if browsing:
            yield self._look_on(browsing, sieve)
        stirring = self._destinations.leadership.stirring
        if stirring:
            self._stir(stirring)
        if self._is_queues_turn:
            self._is_queues_turn = False
            yield from self._dispatch_queues(settle, sieve)
        self._is_queues_turn = True
        publishing = self._publishing
        for step in publishing.take(self.broken):
            yield sieve.sift_topics(step) if publishing.mortal_count else step
        self._is_queues_turn = False
        yield from self._dispatch_queues(settle, sieve)
        while stirring:
            self._stir(stirring)
            yield []
            yield from self._dispatch_queues(settle, sieve)
        while browsing:
            yield self._look_on(browsing, sieve)

    def joined(self, topic: Topic) -> None:
        """Let what was sent to a topic before all had joined it go to them now."""
        self._publishing.joined(topic)

    def _stir(self, stirring: deque[Bundle]) -> None:
        """Give those their turn that wait for longest of the first subscription with room."""
        bundle = stirring.popleft()
        for strand in bundle.woken():
            self._give_more(strand)
        if bundle.may_give:
            bundle.stir()

    def _look_on(self, browsing: deque[Subscription], sieve: Sifts) -> list[Delivery]:
        """Let the first of those who look through a queue have a step; he is the last then."""
        subscription = browsing.popleft()
        subscription.is_ready = False
        browser = subscription.browser
        step: list[Delivery] = []
        if browser is not None and not subscription.is_closed:
            try:
                look_on(subscription, browser, step, self._settings.step_count_max)
                step = sieve.sift(browser.queue, step)
            except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
                self.broken.append((browser.queue, error))
                browser.is_over = True
            self._look_on_later(subscription, browser)
        return step

    def _dispatch_queues(self, settle: Settle, sieve: Sifts) -> Iterator[list[Delivery]]:
        touched = self._destinations.leadership.touched
        step_count = self._settings.step_count_max
        looked_at, pausing = 0, self._pausing if self._pausing.is_on else None
        while touched:
            queue = touched.popleft()
            queue.is_touched = False
            is_served = queue.subscriptions and not queue.is_deleted and not queue.is_held
            is_served = is_served and not (pausing is not None and pausing.is_paused(queue))
            if is_served and queue.choice.has_ready:
                yield from self._dispatch_queue(queue, settle, sieve)
            looked_at += 1
            if not looked_at % step_count:
                yield []  # It may end here: what was taken out above is done.

    def _dispatch_queue(
        self, queue: Queue, settle: Settle, sieve: Sifts
    ) -> Iterator[list[Delivery]]:
        """Give the deliveries of one queue; where it ends too soon that is touched again."""
        if queue.index.ordering or queue.volatile_ordering:
            self._heed(queue)
        try:
            for step in dispatch(queue, settle, self._settings.step_count_max, self.broken):
                yield step if queue.expiry is None else sieve.sift(queue, step)
        except GeneratorExit:
            queue.touch()
            raise
        finally:
            is_near = queue.choice.cursor + (queue.mark_step >> 1) > queue.asked_mark
            if is_near and queue.number:
                self._destinations.advance_mark(queue)
            if queue.wanted and queue.number:
                self._destinations.advance_beyond_mark(queue, queue.wanted)

    def _heed(self, queue: Queue) -> None:
        """Let a queue go by what its messages have, beside the order of sending."""
        if queue.grouping is None and has_groups(queue):
            group(queue, self._policies.of(queue).sharing)
        if has_priorities(queue):
            self._order(queue)

    def _order(self, queue: Queue) -> None:
        """Let a queue on which messages have priorities go by these, if it is to."""
        if not queue.choice.goes_by_priority and self._policies.of(queue).is_prioritized:
            queue.choice.begin_lanes()
