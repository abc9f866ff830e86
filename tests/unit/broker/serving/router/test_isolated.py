"""
Buckets of which the next message is to be sent alone: each is looked at when something has changed.
"""

from __future__ import annotations

from types import SimpleNamespace

from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer
from holdfast.broker.serving.router.isolated import Isolated


def consumer() -> Consumer:
    return Consumer(SimpleNamespace(room_bytes=1), "s", mode=AcknowledgeMode.AUTO, prefetch=1)


def test_one_waits_until_something_changes_of_it() -> None:
    """Others come first meanwhile."""
    isolated = Isolated()
    assert not isolated
    isolated.add(7)
    isolated.add(8)
    isolated.wait(7, None)
    assert isolated.first() == 8
    isolated.discard(8)
    assert isolated.first() is None
    isolated.look_again(8)
    assert isolated.first() is None, "it is none of them"
    isolated.look_again(7)
    assert isolated.first() == 7
    assert 7 in isolated
    assert 8 not in isolated


def test_or_until_its_owner_holds_nothing() -> None:
    """And not for somebody else, or for an owner who is gone."""
    isolated, owner, other = Isolated(), consumer(), consumer()
    for bucket in (7, 8):
        isolated.add(bucket)
        isolated.wait(bucket, owner)
    isolated.discard(8)
    isolated.runs_empty(other)
    assert isolated.first() is None
    isolated.runs_empty(owner)
    assert isolated.first() == 7
    isolated.wait(7, owner)
    isolated.left(owner)
    isolated.runs_empty(owner)
    assert isolated.first() is None


def test_nothing_is_left_of_what_is_forgotten() -> None:
    """Not even of what waits for its owner."""
    isolated, owner = Isolated(), consumer()
    isolated.add(7)
    isolated.wait(7, owner)
    isolated.empty()
    isolated.runs_empty(owner)
    assert not isolated
    assert isolated.first() is None
