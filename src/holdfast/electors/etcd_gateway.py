"""
Asks a cluster of etcd through its JSON gateway: one bounded exchange after the other.

The gateway is part of etcd, 3.4 and later, on the same port. Of it five calls are used, so they are
made with the standard library: the clients that there are want gRPC, know one host only, or cannot
bound a call as a whole.

Invariants:
    A call takes about `seconds_max` at most, over all hosts that it tries.
    No error repeats a password or a token.
"""

from __future__ import annotations

import http.client
import json
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

from holdfast.electors.url import ElectorUrl
from holdfast.environment.remote_server import Host
from holdfast.errors import UnreachableError
from holdfast.model.limits import MiB

REPLY_BYTES_MAX: Final = MiB
_CHUNK: Final = 1 << 16
_SECONDS_MIN: Final = 0.05
_TRIES_MAX: Final = 3
"""Of one call, on different hosts or with a fresh token."""
_STALE: Final = ("invalid auth token", "revision of auth store is old", "user name is empty")
"""What is said of a token that is not good any more; of a JWT where any user was changed."""
_WRONG: Final = ("authentication failed", "authentication is not enabled")
"""What is said of a user and a password that stay wrong."""
_PROOF_PAUSE_SECONDS: Final = 1.0
_PROOF_PAUSE_SECONDS_MAX: Final = 60.0
"""A password that was refused is shown again after a pause, twice as long each time: to look at one
costs etcd, and others with it, a tenth of a second and more of a processor."""


class _StaleTokenError(Exception):
    """The token that proved who we are is not known any more."""


class _RefusedCallError(UnreachableError):
    """It answered, and does not do what it was asked."""


def as_key(text: str) -> str:
    """A key or a value as the gateway wants it."""
    return b64encode(text.encode()).decode()


class EtcdGateway:
    """One connection at a time, to whichever host answers."""

    def __init__(
        self, url: ElectorUrl, password: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Nothing is reached before the first call."""
        self._url = url
        self._password = password
        self._clock = clock
        self._turn = 0
        self._connection: http.client.HTTPConnection | None = None
        self._token = ""
        self._refused = ""
        """What was said of our password, if it was refused."""
        self._proof_at = 0.0
        self._proof_pause = 0.0

    @property
    def host(self) -> Host:
        """Who is asked just now."""
        return self._url.hosts[self._turn % len(self._url.hosts)]

    def call(self, method: str, request: dict[str, Any], until: float) -> dict[str, Any]:
        """
        Do one call of the API, such as `kv/range`, on one host or the next, until this time.

        All calls here may be sent twice: what that leaves behind ends with its lease.

        Raises:
            UnreachableError: No host answered in time, or one refused it.
        """
        trouble = UnreachableError(f"etcd at {self._url} was given no time to answer")
        tries = min(_TRIES_MAX, len(self._url.hosts) + 1)
        for left in range(tries, 0, -1):
            now = self._clock()
            if now >= until:
                break
            try:
                return self._call(method, request, now + (until - now) / left)
            except _StaleTokenError:
                self._token = ""
                trouble = UnreachableError(f"etcd at {self.host} does not know our token any more")
            except UnreachableError as error:
                trouble = error
                self._turn += 1
        raise trouble

    def _call(self, method: str, request: dict[str, Any], until: float) -> dict[str, Any]:
        if self._url.user and not self._token:
            self._token = self._prove(until)
        return self._exchange(method, request, until)

    def _prove(self, until: float) -> str:
        if self._refused and self._clock() < self._proof_at:
            raise UnreachableError(self._refused)
        given = {"name": self._url.user, "password": self._password}
        try:
            answer = self._exchange("auth/authenticate", given, until)
        except _RefusedCallError as error:
            if not any(it in str(error) for it in _WRONG):
                raise  # It has no quorum, or is busy: that says nothing of the password.
            self._refused = str(error)
            self._proof_pause = min(
                max(2 * self._proof_pause, _PROOF_PAUSE_SECONDS), _PROOF_PAUSE_SECONDS_MAX
            )
            self._proof_at = self._clock() + self._proof_pause
            raise
        self._refused, self._proof_pause = "", 0.0
        return str(answer.get("token", ""))

    def _exchange(self, method: str, request: dict[str, Any], until: float) -> dict[str, Any]:
        try:
            status, content = self._post(method, json.dumps(request).encode(), until)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            reason = str(error) or type(error).__name__
            raise UnreachableError(f"etcd at {self.host} does not answer: {reason}") from None
        reply = self._read(content)
        if status == http.client.OK and "error" not in reply:
            return reply
        said = reply.get("error", reply.get("message", "nothing"))
        said = str(said.get("message", "") if isinstance(said, dict) else said)[:200]
        if any(it in said for it in _STALE):
            raise _StaleTokenError
        raise _RefusedCallError(f"etcd at {self.host} refuses {method}: {said} ({status})")

    def _read(self, content: bytes) -> dict[str, Any]:
        """Its answer; where it is one of a stream, the first one."""
        try:
            reply = json.loads(content.split(b"\n", 1)[0])
        except (ValueError, RecursionError):
            reply = None
        if isinstance(reply, dict) and isinstance(reply.get("result"), dict):
            reply = reply["result"]
        if not isinstance(reply, dict):
            self.close()
            raise UnreachableError(f"{self.host} answers what no etcd does: is it etcd's port?")
        return reply

    def _post(self, method: str, body: bytes, until: float) -> tuple[int, bytes]:
        connection = self._connect(until)
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = self._token
        connection.request("POST", f"/v3/{method}", body, headers)
        response = connection.getresponse()
        content = bytearray()
        while chunk := response.read1(_CHUNK):
            content += chunk
            if len(content) > REPLY_BYTES_MAX:
                raise OSError(f"its answer has more than {REPLY_BYTES_MAX:,} bytes")
            self._bound(until)
        response.close()  # One that was read to its end is not closed by that on every Python.
        return response.status, bytes(content)

    def _connect(self, until: float) -> http.client.HTTPConnection:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(
                self.host.name, self.host.port, timeout=self._left(until)
            )
            self._connection.connect()
        self._bound(until)
        return self._connection

    def _left(self, until: float) -> float:
        return max(until - self._clock(), _SECONDS_MIN)

    def _bound(self, until: float) -> None:
        if self._clock() >= until + _SECONDS_MIN:
            raise TimeoutError("timed out")
        if self._connection is not None and self._connection.sock is not None:
            self._connection.sock.settimeout(self._left(until))

    def close(self) -> None:
        """Let the connection go."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
