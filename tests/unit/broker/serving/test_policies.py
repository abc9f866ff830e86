"""What holds for a destination: merged key by key, from the general to the exact."""

from __future__ import annotations

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.serving import policies
from holdfast.broker.settings import BrokerSettings
from holdfast.model.advisory_options import ADVISED_BY
from holdfast.model.destination import Kind
from holdfast.model.limits import QUEUE_NAME_BYTES_MAX
from holdfast.model.policies import as_text
from holdfast.model.records import PolicyRecord
from holdfast.model.redelivery import Redelivery


@pytest.fixture
def broker() -> Broker:
    broker = Broker(BrokerSettings())
    broker.lead()
    return broker


def say(broker: Broker, pattern: str, revision: int = 0, **values: str | int) -> None:
    broker.state.policies.apply(PolicyRecord(pattern, as_text(values), revision), 1)


FORWARDING = {
    "forwardTo": ("", ""),
    "forwardOnly": ("true", ""),
    "sendWhenNotMatched": ("false", ""),
}
SLOWNESS = {
    "slowConsumerStrategy": ("none", ""),
    "maxSlowDuration": (30_000, ""),
    "maxSlowCount": (-1, ""),
    "maxTimeSinceLastAck": (30_000, ""),
    "checkPeriod": (30_000, ""),
    "abortConnection": ("false", ""),
    "ignoreIdleConsumers": ("true", ""),
    "producerFlowControl": ("true", ""),
    **dict.fromkeys(ADVISED_BY, ("false", "")),
}
"""What holds of queues and topics alike."""

AFTER_FAILURES = {
    "deadLetterStrategy": ("shared", ""),
    "processNonPersistent": ("false", ""),
    "processExpired": ("true", ""),
    "maximumRedeliveries": (6, ""),
    "initialRedeliveryDelay": (1000, ""),
    "redeliveryDelay": (1000, ""),
    "useExponentialBackOff": ("false", ""),
    "backOffMultiplier": (5.0, ""),
    "maximumRedeliveryDelay": (-1, ""),
    "useCollisionAvoidance": ("false", ""),
    "collisionAvoidanceFactor": (0.15, ""),
    "suspectAfter": (3, ""),
}
"""The same."""


def told(broker: Broker, name: str, kind: Kind = Kind.QUEUE) -> dict[str, tuple[object, str]]:
    found = broker.policies.explain(kind, name)
    return {
        key: (value, "" if record is None else f"{record.revision} {record.pattern}")
        for key, (value, record) in found.items()
    }


def test_without_policies_the_settings_hold() -> None:
    """All keys of a kind of destination are told, and only those."""
    broker = Broker(BrokerSettings(prefetch_default=77, dead_letter_queue="dead"))
    broker.lead()
    assert told(broker, "a") == {
        "queuePrefetch": (77, ""),
        "queueBrowserPrefetch": (500, ""),
        "queuePrefix": ("ActiveMQ.DLQ.Queue.", ""),
        "queueSuffix": ("", ""),
        "expiration": (0, ""),
        "paused": ("false", ""),
        "zeroExpirationOverride": (0, ""),
        "ttlCeiling": (0, ""),
        "futureOnly": ("false", ""),
        "expireMessagesPeriod": (30_000, ""),
        "deliverySecondsMax": (0, ""),
        "prioritizedMessages": ("false", ""),
        "useConsumerPriority": ("true", ""),
        "allConsumersExclusiveByDefault": ("false", ""),
        "consumersBeforeDispatchStarts": (0, ""),
        "timeBeforeDispatchStarts": (0, ""),
        "messageGroupBuckets": (4096, ""),
        "groupRebalance": ("true", ""),
        "redeliveryKeepsOrder": ("true", ""),
        "maxLength": (0, ""),
        "maxLengthBytes": (0, ""),
        "overflow": ("reject", ""),
        "deadLetterOverflow": ("false", ""),
        "memoryLimit": (0, ""),
        "sendFailIfNoSpace": ("false", ""),
        "sendFailIfNoSpaceAfterTimeout": (0, ""),
        **FORWARDING,
        **AFTER_FAILURES,
        "deadLetterQueue": ("dead", ""),
        **SLOWNESS,
        "mirrored": ("false", ""),
        "gcInactiveDestinations": ("false", ""),
        "inactiveTimeoutBeforeGC": (60_000, ""),
    }
    assert broker.policies.of(broker.queue("a"))[1:3] == (77, "dead")


