"""
Topics of which messages are stored: by name, as their leader has planned them.
"""

from __future__ import annotations

import pytest

from holdfast.broker.durables import Wanted
from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import DURABLE_LEVEL
from holdfast.model.records import DeleteQueueRecord, FormatRecord
from holdfast.model.topic_records import TopicRecord


@pytest.fixture
def desk(new_desk):
    desk = new_desk(BrokerSettings(known_format_level=DURABLE_LEVEL))
    desk.broker.receipts.record(FormatRecord(DURABLE_LEVEL))
    desk.turn()
    return desk


def gathered(desk):
    return desk.broker.receipts.batch.records


def test_a_topic_is_stored_from_its_declaration_to_its_end(desk) -> None:
    """
    As its leader has planned it, though nothing is in the log; with it who asked for it live.
    """
    stored, live = desk.broker.destinations.stored, desk.broker.topic("t")
    assert not stored.is_stored("t") and stored.topic("t") is None
    durable = desk.broker.durables.open(Wanted("t", "c", "n"))
    assert type(gathered(desk)[0]) is TopicRecord and stored.declare("t") is durable.topic
    assert stored.is_stored("t") and live.is_stored and stored.topic("t") is durable.topic
    desk.turn()
    assert stored.topic("t") is durable.topic
    stored.remove(durable.topic)
    assert [type(each) for each in gathered(desk)] == [DeleteQueueRecord]
    assert not stored.is_stored("t") and not live.is_stored and stored.topic("t") is None


def test_another_leader_finds_what_the_log_has(desk) -> None:
    """
    Made by whoever asks for it first; whoever only asks whether it is stored makes nothing.
    """
    desk.broker.durables.open(Wanted("t", "c", "n"))
    desk.turn()
    desk.broker.follow()
    desk.broker.lead()
    destinations = desk.broker.destinations
    assert destinations.stored.is_stored("t") and not destinations.leadership.stored_topics
    found = destinations.stored.topic("t")
    assert found is destinations.stored.topic("t") and found.name == "t"
