"""
Parts on topics are given a step at a time, and only to who needs them.
"""

from __future__ import annotations

import pytest

from holdfast.broker import parts
from holdfast.broker.addressing import RouteUnknownError
from holdfast.broker.durables import Wanted
from holdfast.broker.parts import PART_EFFORT, PUT_OFF_MAX, spares_of
from holdfast.errors import DestinationError
from holdfast.model.destination import parse_destination, parse_destinations
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import FormatRecord

WRITTEN = parse_destinations("/topic/a.1,/queue/a.2,/topic/a.3,/topic/b,/topic/a.4")


@pytest.fixture
def desk(desk):
    desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    desk.turn()
    return desk


def open_two(desk) -> None:
    for client_id in ("ann", "ben"):
        desk.broker.durables.open(Wanted("a.*", client_id, "mine"))
    desk.turn()


def test_of_what_is_written_only_stored_topics_count(desk) -> None:
    """
    No queue of the same name, and no topic without a durable subscription.
    """
    durable = desk.broker.durables.open(Wanted("t", "c", "n"))
    written = parse_destinations("/queue/t,/topic/t,/topic/other")
    spares = spares_of(written, is_stored=True)
    assert desk.broker.parts.among(written, spares) == [durable.topic]


def test_parts_of_several_topics_take_several_steps(desk, monkeypatch) -> None:
    """
    Those of one topic are given together, however many; those that are there take nothing.
    """
    open_two(desk)
    broker = desk.broker
    spares = spares_of(WRITTEN, is_stored=True)
    monkeypatch.setattr(parts, "PARTS_PER_STEP", 1)
    for count in (1, 2):
        with pytest.raises(RouteUnknownError):
            broker.parts.among(WRITTEN, spares)
        assert broker.parts.effort == 2 * count * PART_EFFORT
    for _ in range(2):
        assert [it.name for it in broker.parts.among(WRITTEN, spares)] == ["a.1", "a.3", "a.4"]
        assert broker.parts.effort == 6 * PART_EFFORT
    assert broker.durables.count == 8


def test_what_was_put_off_often_gets_all_at_once(desk, monkeypatch) -> None:
    """
    Whoever makes a wildcard in every turn holds nobody up for ever.
    """
    monkeypatch.setattr(parts, "PARTS_PER_STEP", 1)
    open_two(desk)
    broker = desk.broker
    spares = spares_of(WRITTEN, is_stored=True)
    with pytest.raises(RouteUnknownError):
        broker.parts.among(WRITTEN, spares, PUT_OFF_MAX - 1)
    found = broker.parts.among(WRITTEN, spares, PUT_OFF_MAX)
    assert [it.name for it in found] == ["a.1", "a.3", "a.4"]


def test_after_some_puttings_off_wildcards_that_begin_wait(desk, monkeypatch) -> None:
    """
    Until it has gone, or for half a second: who sent it may be gone.
    """
    monkeypatch.setattr(parts, "PARTS_PER_STEP", 1)
    open_two(desk)
    broker = desk.broker
    spares = spares_of(WRITTEN, is_stored=True)
    seen = []
    for count in (15, 16):
        with pytest.raises(RouteUnknownError):
            broker.parts.among(WRITTEN, spares, count)
        seen.append(broker.parts.is_hurried)
    broker.sending.now_microseconds += 500_000
    seen.append(broker.parts.is_hurried)
    assert seen == [False, True, False]
    broker.sending.now_microseconds -= 1
    assert broker.parts.is_hurried
    broker.parts.among(WRITTEN, spares, 17)
    assert not broker.parts.is_hurried


def test_no_room_for_parts_is_no_reason_to_try_again(desk, monkeypatch) -> None:
    """
    Whoever needs one is refused at once, who does not has what is there.
    """
    open_two(desk)
    monkeypatch.setattr(parts, "PARTS_PER_STEP", 1)
    desk.broker.durables.count_max = 4
    spares = spares_of(WRITTEN, is_stored=False)
    with pytest.raises(RouteUnknownError):
        desk.broker.parts.among(WRITTEN, spares)
    found = desk.broker.parts.among(WRITTEN, spares)
    assert [it.name for it in found] == ["a.1"]
    with pytest.raises(DestinationError, match="at most 4"):
        desk.broker.parts.among(WRITTEN[2:], spares_of(WRITTEN, is_stored=True))


def test_a_mirror_is_spared_to_which_nobody_sent() -> None:
    """
    Who names it himself is told that it cannot be.
    """
    mirror = parse_destination("/topic/VirtualTopic.Mirror.q")
    other = parse_destination("/topic/other")
    spares = spares_of(parse_destinations("/queue/q"), is_stored=True)
    assert spares(mirror) and not spares(other)
    assert not spares_of((mirror,), is_stored=True)(mirror)
    assert spares_of((other,), is_stored=False)(other)
