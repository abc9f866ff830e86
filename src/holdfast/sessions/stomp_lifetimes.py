"""
How long the message of a SEND lives: what its headers say, and what the policies make of it.

`expires` is a time, in milliseconds since 1970; `expiration` is how long from now. 0 is for ever in
both, and the first counts where both are there. Consumers see the time that came of it in
`expires`.

The broker's time is ahead of its clock after that was put back, or under a leader whose clock is
behind. A lifetime counts from when the message came by the clock of who takes it, so it is no
shorter for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.errors import NotServedError
from holdfast.model.digits import read_digits
from holdfast.protocols.stomp.mapping import lookup
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.refusals import IGNORED_EXPIRY
from holdfast.sessions.requirements import read_number

EXPIRES_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999: what is to live longer lives for ever."""

_LINES: Final = (b"expires:", b"expiration:")


class Said(NamedTuple):
    """What the headers say."""

    expires_ms: int = 0
    """When it expires, by its sender's clock; 0: nothing, or never."""
    lasts_ms: int = 0
    """How long it lives; 0: nothing, or for ever."""
    sent_ms: int = 0
    """When it was sent, by its sender's clock; 0: nothing."""


NOTHING: Final = Said()
"""What most say."""


class Lifetime(NamedTuple):
    """What came of it."""

    expires_ms: int
    """In the broker's time; 0: never."""
    lines: bytes
    """The headers, as consumers see them."""
    is_constant: bool
    """Whether it is the same for every message with these headers, whenever it comes."""
    is_momentary: bool = False
    """Whether it is at least for those that come at the same time."""


def read_lifetime(session: ClientSession, headers: dict[str, str]) -> Said:
    """
    Give what the headers of a SEND say of how long its message lives.

    Raises:
        RefusedError: A header is no number.
        NotServedError: It has expired, and nothing else does: not all members know what that is.
    """
    if not ("expires" in headers or "expiration" in headers or "timestamp" in headers):
        return NOTHING
    expires_ms, lasts_ms = _read(headers, "expires"), _read(headers, "expiration")
    broker = session.holdings.broker
    if (expires_ms or lasts_ms) and not broker.expiring.is_possible:
        _tell_not_yet(session, expires_ms, broker.sending.now_microseconds // 1000)
    sent_ms = read_digits(headers.get("timestamp", "").strip().encode()) or 0
    return Said(expires_ms, lasts_ms, sent_ms)


def lifetime_of(
    session: ClientSession,
    said: Said,
    destinations: Iterable[Queue | Topic],
    lines: bytes,
) -> Lifetime:
    """
    Give how long a message that comes now lives, of which this is said.

    It is one on all of its destinations: what the policies of any of them end first counts.
    """
    broker = session.holdings.broker
    of = broker.policies.of
    found = [of(each).lifetimes for each in destinations if isinstance(each, Queue)]
    rules = [each for each in found if each.say_anything]
    if not (said.expires_ms or said.lasts_ms or rules):
        return Lifetime(0, lines, is_constant=True)
    if not broker.expiring.is_possible:
        return Lifetime(0, lines, is_constant=False)
    wall_ms = broker.sending.now_microseconds // 1000
    expires_ms = said.expires_ms or (said.lasts_ms and wall_ms + said.lasts_ms)
    if rules:
        times = [each.expires_ms(expires_ms, said.sent_ms, wall_ms) for each in rules]
        expires_ms = min(filter(None, times), default=0)
    if not 0 < expires_ms <= EXPIRES_MS_MAX:
        return Lifetime(0, lines, is_constant=False, is_momentary=True)
    if expires_ms != said.expires_ms:
        lines = _expiring_at(lines, expires_ms)
    ahead_ms = max(0, broker.returning.now_ms - wall_ms)
    return Lifetime(expires_ms + ahead_ms, lines, is_constant=False, is_momentary=True)


def with_expiry(lines: bytes, now_ms: int) -> bytes:
    """Say in header lines when a message expires of which is said how long it lives from now."""
    if b"expiration:" not in lines or read_digits((lookup(lines, "expires") or "").encode()):
        return lines
    lasts_ms = read_digits((lookup(lines, "expiration") or "").strip().encode())
    if not lasts_ms or now_ms + lasts_ms > EXPIRES_MS_MAX:
        return lines
    return _expiring_at(lines, now_ms + lasts_ms)


def _expiring_at(lines: bytes, expires_ms: int) -> bytes:
    kept = [line for line in lines.splitlines(keepends=True) if not line.startswith(_LINES)]
    return b"".join((*kept, b"expires:%d\n" % expires_ms))


def _read(headers: dict[str, str], name: str) -> int:
    text = headers.get(name)
    return 0 if text is None else read_number(text.strip().encode(), name)


def _tell_not_yet(session: ClientSession, said_ms: int, wall_ms: int) -> None:
    """Refuse what has expired; take what will, and say that it does not."""
    if 0 < said_ms <= wall_ms:
        late = wall_ms - said_ms
        raise NotServedError(f"the message has expired {late:,} ms ago (header 'expires')")
    text = "messages do not expire before all members know that; what was said of it is kept"
    session.context.refusals.note(session, IGNORED_EXPIRY, text)
