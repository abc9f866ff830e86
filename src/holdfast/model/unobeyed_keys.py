"""
Keys of ActiveMQ's policy entries that nothing obeys here, and why.

What would tune something that there is none of is taken with a notice; what is not built is
refused, as to take it would be a lie: with what to say instead, where it will not be.
"""

from __future__ import annotations

from typing import Final

MOOT: Final = frozenset(
    [
        "blockedProducerWarningInterval",
        "concurrentSend",
        "copyMessage",
        "cursorMemoryHighWaterMark",
        "doOptimzeMessageStorage",
        "durableTopicPendingPolicy",
        "enableAudit",
        "ignoreNetworkConsumers",
        "lazyDispatch",
        "local",
        "maxAuditDepth",
        "maxBrowsePageSize",
        "maxExpirePageSize",
        "maxPageSize",
        "maxProducersToAudit",
        "maxQueueAuditDepth",
        "messageGroupMapFactoryType",
        "minimumMessageSize",
        "optimizeMessageStoreInFlightLimit",
        "optimizedDispatch",
        "pendingDurableSubscriberPolicy",
        "pendingQueuePolicy",
        "pendingSubscriberPolicy",
        "persistJMSRedelivered",
        "reduceMemoryFootprint",
        "sendDuplicateFromStoreToDLQ",
        "storeUsageHighWaterMark",
        "transactedSend",
        "useCache",
        "usePrefetchExtension",
        "useTopicSubscriptionInflightStats",
    ]
)
"""ActiveMQ's keys that tune what there is none of here."""

UNBUILT: Final = frozenset(
    [
        "advancedMessageStatisticsEnabled",
        "advancedNetworkStatisticsEnabled",
        "dispatchPolicy",
        "gcWithNetworkConsumers",
        "includeBodyForAdvisory",
        "messageInterceptorStrategy",
        "networkBridgeFilterFactory",
    ]
)
"""Keys of what is still to be built; each moves up when something obeys it."""

DECLINED: Final = {
    "maxDestinations": "queue_count_max in [broker] says how many queues there may be in all",
    "setOriginalDestination": "a queue that consumes a virtual topic is called by it",
    "dropOnResourceLimit": "overflow=drop-head lets the queue's oldest go, and the others go on",
    "priorityWeights": "a queue of their own is for those that must not wait for higher ones",
    "strictOrderDispatch": "consumers say who comes first, with activemq.priority",
    "selectorAware": "forwardTo with a selector behind `when` lets a queue have some of a topic",
}
"""Keys of what will not be built (decisions 0044, 0045, 0047, 0048), and what to say instead."""
