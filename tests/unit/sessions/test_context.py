"""
What all sessions of a node share.
"""

from __future__ import annotations

import pytest

from holdfast.errors import StoreFullError
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


def test_a_refusal_begins_once_and_is_told_apart_from_the_next() -> None:
    """
    Whatever its reason becomes meanwhile: what waits is told since when.
    """
    context = SessionContext(node="n1", version="1.2.3", cluster="c")
    assert context.refuse("full", 5.0)
    assert not context.refuse("fuller", 6.0)
    assert (context.refusal, context.refused_at) == ("fuller", 5.0)
    assert context.refuse(None, 7.0)
    assert not context.refuse(None, 8.0)
    assert (context.refusal, context.refused_at) == (None, 5.0)
    assert context.refuse("full", 9.0)
    assert context.refused_at == 9.0


def test_what_the_store_could_not_store_in_time_is_refused_by_its_size() -> None:
    """
    To its sender alone, with what to do; where nothing is known of the store, nothing is.
    """
    context = SessionContext(node="n1", version="1.2.3", cluster="c")
    context.require_storable(1 << 30)
    context.message_bytes_max = 5_000_000
    context.require_storable(5_000_000)
    with pytest.raises(StoreFullError, match=r"5,000,001 bytes.* more than 5,000,000 at once"):
        context.require_storable(5_000_001)
