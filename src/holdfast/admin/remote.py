"""
Ask another node's admin port: JSON over HTTP, blocking.

Used by the command line, and by a node (in a thread) to pass a change on to the leader. An answer
that is an error becomes the same error here as there, so that a caller need not know where it was
raised.

Who knows the cluster's secret proves that for each request anew, good for it and once, as one that
is passed on is (see `forwarding`): neither the secret is sent, nor anything that opens anything
else. On the node's own machine the token in the node's file does as well (see `token_file`), which
is not sent either: it is read when the node asks for it, and tells by which certificate the node is
known where it speaks TLS.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from holdfast.admin.answer_proofs import ANSWER_HEADER, Expected
from holdfast.admin.answers import ANSWER_BYTES_MAX, BoundedResponse, read_object
from holdfast.admin.by_password import ByPassword, Refused, Shown, lead_in
from holdfast.admin.endpoint import (
    CLOSED,
    TLS_REQUIRED,
    Endpoint,
    knocked,
    open_no_more,
    spoken_in_clear,
)
from holdfast.admin.forwarding import (
    FORWARDED_HEADER,
    LIFE_LENGTH,
    Forwarded,
    clock_of,
    proof_in,
    sign,
    sign_as_machine,
)
from holdfast.admin.in_clear import require_private
from holdfast.admin.last_answer import note_answer
from holdfast.admin.person import ON_BEHALF_HEADER
from holdfast.admin.process_mark import MARK
from holdfast.admin.reached import reached
from holdfast.admin.token_file import NO_PROOF, LocalProof, read_told
from holdfast.errors import (
    AccessError,
    AuthenticationError,
    BusyError,
    DestinationError,
    FencedError,
    ForbiddenError,
    HoldfastError,
    LevelNotReachedError,
    LimitReachedError,
    LinkLostError,
    MembershipError,
    NotLeaderError,
    PolicyError,
    QuorumLostError,
    RecordNotFoundError,
    StoreFullError,
)
from holdfast.model.networks import is_same_machine

QUESTION_SECONDS_MAX = 10.0
CHANGE_SECONDS_MAX = 60.0
FORWARD_SECONDS_MAX = 55.0
"""Shorter than a change may take, so that the asker hears why the leader did not answer."""

Request: TypeAlias = tuple[str, str, bytes | None]
"""Method, path and body."""

_QUESTION: Final[Request] = ("GET", "/users", None)
"""What only an admin may ask, as he must be to send anything private."""
_ASKED_MAX = 3
"""In clear, by TLS, and with the token of the node's file."""

_TELLS_NO_MARK: Final = (
    "{address} tells no mark of its process: it is a node of an earlier version, or no node, so"
    " nothing made of the cluster's secret was sent there. If you are sure that it is one, as while"
    " a cluster is upgraded, say --earlier-version: it is sent a word that opens every node then"
)

PROVES_NOTHING: Final = (
    "who answered at {address} has not proven to be the node: it may be another program, so what"
    " it answered is not taken, and it was sent no password. Look who listens there; a node of an"
    " earlier version proves nothing: for one say --earlier-version"
)

_TOKEN_CONTEXT = b"holdfast admin token, version 1"

# One list for both directions: the status an error is answered with, and the error read from it.
ERRORS: dict[str, tuple[type[HoldfastError], HTTPStatus]] = {
    "not-leader": (NotLeaderError, HTTPStatus.CONFLICT),
    "membership": (MembershipError, HTTPStatus.CONFLICT),
    "fenced": (FencedError, HTTPStatus.CONFLICT),
    "quorum-lost": (QuorumLostError, HTTPStatus.SERVICE_UNAVAILABLE),
    "destination": (DestinationError, HTTPStatus.NOT_FOUND),
    "limit-reached": (LimitReachedError, HTTPStatus.CONFLICT),
    "policy": (PolicyError, HTTPStatus.BAD_REQUEST),
    "format-level": (LevelNotReachedError, HTTPStatus.CONFLICT),
    "busy": (BusyError, HTTPStatus.TOO_MANY_REQUESTS),
    "store-full": (StoreFullError, HTTPStatus.INSUFFICIENT_STORAGE),
    "link-lost": (LinkLostError, HTTPStatus.BAD_GATEWAY),
    "log-gone": (RecordNotFoundError, HTTPStatus.GONE),
    "authentication": (AuthenticationError, HTTPStatus.FORBIDDEN),
    "access": (AccessError, HTTPStatus.BAD_REQUEST),
    "forbidden": (ForbiddenError, HTTPStatus.FORBIDDEN),
}

UNPROVEN: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
"""Statuses by which a node asks who somebody is."""


