"""
What keeps others from speaking for a node, switched off: requests passed on, and links by TLS.

A seed's world is one that listens on the way: it sends again what it saw, changes it, and stands
between two members with a certificate of the same authority.
"""

from __future__ import annotations

from typing import Any

from holdfast.admin import forwarding
from holdfast.admin.forwarding import LIFE_LENGTH, ForwardCheck, Forwarded, sign
from holdfast.errors import AuthenticationError
from holdfast.replication.frame_buffer import FrameBuffer
from holdfast.replication.handshake import NONCE_BYTES, AcceptorHandshake, DialerHandshake
from holdfast.replication.link_certificates import Certificates
from holdfast.replication.messages import Hello
from trials.safeguards.ablation import Ablation, Patch

_SECRET = b"0123456789abcdef"
_NOW = 1_790_000_000


def _listen(seed: int) -> str:
    """Say which request was taken that nobody passed on."""
    now = [_NOW]
    life, other_life = "a" * LIFE_LENGTH, "b" * LIFE_LENGTH
    check = ForwardCheck(_SECRET, life, lambda: now[0])
    request = Forwarded("POST", f"/queues/{seed}/purge", "b", "", life)
    seen = sign(_SECRET, request, b"{}", now=_NOW).encode()
    if check.take(seen, request).refusal:
        return ""
    if not check.take(seen, request).refusal:
        return "S11: a request was taken a second time"
    if not ForwardCheck(_SECRET, other_life, lambda: now[0]).take(seen, request).refusal:
        return "S11: a request was taken by a node, or a process, that was not asked"
    later = sign(_SECRET, request, b"{}", now=_NOW).encode()
    now[0] += 3_600
    if not check.take(later, request).refusal:
        return "S11: a request was taken an hour later"
    return ""


def _stand_between(_seed: int) -> str:
    """Say whether two members are linked by way of somebody with a certificate of his own."""
    here = Certificates("a's", "his", frozenset({"b"}))
    there = Certificates("b's", "his", frozenset({"a"}))
    dialer = DialerHandshake(_SECRET, Hello("a", "aa" * 16), b"d" * NONCE_BYTES, here)
    acceptor = AcceptorHandshake(_SECRET, Hello("b", "bb" * 16), b"a" * NONCE_BYTES, there)
    try:
        acceptor.receive(*_only(dialer.receive(*_only(acceptor.challenge()))))
    except AuthenticationError:
        return ""
    return "S12: a link goes by way of somebody who is no end of it"


def _only(data: bytes) -> tuple[int, bytes]:
    ((kind, buffer, start, end),) = FrameBuffer(1 << 16).feed(data)
    return kind, bytes(buffer[start:end])  # type: ignore[index]


def _remember_nothing() -> list[Patch]:
    return [(forwarding, "_note", lambda _seen, _proof, _now: "")]


def _take_for_another() -> list[Patch]:
    take = ForwardCheck.take

    def careless(self: Any, header: bytes, request: Forwarded) -> Any:
        life, self._life = self._life, header.split(b"to=")[1].split(b",")[0].decode()
        try:
            return take(self, header, request)
        finally:
            self._life = life

    return [(ForwardCheck, "take", careless)]


def _look_at_no_clock() -> list[Patch]:
    take = ForwardCheck.take

    def timeless(self: Any, header: bytes, request: Forwarded) -> Any:
        clock, self._clock = self._clock, lambda: int(header.split(b"at=")[1].split(b",")[0])
        try:
            return take(self, header, request)
        finally:
            self._clock = clock

    return [(ForwardCheck, "take", timeless)]


def _compare_no_certificates() -> list[Patch]:
    return [(Certificates, "are_told", lambda _self, _told: True)]


ABLATIONS = [
    Ablation("a request that is passed on is taken once", _remember_nothing, lived=_listen),
    Ablation("a request that is passed on is for one process", _take_for_another, lived=_listen),
    Ablation("a request that is passed on is of this minute", _look_at_no_clock, lived=_listen),
    Ablation(
        "both ends of a link prove which certificates they see",
        _compare_no_certificates,
        lived=_stand_between,
    ),
]
