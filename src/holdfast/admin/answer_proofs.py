"""
By what an answer shows that it is from the node that was meant, and not from who listens there.

    Holdfast-Nonce: HEX      of a request that shows the token of the node's file
    Holdfast-Answer: HEX     of the answer to it, or to one with a proof made of the secret

The proof is keyed by what both ends know, the secret or the token, and is over the nonce or the
proof of the request, and the status. It is given only to who has shown that he knows it as well.

Pure, but for chance.
"""

from __future__ import annotations

import hmac
import re
import secrets
from typing import Final, NamedTuple

NONCE_HEADER: Final = "holdfast-nonce"
ANSWER_HEADER: Final = "holdfast-answer"

_CONTEXT: Final = b"holdfast answer, version 1"
_NONCE: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


class Expected(NamedTuple):
    """What an answer is proven by."""

    key: bytes
    asked: str
    """The nonce, or the proof, of the request."""

    def __repr__(self) -> str:
        """Without the key."""
        return "Expected()"

    def proof(self, status: int) -> str:
        """Give what stands in the header of an answer with this status."""
        key = hmac.digest(self.key, _CONTEXT, "sha256")
        return hmac.digest(key, f"{status} {self.asked}".encode(), "sha256").hex()

    def is_proven(self, status: int, shown: str) -> bool:
        """Whether an answer with this header is from who knows the key."""
        return hmac.compare_digest(self.proof(status).encode(), shown.encode())


def new_nonce() -> str:
    """Draw one."""
    return secrets.token_hex(16)


def is_nonce(text: str) -> bool:
    """Whether it has the form of one."""
    return _NONCE.fullmatch(text) is not None