def admin_token(secret: bytes) -> str:
    """The word that proves knowledge of the cluster's secret to an admin port."""
    return hmac.new(secret, _TOKEN_CONTEXT, hashlib.sha256).hexdigest()


def same_machine(connection: HTTPConnection) -> tuple[str, int] | None:
    """The address at the other end of an open connection, if that is this machine."""
    try:
        there, here = connection.sock.getpeername(), connection.sock.getsockname()
        is_here = is_same_machine(there[0], here[0])
    except (OSError, AttributeError, ValueError):
        return None
    return (there[0], there[1]) if is_here else None


def local_proof(answer: dict[str, Any], place: tuple[str, int] | None) -> LocalProof:
    """
    The proof that a refusal asks for, from the file it names; `NO_PROOF` if it cannot be had.

    Args:
        place: Who refused, see `same_machine`.

    Raises:
        AuthenticationError: The file may be somebody else's than the node's.
    """
    fault = answer.get("error")
    path = fault.get("token_file") if isinstance(fault, dict) else None
    if place is None or not isinstance(path, str):
        return NO_PROOF
    try:
        return read_told(Path(path), *place)
    except (OSError, ValueError):
        return NO_PROOF


def asked_again(
    endpoint: Endpoint, answer: Answer, place: tuple[str, int] | None, *, takes_token: bool
) -> tuple[Endpoint, str] | None:
    """
    Give where to ask once more, and with which token, after a refusal; None: nowhere.

    Args:
        takes_token: Whether nobody has said who asks. Whoever has is nobody else, and who was
            asked by the secret and does not take it is not believed what he says instead.

    Raises:
        LinkLostError: The port speaks TLS, was asked in clear, and there is no file to go by.
        AuthenticationError: The file that it names may be somebody else's than the node's.
    """
    fault = answer.body.get("error")
    if isinstance(fault, dict) and fault.get("code") == TLS_REQUIRED and endpoint.files is None:
        proof = local_proof(answer.body, place)
        if not proof.fingerprint:
            raise spoken_in_clear(endpoint)
        return endpoint.trusting(proof.fingerprint), proof.token if takes_token else ""
    if answer.status not in UNPROVEN or not takes_token:
        return None
    proof = local_proof(answer.body, place)
    if not proof.token or bool(proof.fingerprint) != (endpoint.files is not None):
        return None  # A token for TLS is not sent in clear.
    return endpoint, proof.token


def queue_path(name: str) -> str:
    """The path of a queue, with every character of its name quoted that needs it."""
    return f"/queues/{quote(name, safe='')}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node answered: the HTTP status and the JSON body."""

    status: int
    body: dict[str, Any]
    is_proven: bool = field(default=False, compare=False)
    """Whether who answered has shown that he is the node: by TLS, or by what only both know."""
    is_led_in: bool = field(default=False, compare=False)
    """Whether it answers what was sent behind a question, on the connection of who proved that."""

    def error(self) -> HoldfastError:
        """The error that the node reported."""
        fault = self.body.get("error")
        if not isinstance(fault, dict):
            return HoldfastError(f"the node answered with HTTP status {self.status}")
        kind, _ = ERRORS.get(str(fault.get("code")), (HoldfastError, None))
        if kind is NotLeaderError:
            return NotLeaderError(fault.get("leader"))
        return kind(str(fault.get("message", "")))


