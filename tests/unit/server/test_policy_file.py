"""What a node's file says comes into the log once, by the leader, if no newer file was there."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import POLICIES_LEVEL
from holdfast.model.policies import NO_POLICIES, FilePolicies
from holdfast.model.records import FormatRecord, PolicyRecord
from holdfast.server.policy_file import PolicyFile

FILE = FilePolicies(3, {"queue://a": {"queuePrefetch": 7}})


@pytest.fixture
def broker() -> Broker:
    """A leader whose log may hold policies."""
    broker = Broker(BrokerSettings(policy_count_max=2))
    broker.state.apply(1, [FormatRecord(POLICIES_LEVEL)], 1)
    broker.lead()
    return broker


def asked(broker: Broker) -> list[tuple[int, str, str]]:
    records = [it for it in broker.receipts.batch.records if isinstance(it, PolicyRecord)]
    return [(it.revision, it.pattern, it.values) for it in records]


def test_the_leader_brings_its_file_in_once(broker) -> None:
    """However often it is looked at, and however long the record takes."""
    file = PolicyFile(broker, FILE)
    for _ in range(3):
        file.step(is_leading=True)
    assert asked(broker) == [(3, "", ""), (3, "queue://a", '{"queuePrefetch":7}')]
    broker.apply_batch(broker.receipts.take_batch(), 2, 1)
    file.step(is_leading=True)
    assert asked(broker) == []


def test_nobody_else_does_nor_before_the_level_is_reached(broker) -> None:
    """A follower follows the log; a member of before could not read it."""
    file = PolicyFile(broker, FILE)
    file.step(is_leading=False)
    assert asked(broker) == []
    broker.state.format_level = POLICIES_LEVEL - 1
    file.step(is_leading=True)
    assert asked(broker) == []
    broker.state.format_level = POLICIES_LEVEL
    file.step(is_leading=True)
    assert len(asked(broker)) == 2


def test_a_file_without_policies_says_nothing(broker) -> None:
    """What files said before stays: to end it, a file says so under a higher revision."""
    broker.state.policies.apply(PolicyRecord("queue://a", "{}", 2), 1)
    file = PolicyFile(broker, NO_POLICIES)
    file.step(is_leading=True)
    file.stop()
    file.step(is_leading=True)
    assert asked(broker) == []


@pytest.mark.parametrize(("revision", "count"), [(2, 2), (4, 0)])
def test_an_older_file_changes_nothing_and_says_so(broker, revision: int, count: int) -> None:
    """As on a node that comes to lead after a failover, with the file of before."""
    broker.state.policies.apply(PolicyRecord("", "", revision), 1)
    file = PolicyFile(broker, FILE)
    with capture_logs() as lines:
        for _ in range(2):
            file.step(is_leading=True)
    assert len(asked(broker)) == count
    told = [line["event"] for line in lines if line["log_level"] == "warning"]
    assert len(told) == (not count)
    assert all("older than those in the log" in event for event in told)


@pytest.mark.parametrize("values", ['{"queuePrefetch":7}', '{"queuePrefetch":8}'])
def test_other_words_of_one_revision_are_told(broker, values: str) -> None:
    """Two nodes whose files differ under one number: the first one's count."""
    broker.state.policies.apply(PolicyRecord("queue://a", values, 3), 1)
    broker.state.policies.apply(PolicyRecord("queue://b", "{}"), 1)
    with capture_logs() as lines:
        PolicyFile(broker, FILE).step(is_leading=True)
    assert asked(broker) == []
    told = [line["event"] for line in lines if "raise policies.revision" in line["event"]]
    assert len(told) == ("8" in values)


def test_a_new_leadership_looks_again(broker) -> None:
    """What the last one asked for may never have been stored."""
    file = PolicyFile(broker, FILE)
    file.step(is_leading=True)
    broker.follow()
    file.stop()
    broker.lead()
    file.step(is_leading=True)
    assert len(asked(broker)) == 2


def test_too_many_patterns_do_not_end_the_node(broker) -> None:
    """An operator said some at run time: they count, and the file is told to count for nothing."""
    for name in "bc":
        broker.state.policies.apply(PolicyRecord(f"queue://{name}", '{"queuePrefetch":1}'), 1)
    with capture_logs() as lines:
        PolicyFile(broker, FILE).step(is_leading=True)
    assert asked(broker) == []
    assert [line["log_level"] for line in lines] == ["warning"]


def test_a_file_that_closes_a_circle_does_not_end_the_node(broker) -> None:
    """With an operator's word, of which its author knew nothing; looked at step by step."""
    broker.state.policies.apply(PolicyRecord("queue://b", '{"forwardTo":"a"}'), 1)
    ways = {"queue://a": {"forwardTo": "c"}, "queue://c": {"forwardTo": "b"}}
    file = PolicyFile(broker, FilePolicies(3, ways))
    with capture_logs() as lines:
        for _ in range(3):
            file.step(is_leading=True, is_spent=lambda: True)
        assert not lines
        for _ in range(20):
            file.step(is_leading=True, is_spent=lambda: True)
    assert asked(broker) == []
    (line,) = lines
    assert (line["log_level"], "circle" in line["reason"]) == ("warning", True)


def test_a_file_is_looked_at_step_by_step(broker) -> None:
    """A thousand lists take a third of a second."""
    file = PolicyFile(broker, FilePolicies(3, {"queue://a": {"forwardTo": "c"}}))
    steps = 0
    while not asked(broker):
        file.step(is_leading=True, is_spent=lambda: True)
        steps += 1
    assert steps > 2
