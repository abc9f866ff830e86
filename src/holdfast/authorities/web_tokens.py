"""
JSON Web Tokens as credentials: who shows one is whom its issuer says, with the roles it says.

A token is checked by what the operator wrote and never by what the token asks for: the algorithms
are pinned, a key is used for its own kind only, issuer, audience and end are required.

Invariants:
    A token whose end has come lets nobody in, and whoever came in by it goes with it.
    No token, and no part of one, is kept or shown.

Source: RFC 7519, RFC 8725 (best current practices).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jwt
from jwt.exceptions import PyJWTError

from holdfast.authorities.key_sets import Key, KeySet
from holdfast.authorities.options import JwtOptions
from holdfast.security.authority import Vouched
from holdfast.security.names import is_name_of_others
from holdfast.security.tokens import TOKEN_BYTES_MAX, is_web_token

ROLE_COUNT_MAX: Final = 100
LEEWAY_SECONDS: Final = 10.0
"""By so much clocks of issuer and broker may differ."""

_VALID_SECONDS: Final = 60.0
_KINDS: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class WebTokens:
    """Issuers of tokens, each known by what its tokens say of it."""

    def __init__(self, issuers: Sequence[JwtOptions], key_sets: Sequence[KeySet] = ()) -> None:
        """Believe these; `key_sets` are theirs, in the same order, if they are there already."""
        sets = key_sets or [KeySet(each) for each in issuers]
        self._issuers = {
            each.issuer: (each, keys) for each, keys in zip(issuers, sets, strict=True)
        }

    label = "jwt"
    is_guessable = False

    def recognises(self, name: str, secret: str, *, is_known: bool) -> bool:
        """Whether this looks like a token: three parts, of which the first is an object."""
        return is_web_token(secret)

    def look(self, name: str, secret: str) -> Vouched | None:
        """
        Say who shows a token; a name beside it is that of the token, or none.

        Raises:
            AuthenticationError: The issuer's keys could not be read.
        """
        if len(secret) > TOKEN_BYTES_MAX:
            return None
        header, claims = _unverified(secret)
        issuer = claims.get("iss")
        options, keys = self._issuers.get(issuer if isinstance(issuer, str) else "", (None, None))
        algorithm, key_id = header.get("alg"), header.get("kid", "")
        if options is None or keys is None or "crit" in header:
            return None
        if algorithm not in options.algorithms or not isinstance(key_id, str):
            return None
        for key in keys.keys(key_id):
            verified = _verified(secret, key, str(algorithm), options)
            if verified is not None:
                return _vouched(name, verified, options)
        return None


def _unverified(secret: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Read what a token says of itself, which nobody has vouched for yet."""
    try:
        found = jwt.decode_complete(secret, options={"verify_signature": False})
    except (PyJWTError, ValueError, TypeError, RecursionError):
        return {}, {}
    return found["header"], found["payload"]


def _verified(
    secret: str, key: Key, algorithm: str, options: JwtOptions
) -> Mapping[str, Any] | None:
    if key.kind != _KINDS.get(algorithm[:2]) or key.algorithm not in ("", algorithm):
        return None
    try:
        claims: Mapping[str, Any] = jwt.decode(
            secret,
            key.material,
            algorithms=[algorithm],
            audience=options.audience,
            issuer=options.issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iss", "aud"]},
        )
    except (PyJWTError, ValueError, TypeError, RecursionError, OverflowError):
        return None
    return claims


def _vouched(name: str, claims: Mapping[str, Any], options: JwtOptions) -> Vouched | None:
    said = claims.get(options.name_claim)
    if not isinstance(said, str) or not is_name_of_others(said) or name not in ("", said):
        return None
    roles = _roles(claims, options.roles_claim)
    expires_ms = int((float(claims["exp"]) + LEEWAY_SECONDS) * 1_000)
    return Vouched(said, roles, _VALID_SECONDS, expires_ms)


def _roles(claims: Mapping[str, Any], place: str) -> frozenset[str]:
    """Give what stands where the roles are: a list of names, or names with blanks between them."""
    found: Any = claims.get(place)
    if found is None:
        found = claims
        for part in place.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    listed = found.split() if isinstance(found, str) else found
    if not isinstance(listed, list):
        return frozenset()
    return frozenset(
        it for it in listed[:ROLE_COUNT_MAX] if isinstance(it, str) and is_name_of_others(it)
    )
