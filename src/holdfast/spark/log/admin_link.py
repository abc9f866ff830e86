"""
One connection to an admin port, by which a log is read: JSON, and entries as they are on disk.

Invariants:
    A user's token is sent by TLS, or on this machine; that of the node's file is never sent, and
    nothing counts of who is asked by it and does not prove that he has it.

Blocking.
"""

from __future__ import annotations

from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, Final, Self

from holdfast.admin.answer_proofs import ANSWER_HEADER, Expected
from holdfast.admin.answers import ANSWER_BYTES_MAX, BoundedResponse, read_object
from holdfast.admin.endpoint import Endpoint
from holdfast.admin.forwarding import proof_in, sign_as_machine
from holdfast.admin.in_clear import require_private
from holdfast.admin.reached import reached
from holdfast.admin.remote import PROVES_NOTHING, Answer, asked_again, same_machine
from holdfast.errors import AuthenticationError, LinkError
from holdfast.security.tokens import is_any_token

TIMEOUT_SECONDS: Final = 20.0
POSITION_SECONDS: Final = 3.0
"""A node tells from memory how far it goes; one that hangs must not hold up every batch for long.
The list of all segments of a long log takes longer, asked for by many."""

_ASKED_AGAIN_MAX: Final = 2


class AdminLink:
    """
    One connection to one admin port.

    Raises:
        ConfigError: A file of its TLS cannot be used, or a user's token would be read on the way.
    """

    __slots__ = ("_connection", "_endpoint", "_local_token", "_seconds", "_token", "address")

    def __init__(self, address: str, token: str, seconds: float = TIMEOUT_SECONDS) -> None:
        self.address = address
        self._token = token
        self._local_token = ""
        """Of the node's file, where nobody has said who asks."""
        self._seconds = seconds
        self._endpoint = Endpoint.parse(address)
        self._connection = self._connected()

    def _connected(self) -> HTTPConnection:
        connection = (
            HTTPConnection(self._endpoint.place, timeout=self._seconds)
            if self._endpoint.files is None
            else self._endpoint.connection(self._seconds)
        )
        connection.response_class = BoundedResponse
        return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()

    def ask(self, method: str, path: str, data: bytes | None) -> dict[str, Any]:
        """Send one request and return the answer's JSON."""
        try:
            status, content = self._exchange(method, path, data, ANSWER_BYTES_MAX)
            answer = Answer(status, read_object(content))
        except (OSError, HTTPException, ValueError) as error:
            raise self._lost(error) from error
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise answer.error()
        return answer.body

    def read_log(self, index: int, bytes_max: int, through: int) -> bytes:
        """Fetch entries from `index` on, as they are on disk."""
        path = f"/log?from={index}&bytes={bytes_max}&through={through}"
        try:
            status, data = self._exchange("GET", path, None, None)
            if status < HTTPStatus.BAD_REQUEST:
                return data
            answer = Answer(status, read_object(data))
        except (OSError, HTTPException, ValueError) as error:
            raise self._lost(error) from error
        raise answer.error()

    def _exchange(
        self, method: str, path: str, data: bytes | None, bytes_max: int | None
    ) -> tuple[int, bytes]:
        """Send one request, as often as it takes to be known by what a node's file tells."""
        status, content, place = self._send(method, path, data, bytes_max)
        for _ in range(_ASKED_AGAIN_MAX):
            if status < HTTPStatus.BAD_REQUEST:
                break
            answer = Answer(status, read_object(content))
            again = asked_again(self._endpoint, answer, place, takes_token=not self._token)
            if again is None or again == (self._endpoint, self._local_token):
                break
            endpoint, self._local_token = again
            if endpoint != self._endpoint:
                self._endpoint = endpoint
                self._connection.close()
                self._connection = self._connected()
            status, content, place = self._send(method, path, data, bytes_max)
        return status, content

    def _send(
        self, method: str, path: str, data: bytes | None, bytes_max: int | None
    ) -> tuple[int, bytes, tuple[str, int] | None]:
        headers = {"Content-Type": "application/json"} if data is not None else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        elif self._local_token:
            opened = reached(self._connection, self._endpoint.place)
            headers["Authorization"] = sign_as_machine(
                self._local_token, (method, path, data), opened
            )
        if is_any_token(self._token):
            require_private(self._connection)
        self._connection.request(method, path, data, headers)
        place = same_machine(self._connection)
        response = self._connection.getresponse()
        self._require_proven(response, headers)
        return response.status, response.read(bytes_max), place

    def _require_proven(self, response: HTTPResponse, headers: dict[str, str]) -> None:
        """
        Let an answer count to a question by the node's file.

        Raises:
            AuthenticationError: Who answers has not proven that he has it.
        """
        proof = proof_in(headers.get("Authorization", ""))
        if not proof or response.status >= HTTPStatus.BAD_REQUEST:
            return
        told = response.headers.get(ANSWER_HEADER, "")
        if not Expected(self._local_token.encode(), proof).is_proven(response.status, told):
            self._connection.close()
            raise AuthenticationError(PROVES_NOTHING.format(address=self._endpoint))

    def _lost(self, error: Exception) -> LinkError:
        return self._endpoint.failure(error)
