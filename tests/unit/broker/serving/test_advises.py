"""
Until somebody says what happens, nobody listens.
"""

from __future__ import annotations

from holdfast.broker.advising import Advising
from holdfast.broker.broker import Broker
from holdfast.broker.serving.advises import SILENCE
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import Cause


def test_silence_has_no_listeners() -> None:
    """
    Whoever asks does not go on, and would do nothing.
    """
    assert not SILENCE.listeners
    for say in (SILENCE.came, SILENCE.went):
        say(None)
    for say in (SILENCE.subscribed, SILENCE.unsubscribed, SILENCE.expired_on_topic):
        say(None, 0)
    SILENCE.died(None, (1,), Cause.EXPIRED, is_buried=True)


def test_all_parts_of_a_broker_tell_the_same() -> None:
    """
    A part that tells nobody would be silent for ever.
    """
    broker = Broker(BrokerSettings())
    assert isinstance(broker.advising, Advising)
    for part in (broker.destinations, broker.routing, broker.settling, broker.expiring):
        assert part.advising is broker.advising
