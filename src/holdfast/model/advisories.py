"""
Advisories: what the broker says of itself on topics of ActiveMQ's names.

Each has properties, which are headers in STOMP, and a structure, which is its body: JSON or XML.
The names of both are ActiveMQ's, its own misspellings among them; its programs read them.

Pure values.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple
from xml.sax.saxutils import escape as escape_xml

from holdfast.errors import DestinationError

PREFIX: Final = "ActiveMQ.Advisory."

CONNECTION: Final = "Connection"
CONSUMER: Final = "Consumer"
DEAD: Final = "MessageDLQd"
EXPIRED: Final = "Expired"
QUEUE: Final = "Queue"
TOPIC: Final = "Topic"
TEMPORARY_QUEUE: Final = "TempQueue"
TEMPORARY_TOPIC: Final = "TempTopic"

CONSUMED: Final = "MessageConsumed"
DELIVERED: Final = "MessageDelivered"
DISCARDED: Final = "MessageDiscarded"
DISPATCHED: Final = "MessageDispatched"
FAST_PRODUCER: Final = "FastProducer"
FULL: Final = "FULL"
NO_CONSUMER: Final = "NoConsumer"
SLOW_CONSUMER: Final = "SlowConsumer"

_SERVED: Final = (
    *(CONNECTION, QUEUE, TOPIC, TEMPORARY_QUEUE, TEMPORARY_TOPIC),
    *(CONSUMER, DEAD, EXPIRED),
    *(CONSUMED, DELIVERED, DISCARDED, DISPATCHED),
    *(FAST_PRODUCER, FULL, NO_CONSUMER, SLOW_CONSUMER),
)
_ANY: Final = ("*", ">")

_ESCAPES: Final = str.maketrans({"\\": "\\\\", ":": "\\c", "\n": "\\n", "\r": "\\r"})
"""As header lines are stored: those of STOMP 1.2."""

Structure = dict[str, "str | int | bool | Structure"]


class Advisory(NamedTuple):
    """One thing that the broker says."""

    name: str
    """The topic, in full."""
    properties: tuple[tuple[str, str | int], ...]
    kind: str
    """What the structure is called."""
    structure: Structure


def is_advisory(name: str) -> bool:
    """Whether a topic of this name, or a pattern, is about advisories."""
    return name.startswith(PREFIX)


def kind_said(pattern: str) -> str:
    """Give the kind of advisories that a pattern means, or a wildcard."""
    return pattern.removeprefix(PREFIX).partition(".")[0]


def wants(pattern: str, kind: str) -> bool:
    """Whether a pattern can mean advisories of a kind."""
    return kind_said(pattern) in (kind, *_ANY)


def require_said(pattern: str) -> None:
    """
    Refuse to let somebody wait for advisories that never come.

    Raises:
        DestinationError: There are none of this kind.
    """
    kind = kind_said(pattern)
    if kind not in (*_SERVED, *_ANY):
        raise DestinationError(
            f"advisories of kind {kind[:80]!r} are not served (topic {pattern[:200]!r});"
            f" there are {', '.join(sorted(_SERVED))}"
        )


def lines_of(advisory: Advisory, broker: tuple[str, str], *, is_xml: bool) -> bytes:
    """
    Write the headers of an advisory as they are stored.

    Args:
        broker: The name and the id of who says it.
    """
    name, identity = broker
    said = (
        ("destination", f"/topic/{advisory.name}"),
        ("type", "Advisory"),
        ("originBrokerName", name),
        ("originBrokerId", identity),
        *advisory.properties,
        ("transformation", "jms-advisory-xml" if is_xml else "jms-advisory-json"),
    )
    return "".join(f"{key}:{str(value).translate(_ESCAPES)}\n" for key, value in said).encode()


def lines_around(name: str, whence: str, lines: bytes) -> bytes:
    """Write the headers of a message that is passed on as it is: its own stand behind ours."""
    said = (("destination", f"/topic/{name}"), ("original-destination", whence))
    return "".join(f"{key}:{value.translate(_ESCAPES)}\n" for key, value in said).encode() + lines


def body_of(advisory: Advisory, *, is_xml: bool) -> bytes:
    """Write the structure of an advisory."""
    whole: Structure = {advisory.kind: advisory.structure}
    if is_xml:
        return _xml(whole).encode()
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()


def _xml(structure: Structure) -> str:
    parts: list[str] = []
    for key, value in structure.items():
        if isinstance(value, dict):
            text = _xml(value)
        elif isinstance(value, bool):
            text = "true" if value else "false"
        else:
            text = escape_xml(str(value))
        parts.append(f"<{key}>{text}</{key}>")
    return "".join(parts)
