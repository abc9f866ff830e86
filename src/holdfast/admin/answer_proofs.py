"""
By what an answer shows that it is from the node that was meant, and not from who listens there.

    Holdfast-Answer: HEX     of the answer to a request with a proof made of the secret or the token

The proof is keyed by what both ends know, the secret or the token of the node's file, and is over
the proof of the request, and the status. It is given only to who has shown that he knows it as
well. Who shows the token itself gets none: whoever reads it could give one.

Pure.
"""

from __future__ import annotations

import hmac
from typing import Final, NamedTuple

ANSWER_HEADER: Final = "holdfast-answer"

_CONTEXT: Final = b"holdfast answer, version 1"


class Expected(NamedTuple):
    """What an answer is proven by."""

    key: bytes
    asked: str
    """The proof of the request."""

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
