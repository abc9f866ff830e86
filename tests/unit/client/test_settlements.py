"""
Settlements that are not certain: kept, confirmed as a prefix, said again, refused, told.
"""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client import settlements as module
from holdfast.client.failures import Failures
from holdfast.client.settlements import ACKNOWLEDGE, REJECT, Promise, Settlement, Settlements
from holdfast.errors import HoldfastError, LinkLostError, UnknownDeliveryError

LATE = "message 7 was delivered to somebody else meanwhile"


def settled(
    id: str, verb: bytes = ACKNOWLEDGE, *promises: Promise, place: int = 0, is_lasting: bool = True
) -> Settlement:
    settlement = Settlement(id, verb, "s1", place, is_lasting=is_lasting)
    settlement.promises = promises
    return settlement


def awaited() -> Promise:
    return Promise(asyncio.get_running_loop().create_future())


def refusal() -> UnknownDeliveryError:
    return UnknownDeliveryError(LATE)


def told(settlements: Settlements, *, is_all: bool = True) -> HoldfastError | None:
    failures = Failures()
    settlements.tell(failures, is_all=is_all)
    error = failures.take_all()
    assert error is None or isinstance(error, HoldfastError)
    return error


def test_what_is_confirmed_is_a_prefix() -> None:
    """A receipt makes everything before it certain, and nothing after it."""
    settlements = Settlements()
    numbers = [settlements.add(settled(id), id) for id in "abc"]
    settlements.confirm_through(numbers[1])
    assert [settlements.find(id) is None for id in "abc"] == [True, True, False]
    assert len(settlements) == 1
    settlements.confirm_through(numbers[2])
    assert len(settlements) == 0
    assert told(settlements) is None


def test_a_settlement_said_again_is_the_newest() -> None:
    """A receipt of the first time does not cover the second."""
    settlements = Settlements()
    first = settlements.add(settled("a"), "1-1")
    settlements.add(settled("b"), "1-2")
    settlements.add(settled("a"), "2-1")
    settlements.confirm_through(first)
    assert settlements.find("a") is not None
    assert len(settlements) == 2


def test_a_new_link_is_told_by_message_id() -> None:
    """In the old order, escaped as STOMP 1.2 wants it; rejections wait for a redelivery."""
    settlements = Settlements()
    settlements.add(settled("ID:1"), "1-1")
    settlements.add(settled("ID:2", REJECT), "1-2")
    settlements.link_lost()
    settlements.add(settled("ID:4"), None)
    settlements.add(settled("ID:3"), None)
    settlements.add(settled("ID:4"), None)
    late = [b"ACK\nid:ID\\c%d\n\n\0" % number for number in (1, 3, 4)]
    assert settlements.is_late
    assert settlements.frames() == late
    assert settlements.frames() == []
    assert not settlements.is_late


def test_a_receipt_proves_only_what_was_said_on_its_own_link() -> None:
    """A rejection that was lost with its link is not certain by what comes after it."""
    settlements = Settlements()
    settlements.add(settled("a"), "1-1")
    settlements.add(settled("b", REJECT), "1-2")
    settlements.link_lost()
    settlements.frames()
    settlements.confirm_through(settlements.add(settled("c"), "2-1"))
    assert len(settlements) == 1
    found = settlements.find("b")
    assert found is not None
    assert (found.verb, found.said) == (REJECT, "")
    settlements.confirm_through(settlements.add(found, "2-2"))
    assert len(settlements) == 0
    assert told(settlements) is None


def test_a_lost_rejection_is_told_in_the_end() -> None:
    """Nobody has said that it is done; in a block that failed its own error is what to tell."""
    for is_all in (True, False):
        settlements = Settlements()
        number = settlements.add(settled("b", REJECT), "1-2")
        settlements.link_lost()
        settlements.confirm_through(number)
        error = told(settlements, is_all=is_all)
        assert isinstance(error, LinkLostError) == is_all
        assert told(settlements) is None


def test_a_lost_rejection_of_what_nobody_keeps_is_over() -> None:
    """A topic's message, or one that is not persistent, is not known when it comes again."""
    settlements = Settlements()
    settlements.add(settled("b", REJECT, is_lasting=False), "1-2")
    settlements.link_lost()
    assert told(settlements) is None


@pytest.mark.parametrize("is_named", [True, False])
def test_what_is_refused_is_not_confirmed_by_the_next_receipt(is_named: bool) -> None:
    """It is told at the end; said again if its message comes again before that."""
    settlements = Settlements()
    settlements.add(settled("a"), "a")
    assert settlements.refused("a" if is_named else None, refusal())
    number = settlements.add(settled("b"), "1-2")
    settlements.confirm_through(number)
    found = settlements.find("a")
    assert found is not None
    assert found.said == ""
    error = told(settlements, is_all=False)
    assert isinstance(error, UnknownDeliveryError)
    assert str(error) == LATE


