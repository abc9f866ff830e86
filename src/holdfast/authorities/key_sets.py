"""
The public keys of an issuer of tokens, asked for when they are needed and kept for a while.

A key that is not known may be a new one, so they are asked for anew then; but not more often than
once in `_UNKNOWN_SECONDS`, as anybody can say a name of a key. An issuer that does not answer is
not missed while what it said last is there.

Invariants:
    What an issuer has taken back counts no more from the next answer on.
    Of an answer as much is read as may be, and nothing of where it would send us.

Source: RFC 7517.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from holdfast.authorities.options import JwtOptions
from holdfast.errors import AuthenticationError

SET_BYTES_MAX: Final = 256 << 10
KEY_COUNT_MAX: Final = 64
FETCH_SECONDS_MAX: Final = 5.0
_UNKNOWN_SECONDS: Final = 30.0
_FAILED_SECONDS: Final = 5.0
"""After an answer that did not come, everybody is told so for a moment instead of waiting too."""


class Key(NamedTuple):
    """One key of a set."""

    key_id: str
    kind: str
    """`RSA`, `EC` or `OKP`."""
    algorithm: str
    """What it is for, and nothing else; empty: what its kind can do."""
    material: Any


class KeySet:
    """An issuer's keys; may be used from several threads, of which one asks and the others wait."""

    def __init__(
        self,
        options: JwtOptions,
        *,
        fetch: Callable[[JwtOptions], bytes] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._fetch = fetch or read_keys
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: tuple[Key, ...] = ()
        self._read_at: float | None = None
        self._failed_at: float | None = None

    def keys(self, key_id: str) -> tuple[Key, ...]:
        """
        Give the keys of that name; of a token that names none (empty), all.

        Raises:
            AuthenticationError: There are none, as they could not be read.
        """
        with self._lock:
            now = self._clock()
            age = None if self._read_at is None else now - self._read_at
            found = self._named(key_id)
            is_unknown = not found and (age is None or age >= _UNKNOWN_SECONDS)
            if is_unknown or age is None or age >= self._options.keys_seconds:
                self._read(now)
                found = self._named(key_id)
            return found

    def _named(self, key_id: str) -> tuple[Key, ...]:
        return tuple(it for it in self._keys if not key_id or it.key_id == key_id)

    def _read(self, now: float) -> None:
        is_resting = self._failed_at is not None and now - self._failed_at < _FAILED_SECONDS
        try:
            if is_resting:
                raise AuthenticationError(_unanswered(self._options))
            self._keys = parse_keys(self._fetch(self._options))
        except (OSError, ValueError) as error:
            self._failed_at = self._clock()
            self._missed(f"{_unanswered(self._options)}: {_reason(error)}")
        except AuthenticationError as error:
            self._missed(str(error))
        else:
            self._read_at, self._failed_at = self._clock(), None

    def _missed(self, sentence: str) -> None:
        """Go on with what was said last, if anything was."""
        if self._read_at is None:
            raise AuthenticationError(sentence)


def _unanswered(options: JwtOptions) -> str:
    return f"the keys of jwt.{options.name} cannot be read now, try again in a moment"


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return str(reason)[:200]


def parse_keys(text: bytes) -> tuple[Key, ...]:
    """
    Read a set of keys; what is no public key to check signatures with is passed over.

    Raises:
        ValueError: It is no set of keys, or has more than it may.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("that is no JSON") from None
    listed = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise ValueError("that is no set of keys: it has no list 'keys'")
    if len(listed) > KEY_COUNT_MAX:
        raise ValueError(f"{len(listed)} keys; allowed: at most {KEY_COUNT_MAX}")
    return tuple(key for each in listed if (key := _parse_key(each)) is not None)


def _parse_key(said: object) -> Key | None:
    if not isinstance(said, dict) or said.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    if said.get("use", "sig") != "sig" or "d" in said:  # A private one is everybody's by now.
        return None
    try:
        made = PyJWK.from_dict(said)
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    key_id, algorithm = said.get("kid", ""), said.get("alg", "")
    if not isinstance(key_id, str) or not isinstance(algorithm, str):
        return None
    return Key(key_id, said["kty"], algorithm, made.key)


class _NowhereElse(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        """Follow nobody: what was written by the operator is asked, and nothing else."""


def read_keys(options: JwtOptions) -> bytes:
    """
    Read the keys where the options say.

    Raises:
        OSError: They cannot be read.
        ValueError: There is more than may be.
    """
    if not options.keys.startswith(("https://", "http://")):
        with Path(options.keys).open("rb") as file:
            return _bounded(file.read(SET_BYTES_MAX + 1))
    context = ssl.create_default_context(cafile=options.ca)
    opener = urllib.request.build_opener(_NowhereElse, urllib.request.HTTPSHandler(context=context))
    until = time.monotonic() + FETCH_SECONDS_MAX
    with opener.open(options.keys, timeout=FETCH_SECONDS_MAX) as answer:
        read = bytearray()
        while piece := answer.read1(16 << 10):
            read += piece
            _bounded(read)
            if time.monotonic() > until:
                raise TimeoutError(f"not whole after {FETCH_SECONDS_MAX:.0f} s")
    return bytes(read)


def _bounded(read: bytes | bytearray) -> bytes:
    if len(read) > SET_BYTES_MAX:
        raise ValueError(f"more than {SET_BYTES_MAX >> 10} KiB")
    return bytes(read) if isinstance(read, bytearray) else read
