"""
A queue of a leader that is alone with it.
"""

from __future__ import annotations

from holdfast.broker.flow_control import FlowControl
from holdfast.broker.lasting.producers import Producers
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.serving.leadership import Leadership
from holdfast.broker.serving.plain import Plain
from holdfast.broker.serving.queue import Queue
from holdfast.broker.settings import BrokerSettings
from holdfast.model.numbering import Numbering

SETTINGS = BrokerSettings()


def leadership_with(
    numbering: Numbering = Numbering(),  # noqa: B008 - a value
    settings: BrokerSettings = SETTINGS,
) -> Leadership:
    """Begin a leadership without a broker."""
    return Leadership(settings, FlowControl(settings), Plain, numbering, producers=Producers())


def served(number: int, name: str = "q") -> Queue:
    """Serve an empty queue, in a leadership of its own."""
    return leadership_with().serve(LastingQueue(number, name))


def served_again(queue: Queue, numbering: Numbering = Numbering()) -> Queue:  # noqa: B008 - a value
    """Serve a queue's lasting half in another leadership."""
    return leadership_with(numbering).serve(queue.lasting)