def test_a_refusal_without_a_name_leaves_all_it_may_mean_in_doubt() -> None:
    """But nothing that has a receipt of its own: its refusal would say so."""
    settlements = Settlements()
    settlements.add(settled("a"), "1-1")
    settlements.add(settled("b"), "1-2", has_receipt=True)
    number = settlements.add(settled("c"), "1-3")
    settlements.refused(None, refusal())
    settlements.confirm_through(number)
    assert [settlements.find(id) is None for id in "abc"] == [False, True, False]
    error = told(settlements)
    assert isinstance(error, UnknownDeliveryError)
    assert "2 messages acknowledged" in error.__notes__[-1]


def test_a_refusal_of_something_else_changes_nothing() -> None:
    """It names nothing that was said here."""
    settlements = Settlements()
    settlements.add(settled("a"), "1-1")
    assert not settlements.refused("1-2", refusal())
    settlements.refused_with_receipt(settled("a"), refusal())
    assert settlements.find("a") is not None
    assert isinstance(told(settlements), LinkLostError)


@pytest.mark.parametrize("has_receipt", [False, True])
def test_what_is_refused_by_a_delivery_is_said_again_by_name(has_receipt: bool) -> None:
    """
    All that the broker counts with it: one of them may be settled already, by another word of ours.

    No receipt that was asked for before makes it certain.
    """
    settlements = Settlements()
    settlements.add_counted([settled("a")], "1-2")
    last = settled("b")
    number = settlements.add(last, "1-2", has_receipt=has_receipt)
    if has_receipt:
        settlements.refused_with_receipt(last, refusal())
    else:
        assert settlements.refused("1-2", refusal())
    settlements.confirm_through(number)
    assert [settlements.find(id) is None for id in "ab"] == [False, False]
    assert settlements.take_more() == ([b"ACK\nid:a\n\n\0", b"ACK\nid:b\n\n\0"], [])
    assert not settlements.has_more
    settlements.refused("a", refusal())
    settlements.confirm_through(settlements.number)
    assert not settlements.is_open
    error = told(settlements)
    assert isinstance(error, UnknownDeliveryError)
    assert "1 messages" not in str(error.__notes__)
    assert any("speaks of message a" in note for note in error.__notes__)


@pytest.mark.parametrize("verb", [ACKNOWLEDGE, REJECT])
def test_another_broker_is_told_nothing_by_a_messages_name(verb: bytes) -> None:
    """It knows none; and a rejection is of a delivery, with any broker."""
    settlements = Settlements()
    settlements.knows_names = verb == REJECT
    settlements.add(settled("a", verb), "1-1")
    settlements.refused("1-1", refusal())
    assert not settlements.has_more
    assert isinstance(told(settlements), UnknownDeliveryError)


async def test_a_promise_waits_for_what_is_said_again() -> None:
    """The broker is asked once more; nobody waits for ever where it cannot be."""
    settlements = Settlements()
    promise, other = awaited(), awaited()
    settlements.add(settled("a", ACKNOWLEDGE, promise, other), "1-1")
    settlements.refused("1-1", refusal())
    settlements.answered(promise)
    assert not promise.outcome.done()
    assert settlements.take_more()[1] == [promise]
    settlements.answered(promise)
    assert promise.outcome.done()
    settlements.answer(other, LinkLostError("gone"))
    with pytest.raises(LinkLostError):
        await other.outcome


def test_a_refusal_of_what_nobody_keeps_says_nothing() -> None:
    """A late word about a topic's message is always refused."""
    settlements = Settlements()
    settlements.add(settled("a", is_lasting=False), None)
    settlements.frames()
    assert settlements.refused("a", refusal())
    assert told(settlements) is None


async def test_a_promise_fails_by_any_of_its_settlements() -> None:
    """The caller hears it, so the end does not tell it again, and the message may be shown."""
    settlements = Settlements()
    promise = awaited()
    settlements.add(settled("a", ACKNOWLEDGE, promise), "a")
    number = settlements.add(settled("b", ACKNOWLEDGE, promise), "1-2", has_receipt=True)
    settlements.refused("a", refusal())
    settlements.confirm_through(number)
    settlements.answer(promise)
    with pytest.raises(UnknownDeliveryError, match="somebody else"):
        await promise.outcome
    assert settlements.find("a") is None
    assert told(settlements) is None


