"""
Names with wildcards come into being as queues where they consume virtual topics.
"""

from __future__ import annotations

import pytest

from holdfast.broker import binding
from holdfast.broker.binding import bind
from holdfast.errors import DestinationError
from holdfast.model.format_level import WILD_DURABLES_LEVEL


def test_a_name_is_declared_once_and_only_where_it_consumes_topics(desk, monkeypatch) -> None:
    """
    One more than may be is refused, and one that is there is not.
    """
    monkeypatch.setattr(binding, "BINDINGS_MAX", 1)
    destinations = desk.broker.destinations
    assert list(bind(destinations, "Consumer.A.VirtualTopic.>")) == []
    assert destinations.queue_names() == [], "an older version may lead next"
    desk.broker.state.format_level = WILD_DURABLES_LEVEL
    for name in ("orders.>", "Consumer.*.VirtualTopic.>", "Consumer.A.VirtualTopic.>"):
        for _ in range(2):
            assert list(bind(destinations, name)) == []
    assert destinations.queue_names() == ["Consumer.A.VirtualTopic.>"]
    with pytest.raises(DestinationError, match="at most 1 names with wildcards"):
        list(bind(destinations, "Consumer.B.VirtualTopic.>"))


@pytest.fixture
def desk(new_desk):
    return new_desk()
