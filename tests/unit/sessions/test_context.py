"""
What all sessions of a node share.
"""

from __future__ import annotations

from holdfast.sessions.context import SessionContext


def test_a_new_context_refuses_nothing() -> None:
    """
    The defaults are those of ActiveMQ: a message is persistent only if it says so.
    """
    context = SessionContext(node="n1", version="1.2.3", cluster="c")
    assert context.server == "Holdfast/1.2.3"
    assert (context.refusal, context.waiting) == (None, {})
    assert not context.default_persistent
    assert not context.dirty
