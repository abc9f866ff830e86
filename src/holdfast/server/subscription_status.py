"""
Durable subscriptions of one node, as its admin port tells of them.

Invariants:
    Each is looked at when it is asked for, in a few microseconds, of a wildcard in steps; of all
    together there are sums.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Final

from holdfast.admin.counters import TopicCounters
from holdfast.admin.status import QueueDepth
from holdfast.admin.subscription_status import SubscriptionStatus, key_of, key_text
from holdfast.broker.broker import Broker
from holdfast.broker.lasting.topics import LastingSubscription
from holdfast.broker.outputs import Replier
from holdfast.errors import DestinationError
from holdfast.model.destination import has_wildcards

_LOOKED_AT_PER_STEP: Final = 32
"""So many parts of one are looked at together: 0.1 ms."""


def topic_counters(broker: Broker) -> TopicCounters:
    """Sum up what is stored of topics: of ten thousand in about two milliseconds."""
    state, leadership = broker.state, broker.destinations.leadership
    topics = state.topics.values()
    wild = [name for name in state.topics if (">" in name or "*" in name) and has_wildcards(name)]
    count = len(state.subscriptions) - sum(map(len, state.parts.values()))
    wholes = [each for each in leadership.durables.values() if not each.whole_number]
    active = sum([1 for each in wholes if each.subscriptions])
    return TopicCounters(
        stored=len(topics) - len(wild),
        messages=sum([each.index.live_count for each in topics]),
        bytes=sum([each.index.live_bytes for each in topics]),
        durable_subscriptions=count,
        offline=max(count - active, 0) if broker.is_leading else None,
    )


def subscription_keys(broker: Broker) -> Iterator[str]:
    """Give what all of them are known by, in no order."""
    for key, lasting in list(broker.state.subscriptions.items()):
        if not lasting.whole_number:
            yield key_text(*key)


def subscription_depths(broker: Broker) -> Iterator[QueueDepth | None]:
    """Give what is summed over all of them; None is a look that takes long."""
    for told in subscription_statuses(broker, subscription_keys(broker)):
        if told is None:
            yield None
            continue
        yield QueueDepth(told.name, told.messages, told.unacknowledged, told.is_active, told.bytes)


def subscription_statuses(
    broker: Broker, keys: Iterable[str]
) -> Iterator[SubscriptionStatus | None]:
    """Give those of these keys that are there; None is a look that takes long."""
    for text in keys:
        lasting = broker.state.subscriptions.get(key_of(text))
        if lasting is None:
            continue
        queue = broker.destinations.leadership.half_of(lasting)
        count, size, in_delivery = yield from _summed(broker, lasting)
        yield SubscriptionStatus(
            client_id=lasting.client_id,
            name=lasting.name,
            owner=lasting.owner.name,
            topic=lasting.topic.name,
            selector=lasting.selector,
            no_local=lasting.has_no_local,
            number=lasting.number,
            messages=count,
            bytes=size,
            unacknowledged=in_delivery,
            is_active=bool(queue is not None and queue.subscriptions),
            detached_at_ms=lasting.detached_at,
        )


def _summed(
    broker: Broker, lasting: LastingSubscription
) -> Generator[None, None, tuple[int, int, int]]:
    """Give how many messages it has, their bytes, and how many are in delivery, over all parts."""
    count = size = in_delivery = 0
    parts = broker.state.parts.get(lasting.number, {})
    for place, each in enumerate((lasting, *parts.values()), 1):
        if not place % _LOOKED_AT_PER_STEP:
            yield None
        count += each.index.live_count
        size += each.index.live_bytes
        queue = broker.destinations.leadership.half_of(each)
        if queue is not None:
            count += queue.transient_count
            size += queue.transient_bytes
            in_delivery += sum(len(it.unacknowledged) for it in queue.subscriptions)
    return count, size, in_delivery


def end_subscription(
    broker: Broker, client_id: str, name: str, replier: Replier, receipt: bytes
) -> int:
    """
    End a durable subscription; give how many messages it was not given.

    Raises:
        DestinationError: There is no such subscription, or somebody consumes from it.
    """
    queue = broker.durables.find((client_id, name))
    if queue is None or queue.whole_number:
        raise DestinationError(f"there is no subscription {name!r} of client-id {client_id!r}")
    if queue.subscriptions:
        raise DestinationError(
            f"subscription {name!r} of client-id {client_id!r} has a consumer; disconnect it first"
        )
    parts = broker.state.parts.get(queue.number, {}).values()
    removed = queue.index.live_count if queue.lasting.is_declared else 0
    removed += sum([each.index.live_count for each in parts])
    broker.durables.remove(queue)
    broker.receipts.reply_with_batch(replier, receipt)
    return removed
