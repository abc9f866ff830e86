"""
What every client's session answers by what it holds.
"""

from __future__ import annotations

from holdfast.broker.settings import BrokerSettings
from tests.unit.sessions.speaker import Message, Speaker


def test_sessions_of_a_node_have_names_of_their_own(desk) -> None:
    """
    With the node and the term, so that nobody mistakes one for another's.
    """
    first, second = Speaker(desk), Speaker(desk)
    assert first.id.startswith("n1-1-")
    assert first.id != second.id


def test_who_has_something_to_send_is_listed_once(desk) -> None:
    """
    Also where only the room is to be counted anew.
    """
    session = Speaker(desk)
    session.recount_room()
    session.write(b"a")
    assert desk.context.dirty == [session, session]
    session.write(b"b")
    session.recount_room()
    assert len(desk.context.dirty) == 2
    assert session.out == [b"a", b"b"]


def test_it_answers_by_what_waits_and_by_what_it_holds(new_desk) -> None:
    """
    Full, idle, spreading: the loop asks before it reads on.
    """
    settings = BrokerSettings(
        memory_bytes=100, message_memory_overhead_bytes=100, waiting_bytes_max=1000
    )
    session = Speaker(new_desk(settings))
    assert session.is_idle
    for _ in range(3):
        session.send(Message("/queue/q", b"x" * 900, persistent=False))
    assert session.is_full
    assert not session.is_idle
    assert not session.is_spreading
    session.client_id = "mine"
    session.context.client_ids["mine"] = session
    session.disconnected()
    assert session.context.client_ids == {}
    assert session.forget() == [session.subscriptions, session.holdings.by_ordinal]