async def test_what_comes_again_before_its_refusal_is_told_is_settled_again() -> None:
    """The promise fails by it no more: it is asked for once more, and by all that stay refused."""
    for stays in (False, True):
        settlements = Settlements()
        promise = awaited()
        for id in "ab":
            settlements.add(settled(id, ACKNOWLEDGE, promise), id)
            settlements.refused(id, refusal())
        found = [settlements.find(id) for id in ("a" if stays else "ab")]
        for number, again in enumerate(found):
            assert again is not None
            settlements.add(again, f"2-{number}")
        settlements.answered(promise)
        assert settlements.take_more()[1] == [promise]
        settlements.confirm_through(settlements.number)
        settlements.answered(promise)
        assert isinstance(promise.outcome.exception(), UnknownDeliveryError) == stays
        assert (settlements.find("a"), told(settlements)) == (None, None)


async def test_what_a_transaction_has_acknowledged_was_not_refused() -> None:
    """Another subscription had it, too; its word came while the transaction was under way."""
    settlements = Settlements()
    promise = awaited()
    settlements.add(settled("a", ACKNOWLEDGE, promise), "a")
    settlements.add(settled("b", REJECT), "1-2")
    settlements.add(settled("c"), "c")
    for id in ("a", "1-2", "c"):
        settlements.refused(id, refusal())
    for id in ("a", "b", "d"):
        settlements.committed(id)
    settlements.answered(promise)
    assert promise.outcome.done()
    assert promise.outcome.exception() is None
    assert [settlements.find(id) is None for id in "abc"] == [True, False, False]
    error = told(settlements)
    assert isinstance(error, UnknownDeliveryError)
    assert "2 messages acknowledged" in error.__notes__[-1]


async def test_a_topics_copy_for_another_subscription_is_another_matter() -> None:
    """It has the same id; that this one's word was refused is told to its caller."""
    settlements, promise = Settlements(), awaited()
    copy = Settlement("a", ACKNOWLEDGE, "s2", 1, is_lasting=False)
    copy.promises = (promise,)
    settlements.add(copy, "a")
    settlements.refused("a", refusal())
    settlements.committed("a")
    settlements.answered(promise)
    assert isinstance(promise.outcome.exception(), UnknownDeliveryError)


async def test_a_promise_nobody_waits_for_any_more_is_told_in_the_end() -> None:
    """Refused before the caller was cancelled, or after."""
    for is_before in (True, False):
        settlements = Settlements()
        promise = awaited()
        settlements.add(settled("a", ACKNOWLEDGE, promise), "a")
        if is_before:
            promise.outcome.cancel()
        settlements.refused("a", refusal())
        promise.outcome.cancel()
        settlements.answer(promise)
        assert settlements.find("a") is not None
        assert isinstance(told(settlements), UnknownDeliveryError)


async def test_a_later_promise_covers_what_is_open_up_to_its_place() -> None:
    """What is certain it need not wait for; what was refused before, it is told."""
    settlements = Settlements()
    settlements.confirm_through(settlements.add(settled("a", place=1), "1-1"))
    assert not settlements.promise(awaited(), "s1", range(2))
    settlements.add(settled("b", place=2), "b")
    settlements.add(settled("c", place=3), "c")
    assert not settlements.promise(awaited(), "s2", range(4))
    assert not settlements.promise(awaited(), "s1", range(1, 2))
    promise = awaited()
    assert settlements.promise(promise, "s1", range(3))
    settlements.refused("c", refusal())
    assert promise.error is None
    both, again = awaited(), awaited()
    assert settlements.promise(both, "s1", range(4))
    assert isinstance(both.error, UnknownDeliveryError)
    settlements.refused("b", refusal())
    assert isinstance(promise.error, UnknownDeliveryError)
    assert not settlements.promise(again, "s1", range(4))
    assert len(again.refused) == 2
    settlements.answer(promise)
    settlements.answer(both)
    assert told(settlements) is None


def test_of_too_many_only_the_number_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that lives for years must not grow by what it was refused."""
    monkeypatch.setattr(module, "KEPT_COUNT_MAX", 10)
    settlements = Settlements()
    for number in range(25):
        settlements.add(settled(f"r{number}"), f"r{number}")
        settlements.refused(f"r{number}", refusal())
        settlements.add(settled(f"l{number}", REJECT), None)
    assert len(settlements) == 10
    failures = Failures()
    settlements.tell(failures, is_all=True)
    error = failures.take_all()
    assert isinstance(error, UnknownDeliveryError)
    assert [note.split(" acknowledged:")[0] for note in error.__notes__[1:]] == [
        "not confirmed as stored: 25 messages",
        "not confirmed as stored: 25 messages",
    ]
