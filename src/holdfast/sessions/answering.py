"""
What the broker sends itself: answers to questions, to wherever these want them.

They are in memory only, wait for no room, and are as any message to those who have them: also to
the durable subscriptions of a topic.
"""

from __future__ import annotations

from holdfast.broker.broker import Broker
from holdfast.broker.outputs import Publisher
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.errors import DestinationError


def say(broker: Broker, place: Queue | Topic, lines: bytes, body: bytes, asker: Publisher) -> bool:
    """
    Send what the broker answers, in memory only, if there is room; whether there was.

    It is as if who asked had sent it himself: he says where it goes.
    """
    try:
        place = broker.routing.current_of(place)
        is_stored = isinstance(place, Topic) and place.is_stored
        stored = broker.destinations.stored.topic(place.name) if is_stored else None
    except DestinationError:
        return False  # It is gone, or stored for wildcards only, and cannot be declared now.
    if place.is_deleted or not broker.has_room(place):
        return False
    size = len(lines) + len(body)
    if broker.sending.refused_answer(place, asker, size, size) is not None:
        broker.sending.answers_refused_total += 1
        return False
    if isinstance(place, Topic):
        broker.publish(place, lines, body)
        if stored is not None:
            broker.sending.send_transient_on(stored, lines, body, None, "")
        return True
    if broker.limiting.refusal(place, 1, size, is_stored=False) is not None:
        return False
    broker.send_transient(place, lines, body, None, asker)
    broker.limiting.sent(place, place.assigned_sequence, 0)
    return True
