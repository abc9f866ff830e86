"""
A session that sends and holds begins with nothing.
"""

from __future__ import annotations

import gc
import weakref

from tests.unit.sessions.speaker import Message, Speaker


def test_a_session_and_its_holdings_do_not_hold_each_other(desk) -> None:
    """
    Thousands that are gone would wait for the collector of cycles.
    """
    session = Speaker(desk)
    assert (session.effort, session.unconfirmed_count) == (0, 0)
    session.send(Message("/queue/q"))
    session.leave()
    session.forget()
    desk.turn()
    desk.context.dirty.clear()
    gc.disable()
    try:
        gone = weakref.ref(session)
        del session
        assert gone() is None
    finally:
        gc.enable()
