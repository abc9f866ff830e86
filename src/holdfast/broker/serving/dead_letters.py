"""
What a message that was moved says, be it a dead letter or not, beside what it said before.

It keeps its own headers and has an origin among its facts; what its consumers see is made of both
when it is read. Where the log has not reached that level, the lines stand among its headers.

The headers have ActiveMQ's names, so that its tools and its users' programs understand them;
`original-message-id` is ours. A message that was a dead letter before, was sent again and is
rejected again, says where it came from now.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.facts import DEAD_LETTER_CAUSES, TOPIC_MARK, Cause, MessageFacts

_ESCAPES = str.maketrans({"\\": "\\\\", ":": "\\c", "\n": "\\n", "\r": "\\r"})
"""Stored header lines are escaped as in STOMP 1.2."""

_CAUSES: Final = {
    Cause.REJECTED: "rejected",
    Cause.EXHAUSTED: "rejected after the last redelivery",
    Cause.LOST: "the connections of its consumers were lost",
    Cause.EXPIRED: "Message Expired. Expiration:%s",
    Cause.MAXLEN: "maxlen",
    Cause.FORBIDDEN: "its sender may not send it there any more",
}
_OURS = (
    *(b"original-destination:", b"original-message-id:", b"dlqDeliveryFailureCause:"),
    *(b"scheduledJobId:", b"AMQ_SCHEDULED_"),
)
_SCHEDULED_FOR = b"AMQ_SCHEDULED_DESTINATION:"
_EXPIRES = b"expires:"
_LIFETIMES = (_EXPIRES, b"expiration:")
_ORIGINAL_EXPIRATION = b"originalExpiration:"


_VOLATILE = (b"persistent:", b"originalDeliveryMode:")


def once_volatile(headers: bytes) -> bytes:
    """Give the header lines of a non-persistent message that is stored, as a dead letter."""
    kept = b"".join(
        line for line in headers.splitlines(keepends=True) if not line.startswith(_VOLATILE)
    )
    return kept + b"persistent:true\noriginalDeliveryMode:NON_PERSISTENT\n"


def with_origin(headers: bytes, facts: MessageFacts) -> bytes:
    """Give the header lines that consumers of what was moved see, of those it was sent with."""
    origin = facts.origin
    assert origin is not None, "it was moved"
    kept = b"".join(
        line for line in headers.splitlines(keepends=True) if not line.startswith(_OURS)
    )
    said = ""
    kept, expiration = _with_its_expiry(kept, facts)
    if origin.cause is Cause.FIRED:
        return kept + f"scheduledJobId:{origin.message_id.translate(_ESCAPES)}\n".encode()
    if origin.cause is Cause.FORBIDDEN:  # It waited on no queue that its sender has named.
        said = _scheduled_for(headers)
    elif origin.cause is not Cause.RETRIED:  # It is back where it was first.
        said = f"original-destination:{_destination(origin.queue).translate(_ESCAPES)}\n"
    if origin.message_id:
        said += f"original-message-id:{origin.message_id.translate(_ESCAPES)}\n"
    if origin.cause in _CAUSES:
        cause = _CAUSES[origin.cause]
        if origin.cause is Cause.EXPIRED:
            cause = (cause % expiration).translate(_ESCAPES)
        said += f"dlqDeliveryFailureCause:{cause}\n"
    return kept + said.encode()


def _scheduled_for(headers: bytes) -> str:
    """Say of what was scheduled where it was to go, as its sender wrote it."""
    found = (it for it in headers.splitlines(keepends=True) if it.startswith(_SCHEDULED_FOR))
    return "".join(f"original-destination:{it[len(_SCHEDULED_FOR) :].decode()}" for it in found)


def _destination(origin: str) -> str:
    """Give a destination as clients name it, by what an origin calls it."""
    if origin.startswith(TOPIC_MARK):
        return f"/topic/{origin.removeprefix(TOPIC_MARK)}"
    return f"/queue/{origin}"


def _with_its_expiry(headers: bytes, facts: MessageFacts) -> tuple[bytes, str]:
    """
    Give the header lines with the time that the message has now, and the time it was sent with.

    What it was sent with was said by its sender, or by the broker that took it: it is still there.
    A dead letter has a time of its own, or none; so has what came from there.
    """
    assert facts.origin is not None, "it was moved"
    expires_ms = 0 if facts.attributes is None else facts.attributes.expires_ms
    is_dead = facts.origin.cause in DEAD_LETTER_CAUSES
    if facts.origin.cause is Cause.FIRED:
        headers = b"".join(
            line for line in headers.splitlines(keepends=True) if not line.startswith(_LIFETIMES)
        )
        return headers + (_EXPIRES + b"%d\n" % expires_ms if expires_ms else b""), "0"
    lines = headers.splitlines(keepends=True)
    before = next((it.strip()[len(_EXPIRES) :] for it in lines if it.startswith(_EXPIRES)), b"")
    if (expires_ms and not is_dead) or not (before or expires_ms):
        return headers, before.decode() or "0"
    dropped = (_EXPIRES, _ORIGINAL_EXPIRATION) if is_dead and before else (_EXPIRES,)
    kept = [line for line in lines if not line.startswith(dropped)]
    if is_dead and before:
        kept.append(b"%b%b\n" % (_ORIGINAL_EXPIRATION, before))
    kept.append(b"%b%d\n" % (_EXPIRES, expires_ms))
    return b"".join(kept), before.decode() or "0"
