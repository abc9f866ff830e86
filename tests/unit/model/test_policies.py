"""What may be said of destinations, and what each mistake is told."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import fields

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.model.destination import Kind
from holdfast.model.policies import NEAR_COUNT_MAX, as_text, moot_notice, read_values, redelivery_of
from holdfast.model.policy_options import OPTIONS
from holdfast.model.redelivery import Redelivery


def fault(kind: Kind, **said: object) -> str:
    spoken = read_values(kind, said)
    assert spoken.values == {}
    ((name, why),) = spoken.faults
    assert [name] == list(said)
    return why


def test_values_are_read_as_they_are_written() -> None:
    """From a command line all are texts; a file has numbers."""
    said = {"queuePrefetch": "10", "deadLetterStrategy": "individual", "queuePrefix": "DLQ."}
    spoken = read_values(Kind.QUEUE, said)
    assert spoken.values == {**said, "queuePrefetch": 10}
    assert (spoken.moot, spoken.faults) == ((), ())
    assert read_values(Kind.TOPIC, {"topicPrefetch": 1}).values == {"topicPrefetch": 1}


def test_of_few_unknown_keys_it_is_looked_what_was_meant(monkeypatch) -> None:
    """A request may have thousands: to look for all of them took a node longer than an election."""
    looked: list[str] = []

    def near(name: str, *_: object, **__: object) -> list[str]:
        looked.append(name)
        return ["queuePrefetch"]

    monkeypatch.setattr(difflib, "get_close_matches", near)
    said = {f"queuePrefetch{number}": 1 for number in range(2_000)}
    spoken = read_values(Kind.QUEUE, said)
    assert [name for name, _ in spoken.faults] == list(said)
    assert looked == list(said)[:NEAR_COUNT_MAX]
    assert [why for _, why in spoken.faults[:NEAR_COUNT_MAX]] == [
        "unknown key; did you mean queuePrefetch?"
    ] * NEAR_COUNT_MAX
    assert {why for _, why in spoken.faults[NEAR_COUNT_MAX:]} == {"unknown key"}


def test_numbers_with_a_sign_or_a_fraction_and_switches_are_read() -> None:
    """As a command line has them, and as a file has them."""
    texts = {
        "maximumRedeliveries": "-1",
        "backOffMultiplier": "1.5",
        "useExponentialBackOff": "true",
    }
    values = {"maximumRedeliveries": -1, "backOffMultiplier": 1.5, "useExponentialBackOff": "true"}
    assert read_values(Kind.QUEUE, texts).values == values
    in_file = values | {"useExponentialBackOff": True, "backOffMultiplier": 2}
    assert read_values(Kind.QUEUE, in_file).values == values | {"backOffMultiplier": 2.0}


def test_what_is_said_of_redelivery_counts_before_what_holds() -> None:
    """Key by key; where nothing is said nothing holds, not even a default."""
    assert redelivery_of({"queuePrefetch": 1}) is None
    base = redelivery_of({"maximumRedeliveries": 3, "useExponentialBackOff": "true"})
    assert base == Redelivery(maximum=3, is_exponential=True)
    assert redelivery_of({}, base) == base
    own = {"redeliveryDelay": 7, "useExponentialBackOff": "false"}
    assert redelivery_of(own, base) == Redelivery(maximum=3, delay_ms=7)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("queuePrefetch", 0, "0 is out of range; allowed: 1 to 65,535"),
        ("queuePrefetch", True, "True is out of range"),
        ("queuePrefetch", "ten", "'ten' is out of range"),
        ("queuePrefetch", 1.5, "1.5 is out of range"),
        ("queuePrefetch", [1], "is out of range"),
        ("queuePrefetch", 1 << 70, "such a number is out of range"),
        ("deadLetterStrategy", "nowhere", "is not one of them; allowed: shared, individual, disc"),
        ("deadLetterStrategy", 1, "1 is no text"),
        ("deadLetterQueue", "", "is no such name; allowed: 1 to 1,024 bytes"),
        ("deadLetterQueue", "a,b", "several at once"),
        ("deadLetterQueue", "a.>", "wildcards are for"),
        ("deadLetterQueue", " a", "no queue can be called so"),
        ("deadLetterQueue", "/queue/a", "write the name alone"),
        ("deadLetterQueue", "queue://a", "write the name alone"),
        ("deadLetterQueue", "a?b=c", "no queue can be called so"),
        ("deadLetterQueue", "a\nb", "is no such name"),
        ("queuePrefix", "", "is no such name; allowed: 1 to 256 bytes"),
        ("queuePrefix", "*.", "wildcards are for"),
        ("queueSuffix", ".>", "wildcards are for"),
        ("queueSuffix", "x" * 300, "is no such name; allowed: 0 to 256 bytes"),
        ("dispatchPolicy", 6, "is not built yet"),
        ("maxDestinations", 6, "nothing obeys it here; queue_count_max in [broker]"),
        ("setOriginalDestination", "true", "nothing obeys it here; a queue that consumes"),
        ("maximumRedeliveries", -2, "-2 is out of range; allowed: -1 to 254"),
        ("maximumRedeliveries", "--1", "'--1' is out of range"),
        ("maximumRedeliveries", 1.5, "1.5 is out of range"),
        ("backOffMultiplier", "x", "'x' is out of range; allowed: 1 to 1,000"),
        ("backOffMultiplier", float("nan"), "nan is out of range"),
        ("backOffMultiplier", True, "True is out of range"),
        ("collisionAvoidanceFactor", 1.01, "1.01 is out of range; allowed: 0 to 1"),
        ("useExponentialBackOff", "yes", "is not one of them; allowed: false, true"),
        ("useExponentialBackOff", 1, "1 is no text"),
        ("queuePrefech", 6, "unknown key; did you mean queuePrefetch?"),
        ("x" * 100_000, 6, "unknown key"),
        ("topicPrefetch", 6, "is a key of topics, and the pattern is of queues"),
    ],
)
def test_a_mistake_is_told_with_what_is_allowed(name: str, value: object, why: str) -> None:
    """What nothing obeys is not taken: to take it would be a lie."""
    told = fault(Kind.QUEUE, **{name: value})
    assert why in told
    assert len(told) < 250


def test_what_stands_before_a_name_is_tried_there() -> None:
    """Behind another one a space would be a part of the name, before it it would not."""
    for kind, name in ((Kind.QUEUE, "queuePrefix"), (Kind.TOPIC, "topicPrefix")):
        assert "no queue can be called so" in fault(kind, **{name: " ."})


def test_keys_that_tune_what_there_is_none_of_are_taken_with_a_notice() -> None:
    """A policy of ActiveMQ's moves over as it is."""
    spoken = read_values(Kind.QUEUE, {"useCache": "x", "queuePrefetch": 7, "maxPageSize": 9})
    assert spoken.values == {"queuePrefetch": 7}
    assert moot_notice(spoken.moot).startswith("maxPageSize, useCache: nothing is done")


