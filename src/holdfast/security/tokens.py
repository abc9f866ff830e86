"""
Tokens: what programs show instead of a password, made here so that nobody can guess them.

A token says whose it is, then 256 bits of chance: `hf_NAME.CHANCE`, both in the letters of URLs. So
it needs no name beside it, and looking for it takes no time. Only its digest is kept: what was
drawn so needs neither salt nor pepper.

Pure: chance is handed in.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from typing import Final

PREFIX: Final = "hf_"
CHANCE_BYTES: Final = 32
TOKEN_BYTES_MAX: Final = 8 << 10
"""Of a token of any kind: one of an issuer may name a hundred groups."""

_OBJECT: Final = "eyJ"
"""How an object of JSON begins in the letters of URLs."""


def make_token(name: str, chance: bytes) -> str:
    """Give a user's new token, made of so many bytes that nobody can guess."""
    assert len(chance) == CHANCE_BYTES
    return f"{PREFIX}{_letters(name.encode())}.{_letters(chance)}"


def is_token(secret: str) -> bool:
    """Whether a secret is shown as a token: then it is none as a password."""
    return secret.startswith(PREFIX)


def is_web_token(secret: str) -> bool:
    """Whether a secret looks like a JSON Web Token: three parts, the first of them an object."""
    return secret.startswith(_OBJECT) and secret.count(".") == 2


def is_any_token(secret: str) -> bool:
    """Whether a secret is shown as a token, of ours or of an issuer: then it is no password."""
    return is_token(secret) or is_web_token(secret)


def owner_of(token: str) -> str | None:
    """Give whose a token says that it is; None: it says nothing."""
    name, dot, _ = token.removeprefix(PREFIX).partition(".")
    if not dot:
        return None
    try:
        return urlsafe_b64decode(f"{name}{'=' * (-len(name) % 4)}").decode()
    except (Error, ValueError):
        return None


def digest_of(token: str) -> str:
    """Give what is kept of a token."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def _letters(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
