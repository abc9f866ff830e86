"""
Durable subscriptions of one node, as its admin port tells of them.

Invariants:
    Each is looked at when it is asked for, in a few microseconds; of all together there are sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.admin.counters import TopicCounters
from holdfast.admin.status import QueueDepth
from holdfast.admin.subscription_status import SubscriptionStatus, key_of, key_text
from holdfast.broker.broker import Broker
from holdfast.broker.outputs import Replier
from holdfast.errors import DestinationError


def topic_counters(broker: Broker) -> TopicCounters:
    """Sum up what is stored of topics: of ten thousand in about two milliseconds."""
    topics = broker.state.topics.values()
    leadership = broker.destinations.leadership
    count = len(broker.state.subscriptions)
    active = sum([1 for each in leadership.durables.values() if each.subscriptions])
    return TopicCounters(
        stored=len(topics),
        messages=sum([each.index.live_count for each in topics]),
        bytes=sum([each.index.live_bytes for each in topics]),
        durable_subscriptions=count,
        offline=max(count - active, 0) if broker.is_leading else None,
    )


def subscription_keys(broker: Broker) -> Iterator[str]:
    """Give what all of them are known by, in no order."""
    for key in list(broker.state.subscriptions):
        yield key_text(*key)


def subscription_depths(broker: Broker) -> Iterator[QueueDepth]:
    """Give what is summed over all of them."""
    for told in subscription_statuses(broker, subscription_keys(broker)):
        yield QueueDepth(told.name, told.messages, told.unacknowledged, told.is_active, told.bytes)


def subscription_statuses(broker: Broker, keys: Iterable[str]) -> Iterator[SubscriptionStatus]:
    """Give those of these keys that are there."""
    for text in keys:
        lasting = broker.state.subscriptions.get(key_of(text))
        if lasting is None:
            continue
        queue = broker.destinations.leadership.half_of(lasting)
        consumers = [] if queue is None else queue.subscriptions
        yield SubscriptionStatus(
            client_id=lasting.client_id,
            name=lasting.name,
            topic=lasting.topic.name,
            selector=lasting.selector,
            no_local=lasting.has_no_local,
            number=lasting.number,
            messages=lasting.index.live_count + (queue.transient_count if queue else 0),
            bytes=lasting.index.live_bytes + (queue.transient_bytes if queue else 0),
            unacknowledged=sum(len(each.unacknowledged) for each in consumers),
            is_active=bool(consumers),
            detached_at_ms=lasting.detached_at,
        )


def end_subscription(
    broker: Broker, client_id: str, name: str, replier: Replier, receipt: bytes
) -> int:
    """
    End a durable subscription; give how many messages it was not given.

    Raises:
        DestinationError: There is no such subscription, or somebody consumes from it.
    """
    queue = broker.durables.find((client_id, name))
    if queue is None:
        raise DestinationError(f"there is no subscription {name!r} of client-id {client_id!r}")
    if queue.subscriptions:
        raise DestinationError(
            f"subscription {name!r} of client-id {client_id!r} has a consumer; disconnect it first"
        )
    removed = queue.index.live_count if queue.lasting.is_declared else 0
    broker.durables.remove(queue)
    broker.receipts.reply_with_batch(replier, receipt)
    return removed
