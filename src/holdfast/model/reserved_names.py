"""
Names of destinations with which the broker, or ActiveMQ, talks of itself: no message is put there.

Clients are refused them as they subscribe and send, operators as they say where messages go: what
would stand there nobody could ever take. Pure; nothing here knows whether a destination exists.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.advisories import is_advisory

OWN_MARK: Final = "$"
"""With which the names of the broker's own destinations begin: no wildcard means them, nothing is
said of them, and they never go."""

_NOT_SERVED: Final = {
    "ActiveMQ.Scheduler.Management": "scheduled messages, but by a SEND to it alone,",
    "ActiveMQ.Statistics.": "statistics, but by a SEND to one name alone with a reply-to,",
}


def why_reserved(name: str) -> str:
    """Say why nothing can be put on a destination of this name; empty: it can."""
    if name.startswith(OWN_MARK):
        return f"names that begin with '{OWN_MARK}' are the broker's own"
    if is_advisory(name):
        return (
            "advisory messages are the broker's own: one topic of them may be subscribed to, and"
            " nothing else"
        )
    for prefix, what in _NOT_SERVED.items():
        if name.startswith(prefix):
            return f"{what} are not served"
    return ""
