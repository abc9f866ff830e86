"""
The public keys of an issuer of tokens, asked for when they are needed and kept for a while.

A key that is not known may be a new one, so they are asked for anew then; but not more often than
once in `_UNKNOWN_SECONDS`, as anybody can say a name of a key. Who shows one while they are read,
or while they cannot be, is told to come again: nothing is known of his token, and a crowd of such
waits in nobody's way. An issuer that does not answer is not missed while what it said last is
there, and one that never ends to answer keeps nobody waiting who shows what can be checked.

Invariants:
    Of a token whose key is not there nothing is said before the issuer was asked for it.
    What an issuer has taken back counts no more from the next answer on.
    Of an answer as much is read as may be, and nothing of where it would send us.

Source: RFC 7517.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from holdfast.authorities.deadline import Deadline
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
    """
    An issuer's keys; may be used from several threads.

    One of them reads, and who needs a key that is there goes on with it meanwhile.
    """

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
        self._changed = threading.Condition()
        self._keys: tuple[Key, ...] = ()
        self._read_at: float | None = None
        self._failed_at: float | None = None
        self._failure = ""
        self._is_reading = False

    def keys(self, key_id: str) -> tuple[Key, ...]:
        """
        Give the keys of that name; of a token that names none (empty), all.

        Takes as long as the issuer does, at most `FETCH_SECONDS_MAX`, where it has to be asked.

        Raises:
            AuthenticationError: There are none, as they could not be read, or are being read.
        """
        with self._changed:
            found = self._named(key_id)
            if not self._is_to_be_read(is_found=bool(found)):
                return self._given(found)
            if self._is_reading:
                if self._read_at is None:
                    self._changed.wait(FETCH_SECONDS_MAX)
                    found = self._named(key_id)
                elif not found:
                    raise AuthenticationError(_being_read(self._options))
                return self._given(found)
            self._is_reading = True
        reading = threading.Thread(target=self._read, name="holdfast-keys", daemon=True)
        reading.start()
        if not found:
            with self._changed:
                self._changed.wait_for(lambda: not self._is_reading, FETCH_SECONDS_MAX)
                found = self._named(key_id)
                if self._is_reading and not found:
                    raise AuthenticationError(_unanswered(self._options))
        return self._given(found)

    def _named(self, key_id: str) -> tuple[Key, ...]:
        return tuple(it for it in self._keys if not key_id or it.key_id == key_id)

    def _is_to_be_read(self, *, is_found: bool) -> bool:
        now = self._clock()
        if self._failed_at is not None and now - self._failed_at < _FAILED_SECONDS:
            return False
        if self._read_at is None:
            return True
        age = now - self._read_at
        return age >= (self._options.keys_seconds if is_found else _UNKNOWN_SECONDS)

    def _given(self, found: tuple[Key, ...]) -> tuple[Key, ...]:
        """Give what there is; that there is none is a word on a token after a reading only."""
        if not found and (self._read_at is None or self._failed_at is not None):
            raise AuthenticationError(self._failure or _unanswered(self._options))
        return found

    def _read(self) -> None:
        """On a thread of its own: an issuer that never comes to its end keeps nobody but that."""
        keys: tuple[Key, ...] | None = None
        failure = ""
        try:
            keys = parse_keys(self._fetch(self._options))
        except (OSError, ValueError, HTTPException) as error:
            failure = f"{_unanswered(self._options)}: {_reason(error)}"
        except Exception as error:  # noqa: BLE001 - a mistake of ours ends no reading for ever
            failure = f"{_unanswered(self._options)}: {type(error).__name__}"
        with self._changed:
            self._is_reading = False
            self._failure = failure
            if keys is None:
                self._failed_at = self._clock()
            else:
                self._keys, self._read_at, self._failed_at = keys, self._clock(), None
            self._changed.notify_all()


def _being_read(options: JwtOptions) -> str:
    return f"the keys of jwt.{options.name} are being read, try again in a moment"


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
    parts = urlsplit(options.keys)
    host, is_tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    connection = HTTPConnection(host, port, timeout=FETCH_SECONDS_MAX)
    text = b""
    # Who was shut down under, in the middle of what it sent, has reset the line.
    with Deadline(FETCH_SECONDS_MAX) as deadline, _late(deadline):
        plain = socket.create_connection((host, port), timeout=FETCH_SECONDS_MAX)
        connection.sock = plain
        try:
            deadline.watch(plain)
            if is_tls:
                context = ssl.create_default_context(cafile=options.ca)
                connection.sock = context.wrap_socket(plain, server_hostname=host)
            path = parts.path or "/"
            connection.request("GET", f"{path}?{parts.query}" if parts.query else path)
            with connection.getresponse() as answer:
                if answer.status != HTTPStatus.OK:
                    raise OSError(f"it answers {answer.status} {answer.reason[:80]}")
                text = _bounded(answer.read(SET_BYTES_MAX + 1))
        finally:
            connection.close()
            plain.close()
    return text


@contextmanager
def _late(deadline: Deadline) -> Iterator[None]:
    """Say of whatever was read, or failed, once the time was over that it was too late."""
    try:
        yield
    except (OSError, HTTPException):
        if not deadline.is_over:
            raise
    if deadline.is_over:
        raise TimeoutError(f"not whole after {FETCH_SECONDS_MAX:.0f} s")


def _bounded(read: bytes) -> bytes:
    if len(read) > SET_BYTES_MAX:
        raise ValueError(f"more than {SET_BYTES_MAX >> 10} KiB")
    return read
