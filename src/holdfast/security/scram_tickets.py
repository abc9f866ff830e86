"""
What a login by SCRAM has come to, for its client to keep: as a text that nobody else can make.

What a node would keep of each login that was begun has to be bounded, and then whoever begins many
ends those of others, before who is far away has answered. So the node keeps nothing: all that it
has to know again stands in `sid`, which the client gives back, under a mark of this process' key.
It has no secret: its client has sent or been told all of it.

Invariants:
    A ticket that was changed, or that another process has made, is none.
    It is good for what it was made for only: what is `bound` is in the mark and not in the text.

Pure: chance is handed in.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple

CHANCE_BYTES: Final = 18
_MARK_BYTES: Final = 16
_UNTIL_BYTES: Final = 8
_HEAD_BYTES: Final = _MARK_BYTES + _UNTIL_BYTES + CHANCE_BYTES


class Ticket(NamedTuple):
    """What a text says, whoever has made it."""

    mark: bytes
    until_ms: int
    """Until when it is good, by the clock of who made it."""
    chance: bytes
    """Of what the server's nonce is made."""
    message: bytes
    """The client's first one."""

    def __repr__(self) -> str:
        """Without what passwords could be tried on."""
        return f"Ticket({self.mark.hex()!r})"


class Tickets:
    """Makes them, and knows them again."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        """Mark them by a key of 32 bytes, new with each process."""
        self._key = key

    def make(self, until_ms: int, chance: bytes, message: bytes, bound: tuple[bytes, ...]) -> str:
        """Give the text, of letters, digits, `-` and `_`."""
        assert len(chance) == CHANCE_BYTES, "its place is known by its length"
        body = until_ms.to_bytes(_UNTIL_BYTES, "big") + chance + message
        return urlsafe_b64encode(self._mark(body, bound) + body).rstrip(b"=").decode()

    def is_own(self, ticket: Ticket, bound: tuple[bytes, ...]) -> bool:
        """Whether this process has made it, for just that."""
        body = ticket.until_ms.to_bytes(_UNTIL_BYTES, "big") + ticket.chance + ticket.message
        return hmac.compare_digest(ticket.mark, self._mark(body, bound))

    def _mark(self, body: bytes, bound: tuple[bytes, ...]) -> bytes:
        made = hmac.new(self._key, digestmod="sha256")
        for part in (body, *bound):
            made.update(len(part).to_bytes(8, "big") + part)
        return made.digest()[:_MARK_BYTES]


def read_ticket(text: str) -> Ticket | None:
    """Read a text; None: it is none."""
    try:
        found = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except ValueError:
        return None
    if len(found) < _HEAD_BYTES:
        return None
    mark, rest = found[:_MARK_BYTES], found[_MARK_BYTES:]
    until, rest = rest[:_UNTIL_BYTES], rest[_UNTIL_BYTES:]
    return Ticket(mark, int.from_bytes(until, "big"), rest[:CHANCE_BYTES], rest[CHANCE_BYTES:])
