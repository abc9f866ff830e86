"""
What queues are called that have the dead letters of one queue, topic or durable subscription alone.

As ActiveMQ calls them: a prefix, the name of the queue or topic, of a durable subscription a dot,
its client's id, a colon and its own name, and a suffix. Ids and names of subscriptions may hold
what no name of a queue can; that is written as `%` and two digits for each byte. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.model.limits import QUEUE_NAME_BYTES_MAX

_NEVER: Final = frozenset("%*>,? ")
"""What means something else where a destination is written, or here."""


def own_queues(
    prefix: str, destination: str, suffix: str, subscription: tuple[str, str] | None
) -> Iterator[str]:
    """
    Give the names of the queue, the first of which is to be taken that a queue can have.

    Args:
        subscription: Client-id and name; None: it is for the whole destination.
    """
    if subscription is not None:
        client_id, name = subscription
        whose = f"{_written(client_id, ':')}:{_written(name)}"
        yield f"{prefix}{destination}.{whose}{suffix}"
    yield f"{prefix}{destination}{suffix}"


def fits(name: str) -> bool:
    """Whether a queue can have a name that is so long."""
    return len(name.encode()) <= QUEUE_NAME_BYTES_MAX


def _written(text: str, beside: str = "") -> str:
    """Write a text so that it can be a part of a queue's name; two of them never the same."""
    return "".join(
        "".join(f"%{byte:02X}" for byte in each.encode())
        if each in _NEVER or each in beside or not each.isprintable()
        else each
        for each in text
    )
