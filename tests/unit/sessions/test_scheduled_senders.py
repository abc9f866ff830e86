"""
Whether what somebody has scheduled may still be sent as its time comes (S5, S9).
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.model.access_records import GrantRecord, UserRecord
from holdfast.model.destination import parse_destinations
from holdfast.model.records import MessageRecord
from holdfast.model.schedules import Schedule
from holdfast.protocols.stomp.mapping import visible_lines, with_authority, with_user
from holdfast.sessions.scheduled_messages import Kept
from holdfast.sessions.scheduled_senders import refused_now

QUEUE = 3


@pytest.fixture
def broker() -> Broker:
    broker = Broker(BrokerSettings())
    broker.state.apply(
        1,
        [
            UserRecord("ann", json.dumps({"roles": ["sales"], "schedule": [QUEUE, 5]}), 1),
            GrantRecord("sales", "queue://orders.>", 2),
            GrantRecord("sales", "queue://read", 1),
        ],
        1,
    )
    return broker


def due(sender: str, sequence: int = 5, queue: int = QUEUE, authority: str = "") -> MessageRecord:
    lines = b"kind:x\n"
    if sender:
        lines = with_user(lines, sender)
    if authority:
        lines = with_authority(lines, authority)
    return MessageRecord(queue, sequence, lines, b"", 0, None, 0)


def kept(written: str = "/queue/orders.a") -> Kept:
    return Kept(Schedule(), written, parse_destinations(written), True, 0)


@pytest.mark.parametrize(
    ("message", "written"),
    [
        (due("ann"), "/queue/orders.a"),
        (due("ann"), "/queue/orders.a,orders.b.c"),
        (due("ann", sequence=1, queue=QUEUE + 1), "/queue/orders.a"),
        (due(""), "/queue/anything"),
        (due("gone", authority="ldap.p"), "/queue/anything"),
    ],
    ids=["granted", "composite", "a later schedule", "nobody's", "a directory's"],
)
def test_what_may_be_sent_still_is(broker, message, written) -> None:
    """
    Of what nobody is said to have sent nothing was taken away; nor of whom the log does not know.
    """
    assert refused_now(broker, kept(written), message) is None


@pytest.mark.parametrize(
    ("message", "written", "why"),
    [
        (due("gone"), "/queue/orders.a", "there is no user 'gone' any more"),
        (due("ann"), "/queue/read", "user 'ann' may not write /queue/read"),
        (due("ann"), "/topic/orders.a", "may not write /topic/orders.a"),
        (due("ann"), "/queue/orders.a,read", "may not write /queue/read"),
        (due("ann", sequence=4), "/queue/orders.a", "sent by an earlier user 'ann'"),
        (due("ann", sequence=9, queue=2), "/queue/orders.a", "sent by an earlier user 'ann'"),
    ],
    ids=["removed", "read only", "a topic", "composite", "an earlier one's", "a schedule before"],
)
def test_what_its_sender_may_not_send_any_more_is_not(broker, message, written, why) -> None:
    """
    Each destination that he wrote is judged; who has his name now is another.
    """
    refused = refused_now(broker, kept(written), message)
    assert refused is not None
    assert refused.name in {"ann", "gone"}
    assert why in refused.reason


def test_where_nobody_can_log_in_nobody_is_asked(broker) -> None:
    """
    The last user was removed: everybody may do everything.
    """
    broker.state.apply(1, [UserRecord("ann", "", 2)], 4)
    assert refused_now(broker, kept("/queue/read"), due("ann")) is None


def test_nobody_says_for_himself_who_vouches_for_him() -> None:
    """
    Else his jobs would never be judged.
    """
    assert visible_lines({"holdfast-vouched-by": "ldap.p", "a": "b"}) == b"a:b\n"
