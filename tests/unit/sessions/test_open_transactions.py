"""
Transactions of one connection, in any protocol.
"""

from __future__ import annotations

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.errors import StoreFullError, TransactionError
from tests.unit.sessions.speaker import Message, Speaker


def within(session: Speaker, name: str, receipt: bytes | None = None) -> None:
    message = Message("/queue/q", receipt=receipt)
    message.transaction = name
    session.send(message)


def test_what_they_hold_is_counted_and_given_back(desk) -> None:
    """
    As it grows, and as each of them ends.
    """
    session = Speaker(desk)
    held = session.holdings.transactions
    held.begin("a", session)
    empty = session.transaction_bytes
    within(session, "a", b"r")
    assert session.told == [b"r"]
    assert session.transaction_bytes > empty > 0
    assert held.held_count == 2
    held.forget(held.get("a"))
    assert (session.transaction_bytes, session.transactions) == (0, {})
    held.begin("b", session)
    within(session, "b")
    list(held.give_back())
    assert held.by_name == {}


def test_names_are_begun_once_and_known_before_they_are_used(new_desk) -> None:
    """
    There are only so many.
    """
    session = Speaker(new_desk(BrokerSettings(transaction_count_max=1)))
    held = session.holdings.transactions
    with pytest.raises(TransactionError, match="has not begun"):
        within(session, "a")
    held.begin("a", session)
    with pytest.raises(TransactionError, match="begun already"):
        held.begin("a", session)
    with pytest.raises(TransactionError, match="at most 1"):
        held.begin("b", session)


def test_the_first_failure_is_the_one_that_is_told(desk) -> None:
    """
    Of a transaction that there is not, none.
    """
    session = Speaker(desk)
    held = session.holdings.transactions
    held.begin("a", session)
    held.fail("a", "first")
    held.fail("a", "second")
    held.fail(None, "third")
    assert held.get("a").failure == "first"


def test_no_commit_goes_before_what_waits_for_room(desk) -> None:
    """
    Nor into a store that takes nothing.
    """
    session = Speaker(desk)
    held = session.holdings.transactions
    held.begin("a", session)
    within(session, "a")
    held.prepare(session, held.get("a"), lambda _: False)
    with pytest.raises(StoreFullError, match="memory"):
        held.prepare(session, held.get("a"), lambda _: True)
    desk.context.refusal = "full"
    with pytest.raises(StoreFullError, match="full"):
        held.prepare(session, held.get("a"), lambda _: False)
