"""
What is kept of a password so that it can be shown by SCRAM-SHA-256 (RFC 5802, RFC 7677).

The keys of SCRAM are made of the password by PBKDF2, which takes some milliseconds, once, where it
is set. A user's record has them beside what argon2id made of the password:

    "scram": {"salt", "iterations", "nonce", "keys", "of"[, "before": {"nonce", "keys"}]}

`keys` are StoredKey and ServerKey under a pad made of the pepper, which does not stand in the log:
whoever reads the log has nothing to try passwords on, and nothing to pass for the node with. `of`
says to which password they belong: a node that knows nothing of SCRAM replaces the password only,
and then there are none. `before` has the keys of the password before this one: a program that goes
on showing that guesses nothing.

Invariants:
    The salt is made of the pepper and the name: a name has the same one for ever, whether there is
    such a user or not, and so nobody finds out by it who there is.
    No pad is used twice: each has a nonce of its own.

Pure: what must not be guessed is handed in.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from holdfast.errors import AccessError
from holdfast.security.saslprep import prepare

ITERATIONS: Final = 16_384
"""Of all keys that are made here. RFC 7677 asks for 4,096 and advises 15,000: six milliseconds."""
ITERATIONS_MAX: Final = 1_000_000
"""More would be a way to hold up clients, who do that work."""
ITERATIONS_MIN: Final = 4096
SALT_BYTES: Final = 16
NONCE_BYTES: Final = 16
KEY_BYTES: Final = 32

_OF_LENGTH: Final = 16
_B64_16: Final = re.compile(r"[A-Za-z0-9+/]{22}==")
_B64_64: Final = re.compile(r"[A-Za-z0-9+/]{86}==")

_CLIENT_KEY: Final = b"Client Key"
_SERVER_KEY: Final = b"Server Key"
_SALT: Final = b"holdfast scram salt 1\0"
_PAD: Final = b"holdfast scram pad 1\0"


class Keys(NamedTuple):
    """StoredKey and ServerKey of one password."""

    stored: bytes
    server: bytes

    def __repr__(self) -> str:
        """Without either."""
        return "Keys()"


class Masked(NamedTuple):
    """Both under a pad."""

    nonce: bytes
    keys: bytes

    def __repr__(self) -> str:
        """Without what passwords could be tried on."""
        return "Masked()"


NOBODYS: Final = Masked(bytes(NONCE_BYTES), bytes(2 * KEY_BYTES))
"""What stands for the keys of who has none: under any pad they are of no password."""


class KeptKeys(NamedTuple):
    """What a record has for one password."""

    salt: bytes
    iterations: int
    masked: Masked
    before: Masked | None = None
    """Of the password before, by the same salt."""


def salted(password: str, salt: bytes, iterations: int) -> bytes | None:
    """
    Give SaltedPassword, which takes milliseconds; None: SCRAM cannot have such a password.

    The password must not be longer than others are taken: see `PASSWORD_BYTES_MAX`.
    """
    prepared = prepare(password)
    if not prepared:
        return None
    return hashlib.pbkdf2_hmac("sha256", prepared.encode(), salt, iterations)


def keys_of(salted_password: bytes) -> Keys:
    """Give the keys of a salted password (RFC 5802, 3)."""
    client = hmac.digest(salted_password, _CLIENT_KEY, "sha256")
    server = hmac.digest(salted_password, _SERVER_KEY, "sha256")
    return Keys(hashlib.sha256(client).digest(), server)


def client_proof(salted_password: bytes, auth_message: bytes) -> bytes:
    """Give what shows that a password is known, in one exchange only."""
    client = hmac.digest(salted_password, _CLIENT_KEY, "sha256")
    stored = hashlib.sha256(client).digest()
    return xor(client, hmac.digest(stored, auth_message, "sha256"))


def is_proof(keys: Keys, auth_message: bytes, proof: bytes) -> bool:
    """Whether a proof is of the password that these are the keys of."""
    client = xor(proof, hmac.digest(keys.stored, auth_message, "sha256"))
    return hmac.compare_digest(hashlib.sha256(client).digest(), keys.stored)


def server_signature(keys: Keys, auth_message: bytes) -> bytes:
    """Give what shows a client that its node knows him."""
    return hmac.digest(keys.server, auth_message, "sha256")


def salt_for(name: str, pepper: bytes) -> bytes:
    """Give the salt of a name, whosever it is."""
    return hmac.digest(pepper, _SALT + name.encode(), "sha512")[:SALT_BYTES]


def keep_keys(
    name: str, password: str, kept: str, *, pepper: bytes, nonce: bytes
) -> dict[str, Any]:
    """
    Give what a record has as `scram`; takes milliseconds.

    Args:
        name: Whose password it is.
        password: As he types it.
        kept: What else is kept of it.
        pepper: What is not in the log.
        nonce: `NONCE_BYTES` of chance.

    Raises:
        AccessError: It cannot be shown by SCRAM.
    """
    if prepare(name) != name:
        raise AccessError(
            f"{name[:80]!r} cannot be the name of a user who shows a password by SCRAM: it is"
            f" written otherwise there (RFC 4013). Give him another name, or a token"
        )
    salt = salt_for(name, pepper)
    salted_password = salted(password, salt, ITERATIONS)
    if salted_password is None:
        raise AccessError(
            "the password has a character that SCRAM cannot show (a control character, or one that"
            " Unicode 3.2 has not, or of both directions of writing)"
        )
    both = b"".join(keys_of(salted_password))
    return _made(salt, Masked(nonce, _padded(both, name, pepper, nonce)), kept)


def nobodys_values() -> dict[str, Any]:
    """Give what is read for who does not exist, as reading takes time as well."""
    made = _made(bytes(SALT_BYTES), NOBODYS, "")
    before = {key: made[key] for key in ("nonce", "keys")}
    return {"roles": ["nobody"], "password": "", "scram": {**made, "before": before}}


def require_kept(found: Mapping[str, Any], kept: str) -> dict[str, Any]:
    """
    Give what a node has made as it is.

    Raises:
        AccessError: It is of another form, or of another password.
    """
    made = dict(found)
    if set(made) != {"salt", "iterations", "nonce", "keys", "of"}:
        raise AccessError("what is to be kept for SCRAM was not made by a node of this kind")
    if read_kept({"scram": made, "password": kept}) is None:
        raise AccessError("what is to be kept for SCRAM makes no sense, or is of another password")
    return made


def with_before(made: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Give new keys together with those that a user has so far, if they are by the same salt."""
    known = values.get("scram")
    if read_kept(values) is None or not isinstance(known, dict):
        return made
    if any(known.get(key) != made[key] for key in ("salt", "iterations")):
        return made
    return {**made, "before": {key: known[key] for key in ("nonce", "keys")}}