def test_without_policies_the_settings_hold_for_topics() -> None:
    """Of these there are fewer keys."""
    broker = Broker(BrokerSettings())
    broker.lead()
    assert told(broker, "a", Kind.TOPIC) == {
        "topicPrefetch": (65_535, ""),
        "durableTopicPrefetch": (100, ""),
        "maxLength": (0, ""),
        "maxLengthBytes": (0, ""),
        "offlineDurableSubscriberTimeout": (-1, ""),
        "gcInactiveDestinations": ("false", ""),
        "inactiveTimeoutBeforeGC": (60_000, ""),
        "constantPendingMessageLimitStrategy": (-1, ""),
        "messageEvictionStrategy": ("oldestMessageEvictionStrategy", ""),
        "prefetchRatePendingMessageLimitStrategy": (0, ""),
        **FORWARDING,
        **AFTER_FAILURES,
        "deadLetterQueue": ("ActiveMQ.DLQ", ""),
        "topicPrefix": ("ActiveMQ.DLQ.Topic.", ""),
        "topicSuffix": ("", ""),
        "destinationPerDurableSubscriber": ("false", ""),
        **SLOWNESS,
        "virtualTopic": ("byName", ""),
        "virtualTopicPrefix": ("Consumer.*.", ""),
        "virtualTopicPostfix": ("", ""),
        "subscriptionRecoveryPolicy": ("noSubscriptionRecoveryPolicy", ""),
        "recoveryMaximumCount": (100, ""),
        "recoveryMaximumSize": (65_536, ""),
        "recoverDuration": (60_000, ""),
        "alwaysRetroactive": ("false", ""),
    }
    assert broker.policies.of(broker.topic("a"))[1:3] == (65_535, "")


def test_each_key_is_from_the_pattern_that_says_most_of_the_name(broker) -> None:
    """Whoever said it last; of the same pattern an operator's word counts before a file's."""
    say(broker, "queue://A.B", queuePrefetch=1)
    say(broker, "queue://A.>", queuePrefetch=2, queuePrefix="p.")
    say(broker, "queue://>", queuePrefetch=3, queuePrefix="q.", queueSuffix=".s")
    say(broker, "queue://A.>", 4, queuePrefetch=5, deadLetterQueue="f")
    say(broker, "topic://>", topicPrefetch=6)
    exact = told(broker, "A.B")
    assert exact["queuePrefetch"] == (1, "0 queue://A.B")
    assert exact["queuePrefix"] == ("p.", "0 queue://A.>")
    assert exact["queueSuffix"] == (".s", "0 queue://>")
    assert exact["deadLetterQueue"] == ("f", "4 queue://A.>")
    assert told(broker, "A.C")["queuePrefetch"] == (2, "0 queue://A.>")
    assert told(broker, "B")["queuePrefetch"] == (3, "0 queue://>")


def test_a_change_counts_at_once_and_what_was_found_is_kept_till_then(broker) -> None:
    """Asked again and again nothing is looked up; nothing of before is used after a change."""
    queue, topic = broker.queue("A.B"), broker.topic("A.B")
    say(broker, "queue://A.>", queuePrefetch=2)
    first = broker.policies.of(queue)
    assert (first.prefetch, broker.policies.of(queue) is first) == (2, True)
    say(broker, "queue://A.*", queuePrefetch=3)
    say(broker, "topic://A.*", topicPrefetch=4)
    assert (broker.policies.of(queue).prefetch, broker.policies.of(topic).prefetch) == (3, 4)
    broker.begin_anew()
    broker.lead()
    assert broker.policies.of(broker.queue("A.B")).prefetch == 1_000


