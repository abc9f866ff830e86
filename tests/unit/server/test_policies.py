"""What operators are told of policies, and what becomes of what they say."""

from __future__ import annotations

import pytest

from holdfast.admin.policy_status import PolicyStatus, PolicyValue
from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import LevelNotReachedError
from holdfast.model.destination import Kind
from holdfast.model.records import PolicyRecord
from holdfast.model.wildcards import parse_pattern
from holdfast.server.node import Node
from holdfast.server.policies import policies_status, policy_values
from tests.unit.server.whole_node import run


def spoken(*records: PolicyRecord) -> Broker:
    broker = Broker(BrokerSettings())
    broker.lead()
    for number, record in enumerate(records, 1):
        broker.state.policies.apply(record, number)
    return broker


def test_every_pattern_is_told_with_whose_word_it_is() -> None:
    """Sorted by name; the revision of a file is no pattern."""
    broker = spoken(
        PolicyRecord("queue://b", '{"queuePrefetch":7}'),
        PolicyRecord("queue://b", '{"queuePrefetch":8}', 3),
        PolicyRecord("queue://a", '{"queuePrefetch":9}', 3),
    )
    found = policies_status(broker)
    assert found.revision == 3
    assert tuple(found.policies) == (
        PolicyStatus(pattern="queue://a", source="file", values={"queuePrefetch": 9}),
        PolicyStatus(pattern="queue://b", source="set", values={"queuePrefetch": 7}),
        PolicyStatus(pattern="queue://b", source="file", values={"queuePrefetch": 8}),
    )


def test_every_key_tells_where_it_is_from() -> None:
    """A default names its setting, if it has one; else the pattern and whose word it is."""
    broker = spoken(
        PolicyRecord("queue://a.*", '{"queuePrefetch":7}'),
        PolicyRecord("queue://a.>", '{"queuePrefetch":8,"queuePrefix":"p."}', 3),
    )
    found = {value.key: value for value in policy_values(broker, Kind.QUEUE, "a.b")}
    assert found["queuePrefetch"] == PolicyValue(
        key="queuePrefetch", value=7, source="set", pattern="queue://a.*"
    )
    assert found["queuePrefix"] == PolicyValue(
        key="queuePrefix", value="p.", source="file", pattern="queue://a.>"
    )
    assert found["deadLetterQueue"] == PolicyValue(
        key="deadLetterQueue",
        value="ActiveMQ.DLQ",
        source="default",
        setting="broker.dead_letter_queue",
    )
    assert found["deadLetterStrategy"].setting == ""


def test_what_an_operator_says_is_in_force_when_it_is_answered(tmp_path) -> None:
    """And is gone once it was taken back; while the log is not at that level, it is refused."""
    pattern = parse_pattern("queue://a")

    async def work(node: Node) -> list[object]:
        asked = node.administration
        broker = node.parts.broker
        broker.state.format_level = 1
        with pytest.raises(LevelNotReachedError):
            await asked.say_policy(pattern, {"queuePrefetch": 7})
        broker.state.format_level = 3
        said = await asked.say_policy(pattern, {"queuePrefetch": 7})
        in_force = asked.policy_of(Kind.QUEUE, "a")[0].value
        left = await asked.take_back_policy(pattern, [])
        return [said, in_force, left, asked.policy_of(Kind.QUEUE, "a")[0].value]

    found, _ = run(tmp_path, work)
    assert found == [{"queuePrefetch": 7}, 7, {}, 1_000]
