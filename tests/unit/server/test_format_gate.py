"""The gate before a new level of the log's format: opened once, when all members know it."""

from __future__ import annotations

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import FormatRecord, QueueRecord
from holdfast.server.format_gate import NEW_LOG_SECONDS, FormatGate


class Told:
    """What the members know."""

    def __init__(self) -> None:
        self.format_level_of_all = 1
        self.told: list[int] = []

    def tell_format_level(self, level: int) -> None:
        self.told.append(level)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def broker() -> Broker:
    broker = Broker(BrokerSettings())
    broker.lead()
    return broker


def asked(broker: Broker) -> list[int]:
    return [it.level for it in broker.receipts.batch.records if isinstance(it, FormatRecord)]


def test_the_level_is_raised_once_all_know_it(broker, told) -> None:
    """
    Asked for once, however long the record takes; told to the others before it is sent to them.

    Else one that is taken back meanwhile, and does not know the level, would store the record.
    """
    gate = FormatGate(broker, told)
    gate.step(0, is_leading=True)
    assert asked(broker) == []
    told.format_level_of_all = 2
    for _ in range(3):
        gate.step(0, is_leading=True)
    assert asked(broker) == [2]
    assert told.told == [2]
    assert gate.asked == 2
    batch = broker.receipts.take_batch()
    broker.apply_batch(batch, 1, 1)
    for _ in range(3):
        gate.step(0, is_leading=True)
    assert told.told == [2]
    assert asked(broker) == []
    assert gate.asked == 0


def test_only_who_leads_raises_it(broker, told) -> None:
    """The others follow the log; so does a leader that is handing over."""
    told.format_level_of_all = 2
    gate = FormatGate(broker, told)
    gate.step(0, is_leading=False)
    assert asked(broker) == []


def test_a_new_leadership_asks_again(broker, told) -> None:
    """What the last one asked for may never have been stored."""
    told.format_level_of_all = 2
    gate = FormatGate(broker, told)
    gate.step(0, is_leading=True)
    broker.follow()
    gate.stop()
    broker.lead()
    gate.step(0, is_leading=True)
    assert asked(broker) == [2]


def test_what_was_asked_for_in_vain_is_told_no_more(broker, told) -> None:
    """The way back is open again: who follows has reached what its log tells."""
    told.format_level_of_all = 2
    gate = FormatGate(broker, told)
    gate.step(0, is_leading=True)
    broker.follow()
    gate.stop()
    for _ in range(2):
        gate.step(0, is_leading=False)
    assert told.told == [2, 1]


def test_a_node_that_is_held_back_raises_nothing(told) -> None:
    """It behaves as a version that knows no more."""
    broker = Broker(BrokerSettings(known_format_level=1))
    broker.lead()
    told.format_level_of_all = 2
    FormatGate(broker, told).step(0, is_leading=True)
    assert asked(broker) == []


def test_a_later_version_raises_no_more_than_it_knows(broker, told) -> None:
    """The others may be ahead of this leader."""
    told.format_level_of_all = NEWEST_LEVEL + 1
    FormatGate(broker, told).step(0, is_leading=True)
    assert asked(broker) == [NEWEST_LEVEL]


def test_what_is_asked_for_is_told_while_it_is_not_reached(broker, told) -> None:
    """No longer than the leadership: what is lost then was never asked for."""
    gate = FormatGate(broker, told)
    gate.step(0, is_leading=True)
    assert gate.asked == 0
    told.format_level_of_all = 2
    gate.step(0, is_leading=True)
    assert gate.asked == 2
    gate.stop()
    assert gate.asked == 0


def test_clients_of_a_new_log_wait_until_it_has_reached_its_level(broker, told) -> None:
    """Asked for is not enough: nobody is served as by the oldest version, and all come then."""
    opened: list[bool] = []
    gate = FormatGate(broker, told, lambda: opened.append(gate.lets_in))
    gate.begin(5.0)
    told.format_level_of_all = NEWEST_LEVEL
    for _ in range(3):
        gate.step(5.1, is_leading=True)
    assert (gate.lets_in, opened) == (False, [])
    broker.apply_batch(broker.receipts.take_batch(), 1, 1)
    for _ in range(3):
        gate.step(5.2, is_leading=True)
    assert (gate.lets_in, opened) == (True, [True])


def test_they_do_not_wait_long_for_a_member_that_tells_nothing(broker, told) -> None:
    """It may never have been started."""
    opened: list[bool] = []
    gate = FormatGate(broker, told, lambda: opened.append(gate.lets_in))
    gate.begin(5.0)
    for seconds in (0.0, NEW_LOG_SECONDS - 0.01, NEW_LOG_SECONDS, 2 * NEW_LOG_SECONDS):
        gate.step(5.0 + seconds, is_leading=True)
        assert gate.lets_in == (seconds >= NEW_LOG_SECONDS)
    assert opened == [True]


@pytest.mark.parametrize("what", ["queue", "level", "oldest"])
def test_who_comes_to_a_log_that_has_something_never_waits(told, what: str) -> None:
    """A failover is at once also while an upgrade is under way."""
    broker = Broker(BrokerSettings(known_format_level=1 if what == "oldest" else NEWEST_LEVEL))
    record = {"queue": QueueRecord(1, "q"), "level": FormatRecord(2)}.get(what)
    if record is not None:
        broker.state.apply(1, [record], 1)
    gate = FormatGate(broker, told)
    gate.begin(5.0)
    assert gate.lets_in


def test_a_leadership_that_ends_keeps_nobody_out_of_the_next(broker, told) -> None:
    """Each begins by itself."""
    gate = FormatGate(broker, told)
    gate.begin(5.0)
    gate.stop()
    assert gate.lets_in


def test_what_headers_come_to_is_worked_out_anew_at_a_new_level(broker, told) -> None:
    """
    By whom a producer is known is kept with them, and depends on the level.
    """
    gate = FormatGate(broker, told)
    patterns = broker.destinations.leadership.patterns
    gate.step(1.0, is_leading=True)
    before = patterns.change_count
    broker.state.format_level = NEWEST_LEVEL
    gate.step(1.0, is_leading=True)
    assert patterns.change_count == before + 1
    gate.step(1.0, is_leading=True)
    assert patterns.change_count == before + 1
