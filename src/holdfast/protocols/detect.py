"""
Which protocol a client speaks, by the first bytes it sends: so one port can serve several.

Each protocol says of a beginning whether it is its own. Line ends before it count for nothing: no
protocol begins with them but STOMP, where they are heart-beats. What nobody knows is explained
where it is what people send by mistake: TLS to a plain port, a browser, another broker's protocol.

Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeAlias, TypeVar

from holdfast.errors import RemoteProtocolError

FIRST_BYTES_MAX: Final = 64
"""So many bytes are looked at; each protocol knows its own by fewer."""

UNKNOWN_PROTOCOL: Final = "unknown-protocol"
"""The code of the refusal."""

_LINE_ENDS: Final = b"\r\n"


class Answer(enum.Enum):
    """Whether a beginning is a protocol's own."""

    YES = "yes"
    NO = "no"
    PERHAPS = "perhaps"
    """More bytes are needed to tell."""


Recognizes: TypeAlias = Callable[[bytes], Answer]
"""Told by the first bytes, at least one, whatever they are."""


class Spoken(Protocol):
    """A protocol that may be chosen."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def recognizes(self) -> Recognizes:
        """How it is known."""


S = TypeVar("S", bound=Spoken)

_KNOWN_ELSEWHERE: Final = (
    (b"\x16\x03", "TLS, but this port is a plain one"),
    (b"AMQP", "AMQP"),
    (b"GET ", "HTTP"),
    (b"POST ", "HTTP"),
    (b"HEAD ", "HTTP"),
    (b"PUT ", "HTTP"),
)


def without_line_ends(data: bytes) -> bytes:
    """Leave out what may come before a beginning."""
    return data.lstrip(_LINE_ENDS)


def by_words(words: Iterable[bytes], after: bytes) -> Recognizes:
    """Recognize a protocol whose clients begin with one of these words, then one of these bytes."""
    whole = tuple(word + bytes((end,)) for word in words for end in after)

    def recognizes(start: bytes) -> Answer:
        if start.startswith(whole):
            return Answer.YES
        return Answer.PERHAPS if any(it.startswith(start) for it in whole) else Answer.NO

    return recognizes


def choose(start: bytes, protocols: Iterable[S]) -> S | None:
    """
    Give the protocol whose beginning this is; None as long as it may yet become one.

    Raises:
        RemoteProtocolError: `unknown-protocol`; it is none of these, with a guess at what it is.
    """
    start = without_line_ends(start)[:FIRST_BYTES_MAX]
    may_become_one = not start
    for protocol in protocols if start else ():
        answer = protocol.recognizes(start)
        if answer is Answer.YES:
            return protocol
        may_become_one = may_become_one or answer is Answer.PERHAPS
    if may_become_one and len(start) < FIRST_BYTES_MAX:
        return None
    raise RemoteProtocolError(_unknown(start, protocols), code=UNKNOWN_PROTOCOL)


def _unknown(start: bytes, protocols: Iterable[Spoken]) -> str:
    spoken = ", ".join(protocol.name for protocol in protocols)
    for known, what in _KNOWN_ELSEWHERE:
        if start.startswith(known):
            return f"this looks like {what}; spoken here: {spoken}"
    return f"a beginning that is no protocol's, {start[:16]!r}; spoken here: {spoken}"
