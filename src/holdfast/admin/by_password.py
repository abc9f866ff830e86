"""
How a command shows a node a password: by SCRAM where the node offers it, so that it is not sent.

Each request is led in by a question on the same connection, which has nothing in it but the name.
What the node answers says whether it offers SCRAM; where it does not, the password goes with the
request, as HTTP's Basic has it: by TLS, where a certificate has shown who that is, and in clear on
this machine only if whoever asks says so. For in clear anybody may be who says that he offers none:
any user of the machine can listen where a node did that is stopped.

Invariants:
    Where SCRAM is offered no password leaves this process, whatever comes of the login.
    Nobody is told the password because of what he says himself.
    An answer counts only from who has proven that he knows the user: it is his signature that lets
    the answer in. In clear who asks for no proof has given none, and nothing is sent to him.
    A proof is good at the place that was opened, and nowhere else: see `reached`.

Blocking; for one thread.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import b64encode
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse
from ssl import SSLSocket
from typing import Final, NamedTuple

from holdfast.admin.reached import reached
from holdfast.admin.scram_http import (
    Said,
    is_offered,
    read_challenge,
    read_info,
    write_authorization,
)
from holdfast.errors import AuthenticationError
from holdfast.security.scram_keys import client_proof, keys_of, salted, server_signature
from holdfast.security.scram_messages import (
    ClientFirst,
    read_server_final,
    read_server_first,
    without_proof,
    write_client_final,
    write_client_first,
)
from holdfast.security.tokens import is_any_token

_NONCE_BYTES: Final = 18
_BODY_BYTES_MAX: Final = 1024 * 1024
_PATH: Final = "/users"
"""What only an admin may ask: so each node that has users asks who it is."""
_NOT_ASKED: Final = frozenset({HTTPStatus.OK, HTTPStatus.FORBIDDEN})
"""By these a node that has no users does not ask for one."""
_ASKS_NOBODY: Final = (
    "{place} lets everybody in, so it is no node that has users: nothing was sent there, and what"
    " it answered is not taken. Look who listens there"
)


class Shown(NamedTuple):
    """How a request says who sends it, and what the answer must prove."""

    authorization: str
    """Empty: nobody asks."""
    signature: bytes = b""
    """Empty: nothing."""

    def __repr__(self) -> str:
        """Without what is shown."""
        return "Shown()"


class Refused(NamedTuple):
    """What a node answers that does not want to know who somebody is."""

    status: int
    body: bytes


class ByPassword:
    """A user's name and password."""

    __slots__ = ("_may_tell", "_name", "_password", "_salted", "_told")

    def __init__(
        self, name: str, password: str, *, may_tell: Callable[[str], bool] = lambda _: False
    ) -> None:
        """
        Show this password of this user's.

        Args:
            may_tell: Asks a person whether the password may be told to whoever listens at this
                place, in clear and without a proof of who that is; asked once for each place.
        """
        self._name = name
        self._password = password
        self._may_tell = may_tell
        self._told: dict[str, bool] = {}
        """What was said of each place."""
        self._salted: tuple[bytes, int, bytes | None] = (b"", 0, None)
        """The password, salted as the last node asked for: that takes milliseconds."""

    def __repr__(self) -> str:
        """Without the password."""
        return f"ByPassword({self._name!r})"

    def first(self, place: str = "") -> tuple[ClientFirst, str]:
        """Give a first message for who answers at a place, and the header that it goes in."""
        nonce = b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()
        message = write_client_first(self._name, nonce, place)
        text = message.gs2 + message.bare
        return message, write_authorization(Said("", text.encode()))

    @property
    def is_for_scram(self) -> bool:
        """Whether it may be shown by SCRAM: a token in the place of the password may not."""
        return not is_any_token(self._password)

    def basic(self) -> Shown:
        """Give the password itself."""
        said = b64encode(f"{self._name}:{self._password}".encode()).decode()
        return Shown(f"Basic {said}")

    def answer(
        self, first: ClientFirst, response: HTTPResponse, unproven: str = ""
    ) -> Shown | None:
        """
        Give what is shown after a first message was answered; None: the answer is an error.

        Args:
            unproven: Where who answers is, if no certificate has shown who that is.

        Raises:
            AuthenticationError: Who answers is not to be trusted, or cannot be shown the password.
        """
        if response.status in _NOT_ASKED and not unproven:
            return Shown("")
        if response.status == HTTPStatus.OK:
            raise AuthenticationError(_ASKS_NOBODY.format(place=unproven))
        if response.status != HTTPStatus.UNAUTHORIZED:
            return None
        offers = response.headers.get_all("WWW-Authenticate") or []
        if not is_offered(offers):
            if unproven:
                self._require_word(unproven)
            return self.basic()
        challenge = read_challenge(offers)
        return None if challenge is None else self._proof(first, challenge)

    def check(self, shown: Shown, response: HTTPResponse) -> bool:
        """
        Let an answer count; gives whether it proves that its sender knows the user.

        Raises:
            AuthenticationError: It is not from who knows the user.
        """
        if not shown.signature or response.status >= HTTPStatus.BAD_REQUEST:
            return False
        info = read_info(response.headers.get("Authentication-Info", ""))
        signature = b"" if info is None else read_server_final(info.message)
        if not hmac.compare_digest(signature, shown.signature):
            raise AuthenticationError(
                f"who answered has not proven that he knows user {self._name!r}: it may be another"
                f" program than the node; what it answered is not taken"
            )
        return True

    def _require_word(self, place: str) -> None:
        if place not in self._told:
            self._told[place] = self._may_tell(place)
        if not self._told[place]:
            raise AuthenticationError(
                f"the password was not sent: {place} speaks in clear and does not offer SCRAM, so"
                f" whoever listens there would have it. Let the node speak TLS (admin_tls) or offer"
                f" SCRAM (scram), or run this as the node's user"
            )

    def _proof(self, first: ClientFirst, challenge: Said) -> Shown:
        asked = read_server_first(challenge.message)
        if not asked.nonce.startswith(first.nonce) or asked.nonce == first.nonce:
            raise AuthenticationError("SCRAM: the answer is to another question: it is not taken")
        salted_password = self._salted_by(asked.salt, asked.iterations)
        before_proof = without_proof(first.gs2, asked.nonce)
        auth_message = f"{first.bare},{challenge.message.decode()},{before_proof}".encode()
        final = write_client_final(before_proof, client_proof(salted_password, auth_message))
        return Shown(
            write_authorization(Said(challenge.sid, final.encode())),
            server_signature(keys_of(salted_password), auth_message),
        )

    def _salted_by(self, salt: bytes, iterations: int) -> bytes:
        if self._salted[:2] != (salt, iterations):
            self._salted = salt, iterations, salted(self._password, salt, iterations)
        found = self._salted[2]
        if found is None:
            raise AuthenticationError(
                "the password has a character that cannot be shown by SCRAM, which the node asks"
                " for: so it is wrong"
            )
        return found


def lead_in(login: ByPassword, connection: HTTPConnection) -> Shown | Refused:
    """
    Ask by an open connection how a user is to be shown; gives that, or what the node answers else.

    Raises:
        AuthenticationError: Who answers is not to be trusted.
        OSError, HTTPException: There was no answer.
    """
    if not login.is_for_scram:
        return login.basic()
    place = f"{connection.host}:{connection.port}"
    first, header = login.first(reached(connection, place))
    headers = {"Accept": "application/json", "Authorization": header}
    connection.request("GET", _PATH, headers=headers)
    is_by_tls = isinstance(connection.sock, SSLSocket)  # The response may end the connection.
    response = connection.getresponse()
    body = response.read(_BODY_BYTES_MAX)
    unproven = "" if is_by_tls else place
    return login.answer(first, response, unproven) or Refused(response.status, body)
