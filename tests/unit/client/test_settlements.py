"""
Settlements that are not certain: kept, confirmed as a prefix, said again.
"""

from __future__ import annotations

from holdfast.client.settlements import ACKNOWLEDGE, REJECT, Settlements


def test_what_is_confirmed_is_a_prefix() -> None:
    """A receipt makes everything before it certain, and nothing after it."""
    settlements = Settlements()
    numbers = [settlements.add(id, ACKNOWLEDGE) for id in "abc"]
    settlements.confirm_through(numbers[1])
    assert [settlements.verb_of(id) for id in "abc"] == [None, None, ACKNOWLEDGE]
    assert len(settlements) == 1
    settlements.confirm_through(numbers[2])
    assert len(settlements) == 0


def test_a_settlement_said_again_is_the_newest() -> None:
    """A receipt of the first time does not cover the second."""
    settlements = Settlements()
    first = settlements.add("a", ACKNOWLEDGE)
    settlements.add("b", ACKNOWLEDGE)
    settlements.add("a", ACKNOWLEDGE)
    settlements.confirm_through(first)
    assert settlements.verb_of("a") == ACKNOWLEDGE
    assert len(settlements) == 2


def test_a_new_link_is_told_by_message_id() -> None:
    """In the old order, escaped as STOMP 1.2 wants it; rejections wait for a redelivery."""
    settlements = Settlements()
    settlements.add("ID:1", ACKNOWLEDGE)
    settlements.add("ID:2", REJECT)
    settlements.add("ID:3", ACKNOWLEDGE)
    assert settlements.frames() == [b"ACK\nid:ID\\c1\n\n\0", b"ACK\nid:ID\\c3\n\n\0"]
    assert settlements.verb_of("ID:2") == REJECT


def test_a_refused_settlement_is_forgotten_alone() -> None:
    """What was said before it stays, and so does the same one said again since."""
    settlements = Settlements()
    settlements.add("a", ACKNOWLEDGE)
    first = settlements.add("b", REJECT)
    settlements.refused("b", first)
    assert [settlements.verb_of(id) for id in "ab"] == [ACKNOWLEDGE, None]
    again = settlements.add("b", ACKNOWLEDGE)
    settlements.refused("b", first)
    settlements.refused("c", again)
    assert settlements.verb_of("b") == ACKNOWLEDGE
