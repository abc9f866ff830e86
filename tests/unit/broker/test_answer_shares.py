"""
Shares of what stands on other users' temporary queues: counted to the last byte, and when too much.
"""

from __future__ import annotations

import pytest

from holdfast.broker.answer_shares import AnswerShares, why_behind
from holdfast.broker.flow_control import FlowControl
from holdfast.broker.settings import BrokerSettings
from holdfast.model.shares import STRANGERS

MEMORY = 64_000
"""Of which somebody alone may have 48,000, and one address of his an eighth of that."""


def test_what_is_given_back_counts_no_more() -> None:
    """
    By queue and by pair of users; with a queue that is emptied all goes that stood on it.
    """
    shares = AnswerShares()
    shares.add("q", "ann", "eve", 5)
    shares.add("r", "ann", "eve", 3)
    shares.add("q", "ann", "bob", 2)
    assert (shares.of("ann", "eve"), shares.of("ann", "bob")) == (8, 2)
    shares.add("q", "ann", "eve", -1)
    shares.drop("q", "ann")
    assert (shares.of("ann", "eve"), shares.of("ann", "bob")) == (3, 0)
    shares.add("r", "ann", "eve", -3)
    shares.drop("r", "ann")
    assert shares.of("ann", "eve") == shares.of(None, "eve") == 0
    assert not (shares._by_pair or shares._by_queue)


def test_a_queue_that_is_anothers_now_takes_along_what_stands_there() -> None:
    """
    What waits for a client that comes back is of the user it comes back as; nobody's is not shared.
    """
    shares = AnswerShares()
    shares.add("q", None, "eve", 5)
    assert not shares._by_pair
    shares.move("q", None, "ann")
    assert shares.of("ann", "eve") == 5
    shares.move("q", "ann", "bob")
    assert (shares.of("ann", "eve"), shares.of("bob", "eve")) == (0, 5)
    shares.move("other", "ann", "bob")
    shares.add("q", "bob", "eve", -5)
    assert not (shares._by_pair or shares._by_queue)


@pytest.mark.parametrize(
    ("size", "on_queue", "of_owner", "of_sender", "taken", "why"),
    [
        (60_000, 0, 0, 0, 0, ""),
        (2_000, 4_000, 4_000, 4_000, 4_000, ""),
        (2_001, 4_000, 4_000, 4_000, 4_000, "4,000 bytes wait there, at most 6,000"),
        (1, 0, 48_000, None, 48_000, ""),
        (1, 0, 48_002, None, 48_002, "on all temporary queues of that user"),
        (1_000, 0, 36_000, 32_000, 36_000, ""),
        (1_000, 0, 36_000, 33_001, 36_000, "this user's messages .* 33,001 bytes"),
        (1_000, 0, 36_000, 0, 36_000, ""),
        (1, 0, 500, None, 64_000, ""),
        (1, 500, 500, 500, 64_000, ""),
        (501, 500, 500, 500, 64_000, "500 bytes wait there, at most 1,000"),
    ],
    ids=[
        *("large-alone", "part", "part-is-full", "share", "share-is-full", "sender"),
        *("sender-is-full", "another-sender", "memory-is-full", "memory-is-full-and-little"),
        "memory-is-full-and-much",
    ],
)
def test_a_message_is_refused_where_its_reader_is_behind(
    size: int, on_queue: int, of_owner: int, of_sender: int | None, taken: int, why: str
) -> None:
    """
    By what stands at the address, of all its user's, and of who sends; not as others fill memory.
    """
    flow = FlowControl(BrokerSettings(memory_bytes=MEMORY))
    flow.volatile_bytes = taken
    flow.temporary_shares.add("ann", of_owner)
    flow.answer_shares.add("r", "ann", "eve", of_sender or 0)
    sender = "ann" if of_sender is None else "eve"
    standing = flow.standing(on_queue, "ann", sender)
    said = why_behind("q", size, size, standing)
    if not why:
        assert said is None
        return
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(said)


def test_several_copies_count_together() -> None:
    """
    One message for ten addresses of a user would fill his share in one go.
    """
    standing = FlowControl(BrokerSettings(memory_bytes=MEMORY)).standing(0, "ann", "eve")
    assert why_behind("q", 6_000, 6_000, standing) is None
    assert why_behind("q", 6_000, 60_000, standing) is not None


def test_without_users_an_address_has_a_part_of_the_memory() -> None:
    """
    One slow reader would stop what all others send, too.
    """
    standing = FlowControl(BrokerSettings(memory_bytes=MEMORY)).standing(7_000, None, None)
    assert why_behind("q", 1_000, 1_000, standing) is None
    assert why_behind("q", 1_001, 1_001, standing) is not None


def test_strangers_have_a_small_part_of_it_together() -> None:
    """
    A name to which nothing is granted is worth no more than none, however many have one.
    """
    flow = FlowControl(BrokerSettings(memory_bytes=MEMORY))
    flow.temporary_shares.add("ann", 5_000)
    flow.volatile_bytes = 5_000
    flow.answer_shares.add("r", "ann", STRANGERS, 3_000)
    for sender, is_refused in ((STRANGERS, True), ("eve", False)):
        said = why_behind("q", 2_000, 2_000, flow.standing(0, "ann", sender))
        assert (said is not None) == is_refused