def read_kept(values: Mapping[str, Any]) -> KeptKeys | None:
    """Read what a user's record has; None: nothing that belongs to his password."""
    found, kept = values.get("scram"), values.get("password")
    if not isinstance(found, dict) or not isinstance(kept, str):
        return None
    iterations, salt = found.get("iterations"), _bytes(found.get("salt"), _B64_16)
    masked = _masked(found)
    if type(iterations) is not int or not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        return None
    if salt is None or masked is None or found.get("of") != _mark_of(kept):
        return None
    return KeptKeys(salt, iterations, masked, _masked(found.get("before")))


def unmasked(masked: Masked, name: str, pepper: bytes) -> Keys:
    """Take the pad away; with another pepper they are keys of no password."""
    both = _padded(masked.keys, name, pepper, masked.nonce)
    return Keys(both[:KEY_BYTES], both[KEY_BYTES:])


def _padded(both: bytes, name: str, pepper: bytes, nonce: bytes) -> bytes:
    pad = hmac.digest(pepper, _PAD + nonce + name.encode(), "sha512")
    return xor(both, pad)


def xor(one: bytes, other: bytes) -> bytes:
    """Give two byte strings of one length, joined bit by bit."""
    assert len(one) == len(other), "they have one length"
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")


def _made(salt: bytes, masked: Masked, kept: str) -> dict[str, Any]:
    return {
        "salt": _text(salt),
        "iterations": ITERATIONS,
        "nonce": _text(masked.nonce),
        "keys": _text(masked.keys),
        "of": _mark_of(kept),
    }


def _mark_of(kept: str) -> str:
    return hashlib.sha256(kept.encode(errors="surrogatepass")).hexdigest()[:_OF_LENGTH]


def _masked(found: object) -> Masked | None:
    if not isinstance(found, dict):
        return None
    nonce, keys = _bytes(found.get("nonce"), _B64_16), _bytes(found.get("keys"), _B64_64)
    return None if nonce is None or keys is None else Masked(nonce, keys)


def _bytes(found: object, form: re.Pattern[str]) -> bytes | None:
    return b64decode(found) if isinstance(found, str) and form.fullmatch(found) else None


def _text(data: bytes) -> str:
    return b64encode(data).decode()
