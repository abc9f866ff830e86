"""
Answers of the broker go where they are wanted, as far as there is room.
"""

from __future__ import annotations

import json

from holdfast.model.format_level import DURABLE_LEVEL, WILD_DURABLES_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord
from holdfast.sessions.answering import say


def test_an_answer_goes_to_a_queue_and_within_its_limits(desk) -> None:
    """
    What has no room there is nowhere.
    """
    policy = json.dumps({"memoryLimit": 1})
    desk.broker.receipts.record(PolicyRecord("queue://answers", policy))
    desk.turn()
    queue, asker = desk.broker.queue("answers"), desk.connect()
    assert say(desk.broker, queue, b"a:b\n", b"1", asker.session)
    assert not say(desk.broker, queue, b"a:b\n", b"2", asker.session)
    reader = desk.connect()
    reader.subscribe("/queue/answers", ack="auto")
    assert reader.bodies() == ["1"]


def test_an_answer_goes_to_all_of_a_topic(desk) -> None:
    """
    To who subscribes to it and to its durable subscriptions.
    """
    desk.broker.receipts.record(FormatRecord(DURABLE_LEVEL))
    desk.turn()
    plain, lasting = desk.connect(), desk.connect(client_id="c")
    asker = plain
    plain.subscribe("/topic/answers", ack="auto")
    lasting.subscribe("/topic/answers", ack="auto", activemq__subscriptionName="s")
    desk.turn()
    assert say(desk.broker, desk.broker.topic("answers"), b"", b"1", asker.session)
    assert (plain.bodies(), lasting.bodies()) == (["1"], ["1"])


def test_there_is_no_answer_to_what_is_gone(desk) -> None:
    """
    A temporary queue goes with its connection.
    """
    client = asker = desk.connect()
    client.subscribe("/temp-queue/mine")
    (queue,) = desk.broker.destinations.temporaries.queues.values()
    assert say(desk.broker, queue, b"", b"1", asker.session)
    desk.broker.destinations.temporaries.queues.clear()
    queue.is_deleted = True
    assert not say(desk.broker, queue, b"", b"2", asker.session)


def test_there_is_none_where_a_wildcard_may_have_no_part(desk) -> None:
    """
    To a topic that one more durable subscription would have to be made for.
    """
    desk.broker.receipts.record(FormatRecord(WILD_DURABLES_LEVEL))
    desk.turn()
    lasting = asker = desk.connect(client_id="c")
    lasting.subscribe("/topic/answers.*", ack="auto", activemq__subscriptionName="s")
    desk.turn()
    assert say(desk.broker, desk.broker.topic("answers.a"), b"", b"1", asker.session)
    desk.broker.durables.count_max = 2
    assert not say(desk.broker, desk.broker.topic("answers.b"), b"", b"2", asker.session)
    assert lasting.bodies() == ["1"]