def test_a_default_is_a_setting_of_the_broker_or_can_be_said() -> None:
    """What holds without a policy could be said by one."""
    settings = {each.name: each.default for each in fields(BrokerSettings)}
    for option in OPTIONS.values():
        section, _, name = option.setting.partition(".")
        assert not section or section == "broker"
        default = settings[name] if option.setting else option.default
        assert read_values(option.kind, {option.name: default}).values == {option.name: default}


def test_equal_values_are_equal_texts() -> None:
    """In whatever order they were said; none are no text."""
    both = {"b": "\u00e9", "a": 1}
    assert as_text(both) == as_text(dict(reversed(both.items()))) == '{"a":1,"b":"\u00e9"}'
    assert json.loads(as_text(both)) == both
    assert as_text({}) == ""


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("x-max-length", "maxLength"),
        ("max-size-bytes", "maxLengthBytes"),
        ("inactiveTimoutBeforeGC", "inactiveTimeoutBeforeGC"),
    ],
)
def test_other_brokers_names_are_the_same_keys(name, key) -> None:
    """
    Kept under ours, whoever says it; said twice it is not known which one counts.
    """
    assert read_values(Kind.QUEUE, {name: 5}).values == {key: 5}
    spoken = read_values(Kind.QUEUE, {key: 5, name: 6})
    assert [(fault, "said twice" in why) for fault, why in spoken.faults] == [(name, True)]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("deadLetterQueue", "$schedule", r"begin with '\$' are the broker's own"),
        ("deadLetterQueue", "ActiveMQ.Statistics.Broker", "statistics.*are not served"),
        ("deadLetterQueue", "ActiveMQ.Scheduler.Management", "scheduled messages.*are not served"),
        ("deadLetterQueue", "ActiveMQ.Advisory.Connection", "advisory messages are the broker's"),
        ("queuePrefix", "$", r"begin with '\$' are the broker's own"),
        ("queuePrefix", "ActiveMQ.Statistics.", "are not served"),
        ("forwardTo", "a, topic://ActiveMQ.Statistics.Broker", "are not served"),
        ("forwardTo", "a, queue://b when", "'/queue/b when': behind 'when' a selector must follow"),
        ("forwardTo", "queue://b WHEN, a", "behind 'when' a selector must follow"),
    ],
)
def test_what_would_never_work_is_refused_as_it_is_said(name: str, value: str, why: str) -> None:
    """In a log an older version may have written it: there it counts as it did."""
    assert re.search(why, fault(Kind.QUEUE, **{name: value}))
    found = read_values(Kind.QUEUE, {name: value}, is_of_log=True)
    assert (found.values, found.faults) == ({name: value}, ())
    assert not read_values(Kind.QUEUE, {"forwardTo": "when, b when a = 1"}).faults
