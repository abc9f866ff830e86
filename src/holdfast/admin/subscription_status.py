"""
A durable subscription as its operators see it.

It is known by client-id and name together. Pages of very many go by one text for both, in which
neither can be taken for a part of the other.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionStatus:
    """One durable subscription of a topic. Whether it has a consumer only the leader knows."""

    client_id: str
    name: str
    owner: str = ""
    """Whose it is; empty: nobody's, whoever may read the topic and subscribes first has it."""

    topic: str = ""
    selector: str = ""
    no_local: bool = False
    """It does not get what its own client sends."""

    number: int = 0
    messages: int = 0
    """Those that it was not given, or has not acknowledged."""

    bytes: int = 0
    unacknowledged: int = 0
    """Of `messages`: sent to its consumer and not settled."""

    is_active: bool = False
    """It has a consumer."""

    detached_at_ms: int = 0
    """Since when it has none, in milliseconds since 1970; 0: it has one, or never had."""


def key_text(client_id: str, name: str) -> str:
    """Give one text for both, by whose order pages go."""
    return json.dumps([client_id, name])


def key_of(text: str) -> tuple[str, str]:
    """Give client-id and name by that text."""
    client_id, name = json.loads(text)
    return client_id, name
