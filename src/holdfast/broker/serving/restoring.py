"""
What a rolled back transaction had acknowledged is in delivery again, before what came after it.

A window may hold as much as a transaction and a prefetch together, so it is put together in steps.
The subscription is given nothing meanwhile, so nothing but its end changes the window beside this.

Invariants:
    Between two steps each of the keys is either reserved or in delivery: a late acknowledgement by
    somebody else is refused, and where the subscription is closed each goes back to its queue once.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator
from itertools import chain, islice
from typing import Final

from holdfast.broker.serving.subscription import Subscription

_WITHOUT_ROOM: Final = -(1 << 40)
"""Added to a prefetch: no window is below that, and what else is added meanwhile is kept; a
subscription that is closed has 0."""


def restore(
    subscription: Subscription, keys: list[int], step_count: int
) -> Generator[None, None, int]:
    """
    Put reserved keys back into a subscription's window, first of all; give how many are there.

    Those that are not, as the subscription was closed between two steps, are reserved still.
    """
    queue = subscription.queue
    window = subscription.unacknowledged
    if len(keys) + len(window) <= step_count:
        if queue is not None:
            queue.custody.unreserve(keys)
        subscription.unacknowledged = dict.fromkeys([*keys, *window])
        _limit(subscription, keys)
        return len(keys)
    subscription.prefetch += _WITHOUT_ROOM
    later = list(window)
    for start in range(0, len(keys), step_count):
        some = keys[start : start + step_count]
        if queue is not None:
            queue.custody.unreserve(some)
        window.update(dict.fromkeys(some))
        _limit(subscription, some)
        yield
        if subscription.is_closed:
            return start + len(some)
    # All are in delivery; what is left is their order.
    whole: dict[int, None] = {}
    ordered = chain(keys, later)
    while some := list(islice(ordered, step_count)):
        whole.update(dict.fromkeys(some))
        yield
        if subscription.is_closed:
            return len(keys)
    assert len(whole) == len(window), "nobody else changes the window meanwhile"
    subscription.unacknowledged = whole
    if subscription.prefetch < 0:
        subscription.prefetch -= _WITHOUT_ROOM
    return len(keys)


def _limit(subscription: Subscription, keys: list[int]) -> None:
    """Let what is in delivery again be so for as long as anything may, from now on."""
    queue = subscription.queue
    if subscription.delivery_ms_max and queue is not None and queue.time_limits is not None:
        queue.time_limits.give(subscription, array("q", keys))
