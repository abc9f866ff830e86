"""
What is kept of a password, and whether a password is that one.

A password is first put through HMAC-SHA-256 with a pepper that does not stand in the log, then
through argon2id: whoever reads the log, or an archive of it, has nothing to try passwords on. It
takes about 20 ms of a processor and 19 MiB, so it is never the loop's work; Python goes on
meanwhile.

Invariants:
    To look at the password of who does not exist takes as long as of who does.

Pure: what must not be guessed is handed in.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from argon2.exceptions import Argon2Error, InvalidHashError
from argon2.low_level import Type, hash_secret, verify_secret

from holdfast.errors import AccessError

SALT_BYTES: Final = 16
PEPPER_BYTES: Final = 32
PASSWORD_BYTES_MAX: Final = 1024
_ROUNDS: Final = 2
_MEMORY_KIB: Final = 19 * 1024
_LANES: Final = 1
_HASH_BYTES: Final = 32

NOBODYS: Final = (
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5J3Mgc2FsdCAxNg$"
    "LSElCa4v2TN4sxErpRYC6cEX+IF5EsYNQVjGNgv1oRA"
)
"""What is compared with for who does not exist, or has no password; no password is this one."""


class KeptPassword(NamedTuple):
    """What a user's record has of a password."""

    password: str
    scram: Mapping[str, Any] | None = None
    """Its keys for SCRAM, as `scram_keys` keeps them; None: none were made."""

    def __repr__(self) -> str:
        """Without what anything is compared with."""
        return "KeptPassword()"


def hash_password(password: str, *, pepper: bytes, salt: bytes) -> str:
    """
    Give what is kept of a password.

    Raises:
        AccessError: It is empty, or longer than anybody types.
    """
    size = len(password.encode(errors="surrogatepass"))
    if not 0 < size <= PASSWORD_BYTES_MAX:
        raise AccessError(
            f"a password has 1 to {PASSWORD_BYTES_MAX:,} bytes, and this has {size:,}"
        )
    kept = hash_secret(
        _peppered(password, pepper),
        salt,
        time_cost=_ROUNDS,
        memory_cost=_MEMORY_KIB,
        parallelism=_LANES,
        hash_len=_HASH_BYTES,
        type=Type.ID,
    )
    return kept.decode()


def is_password(kept: str, password: str, *, pepper: bytes) -> bool:
    """Whether a password is the one that this was kept of; of what makes no sense none is."""
    try:
        return verify_secret(kept.encode(), _peppered(password, pepper), Type.ID)
    except (Argon2Error, InvalidHashError):
        return False


def _peppered(password: str, pepper: bytes) -> bytes:
    return hmac.digest(pepper, password.encode(errors="surrogatepass"), "sha256")
