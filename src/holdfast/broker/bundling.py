"""
Subscriptions to several queues and topics: named one by one, or by wildcards.

What a wildcard means is joined as it comes into being and left as it goes, for as long as somebody
subscribes. To look through all names, and to join or leave ten thousand queues, is an errand.

Invariants:
    What matches a wildcard of an open subscription is joined, or an errand of its is under way.
    What a subscription cannot join ends it, and its client is told: none has silent gaps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, Protocol
from weakref import WeakValueDictionary

from holdfast.broker.binding import bind
from holdfast.broker.destinations import Destinations
from holdfast.broker.durables import Durables
from holdfast.broker.errands import Errands
from holdfast.broker.flow_control import FlowControl
from holdfast.broker.routing import Routing
from holdfast.broker.serving.bundle import Bundle, Strand, kind_of
from holdfast.broker.serving.durable import DurableQueue
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.errors import DestinationError
from holdfast.model.destination import Kind, has_wildcards
from holdfast.model.records import ReturnCause
from holdfast.model.reserved_names import OWN_MARK
from holdfast.model.wildcards import parse_pattern

_MATCHED_PER_STEP: Final = 512
"""So many names are held against so many patterns: each takes about 1 µs."""

_JOINED_PER_STEP: Final = 4
"""To join a queue takes up to 0.1 ms, where nobody has asked for it yet."""


_NAMES_SPARE: Final = 1024
"""So many names may stand among those looked through that mean nothing any more."""


class _Names(list[str]):
    """All names of a kind, for those who look through them now; what comes stands at the end."""

    __slots__ = ("__weakref__",)


class Outlet(Protocol):
    """Whoever has a bundle: its client's session."""

    def strand(self, bundle: Bundle, destination: Queue | Topic, *, is_wild: bool) -> Strand:
        """
        Make a part of the bundle.

        Raises:
            DestinationError: There may be none.
        """

    def opened(self, strand: Strand) -> None:
        """Note that a part has joined its destination, and gets something soon."""

    def gone(self, strand: Strand) -> None:
        """Note that a part is over, and nothing can be said of its deliveries any more."""

    def joined(self, bundle: Bundle) -> None:
        """Note that all that is there now is joined."""

    def failed(self, bundle: Bundle, error: DestinationError) -> None:
        """End the subscription, and tell its client why."""


