"""
Keys of ActiveMQ's policy entries that nothing obeys here, and why.

What would tune something that there is none of is taken with a notice; what is not built yet is
refused, as to take it would be a lie.
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
        "alwaysRetroactive",
        "destinationPerDurableSubscriber",
        "dispatchPolicy",
        "dropOnResourceLimit",
        "gcWithNetworkConsumers",
        "includeBodyForAdvisory",
        "maxDestinations",
        "messageEvictionStrategy",
        "messageInterceptorStrategy",
        "networkBridgeFilterFactory",
        "paused",
        "priorityWeights",
        "producerFlowControl",
        "selectorAware",
        "setOriginalDestination",
        "strictOrderDispatch",
        "subscriptionRecoveryPolicy",
    ]
)
"""Keys of what is still to be built; each moves up when something obeys it."""
