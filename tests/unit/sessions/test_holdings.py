"""
The one door to the broker, whatever a client speaks. What STOMP makes of it is tested with STOMP.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import holdfast.sessions
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError, RefusedError
from holdfast.model.destination import parse_destination
from holdfast.sessions.target import Action
from tests.unit.sessions.speaker import Form, Message, Speaker


def consume(session: Speaker, name: str = "/queue/q", prefetch: int = 10) -> Subscription:
    written = parse_destination(name)
    session.holdings.require_place(session, "s", written)
    return session.holdings.subscribe(
        session,
        session.holdings.target(session, written, Action.CONSUME),
        subscription_id="s",
        written=written,
        mode=AcknowledgeMode.INDIVIDUAL,
        prefetch=prefetch,
        form=lambda _: Form(),
    )


def test_a_message_goes_from_one_protocol_to_itself(desk) -> None:
    """
    Sent, delivered, acknowledged: a session of forty lines has all of it.
    """
    session = Speaker(desk)
    subscription = consume(session)
    session.send(Message("/queue/q", b"hello", b"r"))
    desk.turn()
    assert session.out == [b"hello"]
    (key,) = subscription.unacknowledged
    session.holdings.acknowledge(subscription, key, session, b"done")
    desk.turn()
    assert session.told == [b"r", b"done"]
    assert desk.broker.state.live_count() == 0


def test_only_its_own_connection_consumes_from_a_temporary_queue(desk) -> None:
    """
    Everybody may send there.
    """
    owner, other = Speaker(desk), Speaker(desk)
    consume(owner, "/temp-queue/a")
    remote = f"/remote-temp-queue/{owner.id}.a"
    other.send(Message(remote, b"hello", persistent=False))
    desk.turn()
    assert owner.out == [b"hello"]
    with pytest.raises(DestinationError, match="belongs to another connection"):
        consume(other, remote)


def test_a_rejected_message_is_with_nobody_any_more(desk) -> None:
    """
    It is a dead letter, and the reply waits until it lasts.
    """
    session = Speaker(desk)
    subscription = consume(session)
    session.send(Message("/queue/q", b"bad"))
    desk.turn()
    (key,) = subscription.unacknowledged
    session.holdings.reject(session, subscription, key, b"r")
    assert session.told == []
    desk.turn()
    assert session.told == [b"r"]
    assert not subscription.unacknowledged
    assert session.out == [b"bad"]


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_what_a_purge_takes_along_is_no_dead_letter(new_desk, memory_bytes) -> None:
    """
    From the operator's request on; in the log or not, in memory or not.
    """
    desk = new_desk(BrokerSettings(memory_bytes=memory_bytes))
    session = Speaker(desk)
    subscription = consume(session)
    for body in (b"one", b"two"):
        session.send(Message("/queue/q", body))
    desk.turn()
    one, two = subscription.unacknowledged
    desk.broker.purge("q", session, b"purged")
    session.holdings.reject(session, subscription, one, None)
    desk.turn()
    session.holdings.reject(session, subscription, two, None)
    desk.turn()
    assert not subscription.unacknowledged
    queues = desk.broker.state.by_name
    assert {name: queue.index.live_count for name, queue in queues.items()} == {"q": 0}


def test_a_transaction_commits_and_rolls_back(desk) -> None:
    """
    What it acknowledged is settled with it, or in delivery again.
    """
    session = Speaker(desk)
    holdings = session.holdings
    subscription = consume(session, prefetch=1)
    session.send(Message("/queue/q", b"one"))
    desk.turn()
    for receipt in (b"back", b"done"):
        holdings.transactions.begin("t", session)
        transaction = holdings.transactions.get("t")
        (key,) = subscription.unacknowledged
        holdings.acknowledge_within(session, transaction, subscription, key, None, exact=True)
        assert not subscription.unacknowledged
        if receipt == b"back":
            holdings.roll_back(session, transaction, receipt)
            assert not session.is_idle
            assert session.effort
            assert session.proceed_with_endings(lambda: False)
        else:
            holdings.commit(session, transaction, receipt)
        desk.turn()
    assert session.told == [b"back", b"done"]
    assert desk.broker.state.live_count() == 0


def test_what_was_delivered_before_is_acknowledged_by_its_identity(desk) -> None:
    """
    Within a transaction, or at once; a guess is refused.
    """
    session = Speaker(desk)
    with pytest.raises(RefusedError):
        session.holdings.acknowledge_late(session, 1, 1, None, None)


def test_all_of_it_is_given_back_once(desk) -> None:
    """
    In steps, the same for all who ask; afterwards nothing is held.
    """
    session = Speaker(desk)
    consume(session, "/temp-queue/a")
    session.holdings.transactions.begin("t", session)
    assert session.held_count == 3
    steps = session.leaving()
    next(steps)
    assert session.leaving() is steps
    session.leave()
    assert session.held_count == 0
    assert session.is_idle
    assert desk.broker.flow.subscription_count == 0


def test_no_session_reaches_the_broker_past_its_holdings() -> None:
    """
    What authorizes, routes and counts stands in one place.
    """
    door = {"answering", "bundles", "holdings", "open_transactions", "requirements", "sending"}
    door |= {"sending_room"}
    for path in Path(holdfast.sessions.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                asked = ast.unparse(node.func.value)
                assert path.stem in door or not asked.endswith("broker"), (
                    f"{path.name}: {ast.unparse(node)}"
                )