class Bundling:
    """Joins and leaves."""

    __slots__ = (
        *("_coming", "_destinations", "_durables", "_errands", "_flow", "_names", "_outlets"),
        *("_routing", "_subscribed_count"),
    )

    def __init__(
        self,
        destinations: Destinations,
        routing: Routing,
        flow: FlowControl,
        errands: Errands,
        durables: Durables,
    ) -> None:
        self._destinations = destinations
        self._routing = routing
        self._flow = flow
        self._errands = errands
        self._outlets: dict[Bundle, Outlet] = {}
        self._subscribed_count = 0
        self._coming: deque[Queue | Topic] = deque()
        """What is new and not joined by all yet; the first one is being joined."""
        self._names: WeakValueDictionary[Kind, _Names] = WeakValueDictionary()
        """The same for all who look through them at once: each has only its place."""
        destinations.came, destinations.went = self._came, self._went
        self._durables = durables
        durables.came = self._part_came

    def clear(self) -> None:
        """Forget all: the leadership is over."""
        self._outlets.clear()
        self._names.clear()
        self._coming = deque()

    def subscribe(self, bundle: Bundle, named: Sequence[Queue | Topic], outlet: Outlet) -> None:
        """
        Add a subscription to what is named, and to what its patterns mean, now and later.

        Raises:
            DestinationError: There are too many kinds of patterns.
        """
        self._destinations.leadership.wildcards.add(bundle)
        bundle.number = self._subscribed_count
        self._subscribed_count += 1
        self._add(bundle, outlet)
        self._errands.begin(self._join_all(bundle, named), bundle.receiver)

    def _add(self, bundle: Bundle, outlet: Outlet) -> None:
        self._outlets[bundle] = outlet
        bundle.gone = outlet.gone
        self._flow.subscribed(bundle)

    def take_up(self, bundle: Bundle, durable: DurableQueue, outlet: Outlet) -> None:
        """
        Let a durable subscription of a wildcard have a consumer: of its parts, now and later.

        It is a strand on what has the wildcard's name, too, where nothing comes: first and last, so
        that the subscription is seen to have a consumer for as long as any part has.

        Raises:
            DestinationError: There are too many subscriptions.
        """
        self._add(bundle, outlet)
        bundle.is_durable = True
        try:
            self._join(bundle, durable)
        except DestinationError:
            self.unsubscribe(bundle)
            raise
        self._errands.begin(self._join_parts(bundle, durable), bundle.receiver)

    def _join_parts(self, bundle: Bundle, durable: DurableQueue) -> Iterator[None]:
        try:
            if not durable.lasting.is_declared:
                pattern = parse_pattern(f"topic://{durable.topic.name}")
                yield from self._durables.mark_topics(pattern)
            for count, key in enumerate(self._durables.parts_of(durable.number), 1):
                if bundle.is_closed:
                    return
                part = self._durables.find(key)
                if part is not None:
                    self._join(bundle, part)
                if not count % _JOINED_PER_STEP:
                    yield
        except DestinationError as error:
            self._fail(bundle, error)
            return
        if not bundle.is_closed:
            self._outlets[bundle].joined(bundle)

    def _part_came(self, durable: DurableQueue, part: DurableQueue) -> None:
        """Let who consumes from a durable subscription of a wildcard have a new part at once."""
        for consumer in list(durable.subscriptions):
            if isinstance(consumer, Strand) and not consumer.whole.is_closed:
                try:
                    self._join(consumer.whole, part)
                except DestinationError as error:
                    failing = self._failing(consumer.whole, error)
                    self._errands.begin(failing, consumer.receiver)

    def _failing(self, bundle: Bundle, error: DestinationError) -> Iterator[None]:
        yield  # Somebody else is being served.
        self._fail(bundle, error)

    def bind_all(self) -> None:
        """Let names with wildcards consume virtual topics that were subscribed to too early."""
        self._errands.begin(self._bind_all(list(self._outlets)))

    def _bind_all(self, bundles: list[Bundle]) -> Iterator[None]:
        for count, bundle in enumerate(bundles, 1):
            try:
                if not bundle.is_closed:
                    yield from self._bind(bundle)
            except DestinationError as error:
                self._fail(bundle, error)
            if not count % _JOINED_PER_STEP:
                yield

    def _bind(self, bundle: Bundle) -> Iterator[None]:
        for pattern in bundle.patterns:
            if pattern.kind is Kind.QUEUE:
                yield from bind(self._destinations, pattern.text)

    def _join_all(self, bundle: Bundle, named: Sequence[Queue | Topic]) -> Iterator[None]:
        try:
            yield from self._bind(bundle)
            for destination in named:
                self._join(bundle, destination)
            if bundle.patterns:
                yield from self._join_matching(bundle)
        except DestinationError as error:
            self._fail(bundle, error)
            return
        if not bundle.is_closed:
            self._outlets[bundle].joined(bundle)

    def _join_matching(self, bundle: Bundle) -> Iterator[None]:
        for kind in dict.fromkeys(it.kind for it in bundle.patterns):
            yield from self._join_matching_of(kind, bundle)

    def names_of(self, kind: Kind) -> Sequence[str]:
        """
        Give all names of a kind, of which none is taken out while somebody looks at them.

        All who look at once have the same: each has only its place in them. Of topics there are
        those, too, to which nobody but durable subscriptions listens.
        """
        destinations = self._destinations
        is_queue = kind is Kind.QUEUE
        stored: set[str] = set()
        topics = destinations.topics
        if kind is Kind.TEMPORARY_TOPIC:
            topics = destinations.temporaries.topics
        elif not is_queue:
            stored = destinations.stored.names()
        count = destinations.queue_count if is_queue else len(topics) + len(stored)
        names = self._names.get(kind)
        if names is None or len(names) > 2 * count + _NAMES_SPARE:
            names = _Names(destinations.queue_names() if is_queue else stored.union(topics))
            self._names[kind] = names
        return names

    def _join_matching_of(self, kind: Kind, bundle: Bundle) -> Iterator[None]:
        names = self.names_of(kind)
        joined_count = start = 0
        per_step = max(1, _MATCHED_PER_STEP // len(bundle.patterns))
        while start < len(names):
            some = names[start : start + per_step]
            if start:
                yield
            start += len(some)
            for name in some:
                if not any(it.matches(kind, name) for it in bundle.patterns):
                    continue
                if joined_count and not joined_count % _JOINED_PER_STEP:
                    yield
                if bundle.is_closed:
                    return
                destination = self._known(kind, name)
                if destination is not None:
                    joined_count += self._join(bundle, destination, is_wild=True)

    def _known(self, kind: Kind, name: str) -> Queue | Topic | None:
        """Give what has a name, if it is there still, and no connection's own."""
        destinations = self._destinations
        if kind is Kind.TOPIC:
            return destinations.topics.get(name)
        return destinations.queue(name) if destinations.has_queue(name) else None

    def _join(self, bundle: Bundle, destination: Queue | Topic, *, is_wild: bool = False) -> bool:
        """Let a subscription have a part on a destination, if it has none; whether it had none."""
        if bundle.is_closed or destination.is_deleted or destination in bundle.strands:
            return False
        if is_wild and (destination.name.startswith(OWN_MARK) or has_wildcards(destination.name)):
            return False
        outlet = self._outlets[bundle]
        strand = outlet.strand(bundle, destination, is_wild=is_wild)
        bundle.strands[destination] = strand
        joining = destination.joining if isinstance(destination, Topic) else None
        if joining is not None and bundle.number < joining.known_count:
            joining.arrivals.append(strand)
        self._routing.subscribe(strand, destination)
        outlet.opened(strand)
        return True

    def _fail(self, bundle: Bundle, error: DestinationError) -> None:
        outlet = self._outlets.get(bundle)
        if outlet is not None:
            outlet.failed(bundle, error)

    def _came(self, destination: Queue | Topic) -> None:
        """Let those join a new destination whose wildcards mean it."""
        wildcards = self._destinations.leadership.wildcards
        kind = kind_of(destination)
        looked_through = self._names.get(kind)
        if looked_through is not None:
            looked_through.append(destination.name)
        if wildcards and wildcards.concern(kind, destination.name):
            self._coming.append(destination)
            if isinstance(destination, Topic):
                destination.begin_joining(self._subscribed_count)
            if len(self._coming) == 1:
                self._errands.begin(self._let_join_all(self._coming))

    def _let_join_all(self, coming: deque[Queue | Topic]) -> Iterator[None]:
        """Let what is new be joined, one after the other: whom each concerns is listed then."""
        while coming:
            destination = coming[0]
            wildcards = self._destinations.leadership.wildcards
            yield from self._let_join(
                wildcards.of(kind_of(destination), destination.name), destination
            )
            coming.popleft()
            if isinstance(destination, Topic):
                destination.end_joining()
                self._routing.joined(destination)
            if coming:
                yield

    def _let_join(self, bundles: list[Bundle], destination: Queue | Topic) -> Iterator[None]:
        for count, bundle in enumerate(bundles, 1):
            try:
                self._join(bundle, destination, is_wild=True)
            except DestinationError as error:
                self._fail(bundle, error)
            except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
                self._errands.fail(bundle.receiver, error)
            if not count % _JOINED_PER_STEP:
                yield

    def _went(self, destination: Queue | Topic) -> None:
        """Let all leave a destination that is gone: they came by wildcards."""
        if destination.subscriptions:
            if isinstance(destination, Topic):
                self._routing.recovering.leave(destination)
            self._errands.begin(self._let_leave(destination), destination)

    def _let_leave(self, destination: Queue | Topic) -> Iterator[None]:
        for count, consumer in enumerate(list(destination.subscriptions), 1):
            if isinstance(consumer, Strand) and not consumer.is_closed:
                try:
                    self._leave(consumer, destination)
                except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
                    self._errands.fail(consumer.receiver, error)
            if not count % _JOINED_PER_STEP:
                yield

    def _leave(self, strand: Strand, destination: Queue | Topic) -> None:
        """End a part; what it has in delivery is gone, and may be acknowledged late."""
        bundle = strand.whole
        if not bundle.is_closed:
            for key in strand.unacknowledged:
                strand.lapse(key)
        strand.unacknowledged.clear()
        bundle.strands.pop(destination, None)
        self._routing.close(strand, ReturnCause.RELEASED)
        if strand.overdue and not bundle.is_closed:
            bundle.lapsing[strand] = None
        else:
            bundle.gone(strand)

    def unsubscribe(
        self, subscription: Subscription, cause: ReturnCause = ReturnCause.RELEASED
    ) -> None:
        """Remove a consumer, of one destination or of several; see `Routing.unsubscribe`."""
        if not isinstance(subscription, Bundle):
            self._routing.unsubscribe(subscription, cause)
            return
        self._errands.begin(self.leaving(subscription, cause), subscription.receiver)

    def left(self, subscription: Subscription, cause: ReturnCause) -> Iterator[None]:
        """
        Remove a consumer of a connection that is gone.

        A durable subscription is left in these steps: another connection may take it up behind.
        """
        if isinstance(subscription, Bundle) and subscription.is_durable:
            yield from self.leaving(subscription, cause)
        else:
            self.unsubscribe(subscription, cause)

    def leaving(
        self, subscription: Bundle, cause: ReturnCause = ReturnCause.RELEASED
    ) -> Iterator[None]:
        """Remove a consumer of several; give the steps in which it leaves them, begun by none."""
        if cause is ReturnCause.LOST and subscription.held == 1:
            cause = ReturnCause.LOST_ALONE
        subscription.is_closed = True
        subscription.prefetch = 0
        self._flow.unsubscribed(subscription)
        self._destinations.leadership.wildcards.remove(subscription)
        del self._outlets[subscription]
        return self._leave_all(subscription, cause)

    def _leave_all(self, bundle: Bundle, cause: ReturnCause) -> Iterator[None]:
        strands, bundle.strands = bundle.strands, {}
        over, bundle.lapsing = bundle.lapsing, {}
        for strand in over:
            bundle.gone(strand)
        # The first one last: a durable subscription has a consumer until it has left all parts.
        for count, (destination, strand) in enumerate(reversed(list(strands.items())), 1):
            if not strand.is_closed:
                try:
                    bundle.gone(strand)
                    self._routing.close(strand, cause)
                except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
                    self._errands.fail(destination, error)
            if not count % _JOINED_PER_STEP:
                yield