def test_where_rejected_messages_go(broker) -> None:
    """To one queue for all, to one of their queue's own, or nowhere."""

    def target(name: str) -> str:
        return broker.policies.of(broker.queue(name)).dead_letter_queue

    say(broker, "queue://own.>", deadLetterStrategy="individual", queueSuffix=".dead")
    say(broker, "queue://shared", deadLetterQueue="theirs")
    say(broker, "queue://none", deadLetterStrategy="discard")
    assert target("own.a") == "ActiveMQ.DLQ.Queue.own.a.dead"
    assert target("shared") == "theirs"
    assert target("none") == ""
    assert target("other") == "ActiveMQ.DLQ"
    long = "own." + "x" * (QUEUE_NAME_BYTES_MAX - 10)
    assert target(long) == "ActiveMQ.DLQ", "where no queue can be called so"


def test_a_prefetch_is_never_above_the_nodes_own_limit() -> None:
    """A policy is for all nodes; what this one can bear its settings say."""
    broker = Broker(BrokerSettings(prefetch_max=50, prefetch_default=10))
    broker.lead()
    say(broker, "queue://>", queuePrefetch=100)
    assert broker.policies.of(broker.queue("a")).prefetch == 50


def test_temporary_destinations_are_meant_by_no_pattern(broker) -> None:
    """Their names are made of their connection's."""
    say(broker, "queue://>", queuePrefetch=2)
    say(broker, "topic://>", topicPrefetch=2)
    queue = broker.temporaries.queue("c.a", owner="c")
    topic = broker.temporaries.topic("c.a", owner="c")
    assert broker.policies.of(queue).prefetch == 1_000
    assert broker.policies.of(topic).prefetch == 65_535


def test_what_a_later_version_may_say_means_nothing(broker) -> None:
    """Patterns and keys of another form are left to who knows them."""
    policies = broker.state.policies
    policies.apply(PolicyRecord("stream://a", '{"queuePrefetch":1}'), 1)
    policies.apply(PolicyRecord("a.>.b", '{"queuePrefetch":1}'), 1)
    policies.apply(PolicyRecord("queue://old", '{"forwardTo":"b when"}'), 1)
    (forward,) = broker.policies.forwarding_of(Kind.QUEUE, "old").forwards
    assert forward.destination.name == "b when", "as an earlier version took it"
    later = '{"queuePrefetch":{"max":3},"queuePrefix":7,"new":1,"queueSuffix":".s"}'
    policies.apply(PolicyRecord("queue://a", later), 1)
    found = told(broker, "a")
    assert found["queuePrefetch"] == (1_000, "")
    assert found["queueSuffix"] == (".s", "0 queue://a")
    assert found["queuePrefix"] == ("ActiveMQ.DLQ.Queue.", "")


def test_redelivery_holds_once_anything_is_said_of_it() -> None:
    """From any pattern, key by key; until then there is none, whatever the defaults are."""
    broker = Broker(BrokerSettings())
    broker.lead()
    assert broker.policies.of(broker.queue("a.b")).redelivery is None
    say(broker, "queue://a.>", maximumRedeliveries=3)
    say(broker, "queue://a.b", redeliveryDelay=7)
    assert broker.policies.of(broker.queue("a.b")).redelivery == Redelivery(3, delay_ms=7)
    assert broker.policies.of(broker.queue("a.c")).redelivery == Redelivery(3)
    say(broker, "queue://a.b", 0, queuePrefetch=7)
    assert broker.policies.of(broker.queue("a.b")).redelivery == Redelivery(3)


def test_what_the_same_policies_mean_is_worked_out_once(broker, monkeypatch) -> None:
    """
    A message to a thousand queues that nobody asked about yet takes no thousand times 47 us.
    """
    asked = []
    plain = policies.read_values
    monkeypatch.setattr(
        policies,
        "read_values",
        lambda kind, it, **how: asked.append(kind) or plain(kind, it, **how),
    )
    say(broker, "queue://A.>", queuePrefetch=7, deadLetterStrategy="individual")
    say(broker, "queue://A.5", queuePrefetch=8)
    found = [broker.policies.of(broker.queue(f"A.{number}")) for number in range(100)]
    assert len(asked) == 3
    assert [it.prefetch for it in found] == [7] * 5 + [8] + [7] * 94
    assert found[3].dead_letter_queue == "ActiveMQ.DLQ.Queue.A.3"
    say(broker, "queue://A.>", queuePrefetch=9)
    assert broker.policies.of(broker.queue("A.3")).prefetch == 9
    assert broker.policies.of(broker.queue("B")).dead_letter_queue == "ActiveMQ.DLQ"
