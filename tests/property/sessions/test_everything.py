"""
Everything at once, at the sessions: any frames, policies, failovers; see `everything`.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.broker.serving.queue import Queue
from holdfast.broker.settling import Settling
from holdfast.model.records import MoveRecord
from holdfast.sessions.connection_shares import ConnectionShares
from holdfast.sessions.session import Session
from tests.property.sessions.everything import walk

SEEDS = st.integers(0, 1 << 32)


@given(seed=SEEDS)
@settings(max_examples=40)
@example(seed=4).via("a topic that was stored for a while was taken for good as it was before")
@example(seed=191).via("the same, of another topic")
def test_what_was_confirmed_is_there_or_settled(seed: int) -> None:
    """
    None is lost, none comes again that was acknowledged, and what was seen before says so.
    """
    walk(seed, is_harsh=False)


@given(seed=SEEDS)
@settings(max_examples=40)
def test_nothing_breaks_whatever_is_said(seed: int) -> None:
    """
    Also where messages are dropped, discarded, forwarded, purged: and the log tells it all.
    """
    walk(seed, is_harsh=True)


def found_out(how: str) -> None:
    with pytest.raises(AssertionError, match=how):
        for seed in range(30):
            walk(seed, is_harsh=False)


def test_an_acknowledgement_that_is_not_logged_is_found_out(monkeypatch) -> None:
    """
    What was confirmed as settled comes to the next one.
    """
    settle = Settling.settle

    def forgets(self: Settling, queue: Queue, key: int) -> None:
        if key % 4:
            settle(self, queue, key)

    monkeypatch.setattr(Settling, "settle", forgets)
    found_out("is settled, and comes again|settled, and there again")


def test_a_place_that_is_not_given_back_is_found_out(monkeypatch) -> None:
    """
    However a connection ends: also where that is known before anything of it is read.
    """
    take = ConnectionShares.take

    def takes_too_late(self: ConnectionShares, session: Session, *said: object) -> bool:
        was_gone, session.is_gone = session.is_gone, False
        try:
            return take(self, session, *said)
        finally:
            session.is_gone = was_gone

    monkeypatch.setattr(ConnectionShares, "take", takes_too_late)
    found_out("a place of who is gone")


def test_a_dead_letter_that_is_nowhere_is_found_out(monkeypatch) -> None:
    """
    No policy of these stories lets one go.
    """
    init = MoveRecord.__init__

    def goes_nowhere(self: MoveRecord, queue_number: int, _target: int, *args, **named) -> None:
        init(self, queue_number, 0, *args, **named)

    monkeypatch.setattr(MoveRecord, "__init__", goes_nowhere)
    found_out("confirmed, and nowhere")


def test_a_delivery_that_hides_that_it_is_not_the_first_is_found_out(monkeypatch) -> None:
    """
    Each says so that may have been delivered before.
    """
    monkeypatch.setattr(Queue, "is_flagged", lambda _queue, _key: False)
    found_out("does not say that it was seen")