@dataclass(frozen=True, slots=True)
class RemoteNode:
    """
    One node's admin port, `host:port` or as `endpoint` has it; from another machine most needs the
    `secret`.
    """

    address: str
    secret: bytes = field(default=b"", repr=False)
    timeout_seconds: float = QUESTION_SECONDS_MAX
    forwarded_by: str = ""
    """The node that passes a request on; empty: nobody does."""
    life: str = ""
    """Of the node that is asked, see `forwarding`; a member knows it by their link, and others ask
    for its mark. A node that tells none is of an earlier version, which takes the token only; that
    it is one a member knows by the link, where it told where its admin port is and no life."""
    is_met: bool = False
    """Whether it was asked for that."""
    on_behalf: str = ""
    """For whom a request is passed on, see `person`."""
    login: str | ByPassword = field(default="", repr=False)
    """What a user shows, as an `Authorization` header, or his password; instead of any proof."""
    takes_earlier: bool = False
    """Whether whoever tells no mark is taken for a node of an earlier version, and sent the token
    that opens everything: by the word of who asks, never of who answers."""
    is_private: bool = False
    """Whether what is sent must not be read by anybody on the way; a login never may."""

    def get(self, path: str) -> dict[str, Any]:
        """
        Ask a question and return the answer's JSON.

        Raises:
            LinkLostError: The node cannot be reached.
            HoldfastError: What the node answered, as its own kind of error.
        """
        return self._checked(self.send("GET", path))

    def change(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """
        Ask for a change and return the answer's JSON.

        Raises:
            LinkLostError: The node cannot be reached, or the answer was lost on its way.
            HoldfastError: What the node answered, as its own kind of error.
        """
        return self._checked(self.send(method, path, body or {}))

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        """
        Send one request and return the answer, whatever its status.

        Raises:
            LinkLostError: There was no answer, or none that is JSON.
        """
        if self.secret and not (self.forwarded_by or self.life or self.login or self.is_met):
            return self._met().send(method, path, body)
        data = None if body is None else json.dumps(body).encode()
        endpoint, token = Endpoint.parse(self.address), ""
        request = method, path, data
        if self.is_private and not self.forwarded_by:
            # A question that has no secret in it finds out by which way the node is asked, and
            # that it is the one that wrote the file, or knows the secret. The request goes on the
            # same connection: at another one somebody else may listen by then.
            known, endpoint, token = self._asked(endpoint, _QUESTION, token, request)
            has_shown_all = isinstance(self.login, str) and self.login  # A token, to whoever it is.
            needs_none = has_shown_all or self.takes_earlier
            if known.is_led_in or (known.status >= HTTPStatus.BAD_REQUEST and not needs_none):
                return known
            if not (needs_none or self.login):  # A person has said that the password be told.
                raise AuthenticationError(PROVES_NOTHING.format(address=endpoint))
        return self._asked(endpoint, request, token)[0]

    def _met(self) -> RemoteNode:
        """
        Ask which process answers, for which a proof by the secret is made.

        Raises:
            AuthenticationError: It tells none.
        """
        answer = replace(self, secret=b"", is_private=False).send("GET", "/health")
        life = answer.body.get(MARK)
        is_one = isinstance(life, str) and len(life) == LIFE_LENGTH and life.isalnum()
        if not is_one and not self.takes_earlier:
            raise AuthenticationError(_TELLS_NO_MARK.format(address=Endpoint.parse(self.address)))
        return replace(self, life=str(life) if is_one else "", is_met=True)

    def _asked(
        self, endpoint: Endpoint, request: Request, token: str, then: Request | None = None
    ) -> tuple[Answer, Endpoint, str]:
        """
        Ask as often as it takes; gives by which way and with which token it was answered.

        Args:
            then: What is sent to who has answered and proven that he is the node, and only there.

        Raises:
            AuthenticationError: Who answered has not proven what he must.
        """
        answer, endpoint, token = self._asked_at(endpoint, (request, then), token, None)
        if (self.life or token) and (clock := clock_of(answer.body)) is not None:
            answer, endpoint, token = self._asked_at(endpoint, (request, then), token, clock)
        method = then[0] if then is not None and answer.is_led_in else request[0]
        self._require_proven(answer, endpoint, method, token)
        return answer, endpoint, token

    def _asked_at(
        self,
        endpoint: Endpoint,
        requests: tuple[Request, Request | None],
        token: str,
        clock: int | None,
    ) -> tuple[Answer, Endpoint, str]:
        takes_token = not (self.login or self.secret)
        for _ in range(_ASKED_MAX):
            answer, place = self._exchange(endpoint, requests, token, clock)
            again = asked_again(endpoint, answer, place, takes_token=takes_token)
            if answer.is_led_in or again is None or again == (endpoint, token):
                break
            endpoint, token = again
        return answer, endpoint, token

    def _require_proven(self, answer: Answer, endpoint: Endpoint, method: str, token: str) -> None:
        """
        Let a success count: of a change, and of whatever was asked with a proof.

        Raises:
            AuthenticationError: Who answered has proven nothing.
        """
        is_due = token or self.life or method not in ("GET", "HEAD")
        is_exempt = self.login or self.takes_earlier or (self.forwarded_by and not self.life)
        if answer.is_proven or answer.status >= HTTPStatus.BAD_REQUEST or is_exempt or not is_due:
            return
        raise AuthenticationError(PROVES_NOTHING.format(address=endpoint))

    def _exchange(
        self,
        endpoint: Endpoint,
        requests: tuple[Request, Request | None],
        token: str,
        clock: int | None,
    ) -> tuple[Answer, tuple[str, int] | None]:
        request, then = requests

        def ask() -> tuple[Answer, tuple[str, int] | None]:
            return self._exchange_once(endpoint, (request, then), token, clock)

        try:
            return knocked(ask) if request[0] == "GET" else ask()
        except (OSError, HTTPException) as error:
            if endpoint.files is None and request[0] != "GET" and isinstance(error, CLOSED):
                refused = self._refused_in_clear(endpoint)
                if refused is not None:
                    return refused
            raise LinkLostError(str(endpoint.failure(error))) from error
        except ValueError as error:
            raise LinkLostError(f"{endpoint} did not answer in JSON: {error}") from error

    @staticmethod
    def _refused_in_clear(endpoint: Endpoint) -> tuple[Answer, tuple[str, int] | None] | None:
        """
        Give what a port answered that takes nothing in clear, so that no change was made by one
        that it closed on; None: it may have been made.
        """
        question = RemoteNode(endpoint.place)
        try:
            answer, place = question._exchange(endpoint, (("GET", "/health", None), None), "", None)
        except LinkLostError:
            return None
        fault = answer.body.get("error")
        is_by_tls = isinstance(fault, dict) and fault.get("code") == TLS_REQUIRED
        return (answer, place) if is_by_tls else None

    def _exchange_once(
        self,
        endpoint: Endpoint,
        requests: tuple[Request, Request | None],
        token: str,
        clock: int | None,
    ) -> tuple[Answer, tuple[str, int] | None]:
        question, then = requests
        seconds = self.timeout_seconds
        connection = (
            HTTPConnection(endpoint.place, timeout=seconds)
            if endpoint.files is None
            else endpoint.connection(seconds)
        )
        connection.response_class = BoundedResponse
        try:
            answer, place = self._ask_on(connection, endpoint, question, token, clock)
            if then is None or not answer.is_proven or answer.status >= HTTPStatus.BAD_REQUEST:
                return answer, place
            open_no_more(connection)
            try:
                answer, place = self._ask_on(connection, endpoint, then, token, clock)
            except (OSError, HTTPException) as error:
                raise LinkLostError(str(endpoint.failure(error))) from error  # It is not repeated.
            return replace(answer, is_led_in=True), place
        finally:
            connection.close()

    def _ask_on(
        self,
        connection: HTTPConnection,
        endpoint: Endpoint,
        request: Request,
        token: str,
        clock: int | None,
    ) -> tuple[Answer, tuple[str, int] | None]:
        method, path, data = request
        shown = self._shown(connection)
        if isinstance(shown, Refused):
            return Answer(shown.status, read_object(shown.body)), same_machine(connection)
        is_known = endpoint.files is not None
        opened = (
            reached(connection, endpoint.place)
            if (self.life or token) and not self.forwarded_by
            else ""
        )
        headers = self._headers(request, token, clock, shown.authorization, opened)
        expected = self._expected(headers, token)
        connection.request(method, path, data, headers)
        place = same_machine(connection)
        response = connection.getresponse()
        if expected is not None:
            told = response.headers.get(ANSWER_HEADER, "")
            is_known = is_known or expected.is_proven(response.status, told)
        body = read_object(response.read(ANSWER_BYTES_MAX))
        note_answer(str(endpoint))
        if isinstance(self.login, ByPassword):
            is_known = self.login.check(shown, response) or is_known
        return Answer(response.status, body, is_proven=is_known), place

    def _shown(self, connection: HTTPConnection) -> Shown | Refused:
        """Give how a user is shown by an open connection, where nobody else can listen."""
        if self.login or self.is_private or self._shows_all_of_it:
            require_private(connection)
        if not isinstance(self.login, ByPassword):
            return Shown(self.login)
        shown = lead_in(self.login, connection)
        require_private(connection)  # The node may have closed it.
        return shown

    def _headers(
        self,
        request: Request,
        token: str,
        clock: int | None,
        authorization: str,
        opened: str,
    ) -> dict[str, str]:
        method, path, data = request
        headers = {"Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        if self.forwarded_by:
            headers[FORWARDED_HEADER] = self.forwarded_by
        if self.on_behalf:
            headers[ON_BEHALF_HEADER] = self.on_behalf
        if authorization:
            headers["Authorization"] = authorization
        elif token:
            headers["Authorization"] = sign_as_machine(token, request, opened, now=clock)
        elif self.secret and self.life:
            passed_on = Forwarded(
                *(method, path, self.forwarded_by, self.on_behalf, self.life), place=opened
            )
            headers["Authorization"] = sign(self.secret, passed_on, data or b"", now=clock)
        elif self.secret:
            headers["Authorization"] = f"Bearer {admin_token(self.secret)}"
        return headers

    def _expected(self, headers: dict[str, str], token: str) -> Expected | None:
        """Give by what the answer to a request with these headers is proven; None: by nothing."""
        proof = "" if self.login else proof_in(headers.get("Authorization", ""))
        return Expected(token.encode() or self.secret, proof) if proof else None

    @property
    def _shows_all_of_it(self) -> bool:
        """Whether what is sent would open everything to whoever reads it on the way."""
        # A node of a version that tells no life knows no other proof. A member must do with it.
        return bool(self.secret) and not (self.life or self.forwarded_by)

    @staticmethod
    def _checked(answer: Answer) -> dict[str, Any]:
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise answer.error()
        return answer.body
