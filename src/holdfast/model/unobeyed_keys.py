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
        "cursorMemoryHighWaterMark",
        "doOptimzeMessageStorage",
        "durableTopicPendingPolicy",
        "enableAudit",
        "lazyDispatch",
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
        "advisoryForConsumed",
        "advisoryForDelivery",
        "advisoryForDiscardingMessages",
        "advisoryForDispatched",
        "advisoryForFastProducers",
        "advisoryForSlowConsumers",
        "advisoryWhenFull",
        "alwaysRetroactive",
        "deadLetterOverflow",
        "destinationPerDurableSubscriber",
        "dispatchPolicy",
        "durableTopicPrefetch",
        "gcInactiveDestinations",
        "gcWithNetworkConsumers",
        "inactiveTimeoutBeforeGC",
        "inactiveTimoutBeforeGC",
        "includeBodyForAdvisory",
        "maxDestinations",
        "maxLength",
        "maxLengthBytes",
        "memoryLimit",
        "messageEvictionStrategy",
        "messageInterceptorStrategy",
        "networkBridgeFilterFactory",
        "offlineDurableSubscriberTimeout",
        "overflow",
        "paused",
        "pendingMessageLimitStrategy",
        "prioritizedMessages",
        "priorityWeights",
        "producerFlowControl",
        "sendAdvisoryIfNoConsumers",
        "sendFailIfNoSpace",
        "sendFailIfNoSpaceAfterTimeout",
        "slowConsumerStrategy",
        "strictOrderDispatch",
        "subscriptionRecoveryPolicy",
        "suspectAfter",
        "topicPrefix",
        "topicSuffix",
    ]
)
"""Keys of what is still to be built; each moves up when something obeys it."""
