"""
Subscriptions of a connection to several queues and topics: what their parts need of it.

Each part has a number of its own on the connection, by which its deliveries are acknowledged; the
client knows them all by the one id of the subscription.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.broker.serving.bundle import Bundle, Strand, kind_of
from holdfast.broker.serving.consumer import DeliveryForm, MessageSelector, subscription_cost
from holdfast.broker.serving.durable import DurableQueue
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.errors import DestinationError, PolicyError
from holdfast.model.destination import Destination, Kind
from holdfast.model.wildcards import Pattern, parse_pattern
from holdfast.sessions.holder import Holder
from holdfast.sessions.holdings import Holdings
from holdfast.sessions.requirements import require_subscription_room


def pattern_of(written: Destination) -> Pattern:
    """
    Give what a wildcard means.

    Raises:
        DestinationError: It has a `*` or `>` where none can stand.
    """
    try:
        return parse_pattern(f"{written.kind.value}://{written.name}")
    except PolicyError as error:
        raise DestinationError(f"destination '{written}': {error}") from error


def subscribe(
    holdings: Holdings, bundle: Bundle, exact: tuple[Destination, ...], parts: Parts
) -> None:
    """
    Add a subscription that has a place (`require_place`) to what it names, and what that means.

    Raises:
        DestinationError: There are too many kinds of patterns.
    """
    holdings.subscriptions[bundle.id] = bundle
    try:
        named = holdings.targets(parts.session, exact)
        holdings.broker.subscribe_to_several(bundle, named, parts)
    except DestinationError:
        holdings.subscriptions.pop(bundle.id, None)
        raise


def take_up(holdings: Holdings, bundle: Bundle, durable: DurableQueue, parts: Parts) -> None:
    """
    Add a consumer that has a place (`require_place`) of a durable subscription of a wildcard.

    Raises:
        DestinationError: There are too many subscriptions.
    """
    holdings.subscriptions[bundle.id] = bundle
    try:
        holdings.broker.bundling.take_up(bundle, durable, parts)
    except DestinationError:
        holdings.subscriptions.pop(bundle.id, None)
        raise


def leave(holdings: Holdings, session: Holder, bundle: Bundle, then: Callable[[], None]) -> None:
    """End a consumer of a durable subscription in steps; its client is served again behind them."""
    del holdings.subscriptions[bundle.id]
    holdings.by_ordinal.pop(b"%d" % bundle.ordinal, None)
    count = len(bundle.strands) + bundle.held
    steps = holdings.broker.bundling.leaving(bundle)
    holdings.wait_for(session, _steps_and(steps, session, then), count)


def _steps_and(steps: Iterator[None], session: Holder, then: Callable[[], None]) -> Iterator[None]:
    yield from steps
    session.recount_room()  # What was on its way to it is not written any more.
    then()


def prefetch_of(holdings: Holdings, wanted: int | None) -> int:
    """Give how much a subscription may have of all its destinations, which have no policy alike."""
    settings = holdings.broker.settings
    if wanted is None:
        return settings.prefetch_default
    return min(wanted, settings.prefetch_max) or settings.prefetch_max


class Parts:
    """What the parts of one subscription need of its connection (`bundling.Outlet`)."""

    def __init__(
        self,
        session: Holder,
        holdings: Holdings,
        *,
        form: Callable[[Subscription], DeliveryForm],
        selector: Callable[[Destination, Queue | Topic], MessageSelector | None],
        say_joined: Callable[[], None],
        say_failed: Callable[[DestinationError], None],
    ) -> None:
        self.session = session
        self._holdings = holdings
        self._form = form
        self._selector = selector
        self._say_joined = say_joined
        self._is_joined = False
        self._say_failed = say_failed

    def strand(self, bundle: Bundle, destination: Queue | Topic, *, is_wild: bool) -> Strand:
        """
        Make a part of the bundle.

        Raises:
            DestinationError: There are too many subscriptions.
        """
        written = self._written(destination)
        cost = 2 * subscription_cost(bundle.id, str(written))
        broker, is_running = self._holdings.broker, self._is_joined
        require_subscription_room(broker, cost, bundle.user, is_running=is_running)
        strand = Strand(
            bundle,
            destination=str(written),
            selector=self._selector(written, destination),
            is_wild=is_wild,
        )
        strand.user = bundle.user
        strand.ordinal = self._holdings.next_ordinal()
        self._holdings.by_ordinal[b"%d" % strand.ordinal] = strand
        return strand

    def _written(self, destination: Queue | Topic) -> Destination:
        """Give how its client writes a destination, by which its messages are addressed."""
        if isinstance(destination, DurableQueue):
            return Destination(Kind.TOPIC, destination.topic.name)
        kind, name = kind_of(destination), destination.name
        if destination.is_temporary:
            own = f"{self.session.address}."
            is_queue = kind is Kind.QUEUE
            kind = Kind.TEMPORARY_QUEUE if is_queue else Kind.TEMPORARY_TOPIC
            name = name.removeprefix(own)
        return Destination(kind, name)

    def opened(self, strand: Strand) -> None:
        """Note that a part has joined its destination."""
        strand.form = self._form(strand)

    def gone(self, strand: Strand) -> None:
        """Forget a part of whose deliveries nothing can be said any more."""
        self._holdings.by_ordinal.pop(b"%d" % strand.ordinal, None)

    def joined(self, bundle: Bundle) -> None:
        """Tell the client that all that is there now is joined."""
        self._is_joined = True
        self._say_joined()

    def failed(self, bundle: Bundle, error: DestinationError) -> None:
        """End the subscription, and tell its client why."""
        if self._holdings.subscriptions.get(bundle.id) is bundle:
            self._holdings.unsubscribe(self.session, bundle)
        self._say_failed(error)
