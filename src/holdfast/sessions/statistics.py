"""
What ActiveMQ's statistics plugin tells, by its names, as far as it is known here.

What is not known here is not told: no number stands for one that nobody counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice
from typing import Final

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.durable import DurableQueue
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.model.destination import Destination, Kind
from holdfast.model.map_messages import MapValue
from holdfast.model.reserved_names import OWN_MARK
from holdfast.sessions.bundles import pattern_of
from holdfast.sessions.context import SessionContext
from holdfast.sessions.session import Session

Values = dict[str, MapValue]

_LOOKED_AT_PER_STEP: Final = 256
ANSWERS_MAX: Final = 1_000
"""So many answers one question gets."""
_COUNTED_MAX: Final = 1_000
"""What so many consumers have is added up; where there are more, nothing is said of it."""


def of_broker(broker: Broker, context: SessionContext) -> Values:
    """Tell of all together."""
    state, flow, settings = broker.state, broker.flow, broker.settings
    count, size = state.live_count(), state.live_bytes()
    published = broker.publishing.published_total
    return _who(context) | {
        "size": count,
        "enqueueCount": state.enqueued_total + published,
        "dequeueCount": state.acknowledged_total,
        "expiredCount": broker.expiring.expired_total,
        "averageMessageSize": size / count if count else 0.0,
        **_memory(flow.volatile_bytes, settings.memory_bytes),
        "consumerCount": flow.subscription_count,
    }


def of_destinations(
    broker: Broker, context: SessionContext, written: Destination
) -> Iterator[Values | None]:
    """
    Tell of queues or topics, by name or pattern; None after each bit of looking.

    Raises:
        DestinationError: It has a wildcard where none can stand.
    """
    kind = written.kind
    pattern = pattern_of(written) if written.is_wildcard else None

    def told() -> Iterator[Values | None]:
        names = iter([written.name]) if pattern is None else _names(broker, kind)
        for name in names:
            if name is None or (pattern is not None and not pattern.matches(kind, name)):
                values = None
            else:
                values = _of_destination(broker, kind, name)
            if values is not None:
                yield _who(context) | values
            elif name is None:
                yield None

    return told()


def _names(broker: Broker, kind: Kind) -> Iterator[str | None]:
    """
    Give the names of a kind, and None after each bit of looking.

    All who look at once look at the same: a list for each would be a megabyte.
    """
    found: Sequence[str] = broker.bundling.names_of(kind)
    place = 0
    while place < len(found):
        yield None
        some = found[place : place + _LOOKED_AT_PER_STEP]
        place += len(some)
        yield from (name for name in some if not name.startswith(OWN_MARK))


def _of_destination(broker: Broker, kind: Kind, name: str) -> Values | None:
    if kind is Kind.TOPIC:
        return _of_topic(broker, name)
    found = broker.destinations.find(name)
    return None if found is None or name.startswith(OWN_MARK) else _of_queue(broker, *found)


def _of_topic(broker: Broker, name: str) -> Values | None:
    """Tell of who is there, and of what is stored for durable subscriptions, each message once."""
    destinations = broker.destinations
    topic = destinations.topics.get(name)
    # Not `stored.topic`: a question makes nothing.
    lasting = broker.state.topics.get(name) if destinations.stored.is_stored(name) else None
    if topic is None and lasting is None:
        return None
    consumers = [] if topic is None else [topic.subscriptions]
    consumers += [each.subscriptions for each in _active(broker, name)]
    stored: Values = {}
    if lasting is not None:
        count, size = lasting.index.live_count, lasting.index.live_bytes
        stored = {
            "size": count,
            "enqueueCount": lasting.enqueued_total,
            "dequeueCount": lasting.acknowledged_total,
            "averageMessageSize": size / count if count else 0.0,
        }
    return {
        "destinationName": f"topic://{name}",
        **stored,
        **_in_delivery(*consumers),
        "consumerCount": sum(map(len, consumers)),
    }


def _active(broker: Broker, name: str) -> list[DurableQueue]:
    """Give the durable subscriptions of a topic that somebody consumes from."""
    served = broker.destinations.leadership.stored_topics.get(name)
    return [] if served is None else list(served.active)


def _of_queue(broker: Broker, lasting: LastingQueue, queue: Queue | None) -> Values:
    index = lasting.index
    count, size, memory = index.live_count, index.live_bytes, 0
    kind = "queue"
    limit = broker.settings.memory_bytes
    if queue is not None:
        count, size = count + queue.transient_count, size + queue.transient_bytes
        memory = queue.transient_bytes
        limits = broker.limiting.limits_of(queue)
        limit = limits.memory_bytes or limit if limits is not None else limit
        kind = "temp-queue" if queue.is_temporary else kind
    return {
        "destinationName": f"{kind}://{lasting.name}",
        "size": count,
        "enqueueCount": lasting.enqueued_total,
        "dequeueCount": lasting.acknowledged_total,
        **({"inflightCount": 0} if queue is None else _in_delivery(queue.subscriptions)),
        "averageMessageSize": size / count if count else 0.0,
        **_memory(memory, limit),
        "consumerCount": 0 if queue is None else len(queue.subscriptions),
    }


def _in_delivery(*consumers: Collection[Consumer]) -> Values:
    if sum(map(len, consumers)) > _COUNTED_MAX:
        return {}
    return {"inflightCount": sum([len(it.unacknowledged) for each in consumers for it in each])}


def of_subscriptions(broker: Broker, context: SessionContext) -> Iterator[Values | None]:
    """Tell of all who consume from queues, then of topics; None after each bit of looking."""
    for kind in (Kind.QUEUE, Kind.TOPIC, Kind.TEMPORARY_TOPIC):
        for name in _names(broker, kind):
            if name is None:
                yield None
                continue
            # Of more it would not be told.
            consumers = chain.from_iterable(it.subscriptions for it in _served(broker, kind, name))
            for each in list(islice(consumers, ANSWERS_MAX)):
                if not each.is_closed:
                    yield _who(context) | _of_consumer(broker, kind, name, each)


def _served(broker: Broker, kind: Kind, name: str) -> list[Queue | Topic]:
    """Give what has a name, as far as anybody may consume from it."""
    destinations = broker.destinations
    if kind is Kind.QUEUE:
        found = destinations.find(name)
        return [] if found is None or found[1] is None else [found[1]]
    if kind is not Kind.TOPIC:
        return [it for it in [destinations.temporaries.topics.get(name)] if it is not None]
    topic = destinations.topics.get(name)
    return [*([] if topic is None else [topic]), *_active(broker, name)]


def _of_consumer(broker: Broker, kind: Kind, name: str, consumer: Consumer) -> Values:
    assert isinstance(consumer, Subscription), "every consumer is one"
    session = consumer.receiver
    pending_max = consumer.pending_max
    return {
        "destinationName": f"{'queue' if kind is Kind.QUEUE else 'topic'}://{name}",
        "clientId": session.client_id if isinstance(session, Session) else "",
        "connectionId": session.id,
        "selector": "" if consumer.selector is None else consumer.selector.condition,
        "dispatchedQueueSize": len(consumer.unacknowledged),
        "prefetchSize": consumer.width,
        "maximumPendingMessageLimit": -1 if pending_max is None else pending_max,
        "exclusive": consumer.claim.is_exclusive,
        "slowConsumer": bool(consumer.pending) or broker.slowness.is_slow(consumer),
    }


def _memory(used: int, limit: int) -> Values:
    return {
        "memoryPercentUsage": 100 * used // limit if limit else 0,
        "memoryUsage": used,
        "memoryLimit": limit,
    }


def _who(context: SessionContext) -> Values:
    return {"brokerName": context.node, "brokerId": f"ID:{context.cluster}-{context.node}"}
