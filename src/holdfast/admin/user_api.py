"""
Users and grants over HTTP: who there is, what roles were granted, and what that means for one.

    GET  /users                         never what their credentials are compared with; `scram`:
                                        whether new passwords are kept for SCRAM as well
    POST /users                         {"name", "roles", "password"}: a new one
    POST /users/roles                   {"name", "roles"}: these and no others
    POST /users/password                {"name", "password"}
    POST /users/tokens                  {"name", "token", "expires_seconds"}: it is told once, by
                                        the node that was asked, which draws it
    POST /users/tokens/end              {"name", "token"}
    POST /users/remove                  {"name"}; of the last one with "last": true; with
                                        "subscriptions": true his durable ones end
    POST /subscriptions/give            {"client_id", "name", "user"}: it is his from now on
    GET  /grants
    POST /grants, POST /grants/revoke   {"role", "rights", "pattern"}
    GET  /access?user=NAME&destination=D   each right, and the grants by which he has it

Asked of another node, the leader answers, as for queues; while there is none, the node itself.
Where that cannot know yet what is committed, `is_known` is false, and its own log's word is told.

Invariants:
    A password goes no further than the node that it was sent to, and a token comes from no further:
    a leader is given what is kept of them, which opens nothing.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.admin.operations import Operations
from holdfast.admin.policy_api import LeadersAnswer
from holdfast.admin.slices import Desk, Slices, listed
from holdfast.admin.user_status import grant_status
from holdfast.errors import DestinationError
from holdfast.model.destination import Destination, parse_sources
from holdfast.model.limits import QUEUE_NAME_BYTES_MAX
from holdfast.model.wildcards import parse_pattern
from holdfast.security.grants import Grant, Right, read_grant
from holdfast.security.tokens import CHANCE_BYTES, digest_of, make_token

if TYPE_CHECKING:
    from holdfast.admin.user_bodies import ChangeGrant

_ROWS: Final = 20
"""Users written at once: each may have a hundred roles and tokens."""


class Prepared(NamedTuple):
    """A request made ready on the node that was asked."""

    body: bytes
    told: dict[str, str] = {}  # noqa: RUF012 - never changed
    """What whoever asked is told beside the answer, and nobody else."""


def with_told(answer: Response, told: dict[str, str]) -> Response:
    """Give an answer with what is told by this node only, and kept by no cache."""
    found = json.loads(bytes(answer.body))
    return JSONResponse({**found, **told}, headers={"Cache-Control": "no-store"})


class UserInterface:
    """The endpoints about users and grants of one node."""

    def __init__(self, operations: Operations, leaders_answer: LeadersAnswer) -> None:
        self._operations = operations
        self._leaders_answer = leaders_answer
        self._desk = Desk()

    async def users(self, request: Request) -> Response:
        """Tell of all users."""
        users = self._operations.users
        return await self._told(request, "users", users.users, {"scram": users.keeps_scram})

    async def grants(self, request: Request) -> Response:
        """Tell of all grants."""
        return await self._told(request, "grants", self._operations.users.grants)

    async def access(self, request: Request) -> Response:
        """Tell what one user may do with one destination, or with all that a wildcard means."""
        answer = await self._leaders_answer(request)
        if isinstance(answer, list):
            return Response(b"".join(answer), media_type="application/json")
        query = request.query_params
        name, written = query.get("user", ""), query.get("destination", "")
        if not name or not 0 < len(written) <= QUEUE_NAME_BYTES_MAX:
            raise HTTPException(
                HTTPStatus.BAD_REQUEST, "user and destination are expected, each with a name"
            )
        destination = _destination(written)
        decisions = self._operations.users.decisions(name, destination)
        is_known = await self._operations.users.is_known()
        head = {"user": name, "destination": str(destination), "is_known": is_known, **answer.head}
        return JSONResponse({**head, "rights": [asdict(it) for it in decisions]})

    async def with_hash(self, body: bytes) -> Prepared:
        """
        Give a request with what is kept of the password that stands in it.

        Raises:
            HTTPException: It is no request of that kind.
            AccessError: There can be no such password.
        """
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            return Prepared(body)  # It is refused with a sentence later.
        password = said.pop("password", None) if isinstance(said, dict) else None
        if not isinstance(password, str) or not password:
            return Prepared(body)
        name = said.get("name")
        kept = await self._operations.users.keep_password(
            name if isinstance(name, str) else "", password
        )
        said["kept"] = kept.password
        if kept.scram is not None:
            said["scram"] = dict(kept.scram)
        return Prepared(json.dumps(said).encode())

    async def with_digest(self, body: bytes) -> Prepared:
        """Give a request for a token with the digest of one that was drawn for it here."""
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            return Prepared(body)
        name = said.get("name") if isinstance(said, dict) else None
        if not isinstance(name, str) or "digest" in said:
            return Prepared(body)  # Another node has drawn it, or it is refused later.
        try:
            token = make_token(name, secrets.token_bytes(CHANCE_BYTES))
        except UnicodeEncodeError:
            return Prepared(body)  # There is no such name.
        said["digest"] = digest_of(token)
        return Prepared(json.dumps(said).encode(), {"token": token})

    async def add(self, _request: Request, body: bytes) -> Response:
        """Make a user."""
        from holdfast.admin.bodies import asked_for
        from holdfast.admin.user_bodies import AddUser

        wanted = asked_for(body, AddUser)
        count = await self._operations.users.add(wanted.name, wanted.roles, wanted.kept_password)
        left = self._operations.users.left_by(wanted.name)
        told = {"added": wanted.name, "first": count == 0}
        return JSONResponse({**told, "subscriptions_left": left})

    async def set_roles(self, _request: Request, body: bytes) -> Response:
        """Give a user other roles."""
        from holdfast.admin.bodies import asked_for
        from holdfast.admin.user_bodies import SetRoles

        wanted = asked_for(body, SetRoles)
        await self._operations.users.set_roles(wanted.name, wanted.roles)
        return JSONResponse({"name": wanted.name, "roles": sorted(set(wanted.roles))})

    async def set_password(self, _request: Request, body: bytes) -> Response:
        """Give a user another password."""
        from holdfast.admin.bodies import asked_for
        from holdfast.admin.user_bodies import WithPassword

        wanted = asked_for(body, WithPassword)
        kept = wanted.kept_password
        if kept is None:
            raise HTTPException(HTTPStatus.BAD_REQUEST, "password: one is expected")
        await self._operations.users.set_password(wanted.name, kept)
        return JSONResponse({"name": wanted.name})

    async def make_token(self, _request: Request, body: bytes) -> Response:
        """Keep the digest of a new token; the node that drew it tells it."""
        from holdfast.admin.bodies import asked_for
        from holdfast.admin.user_bodies import MakeToken

        wanted = asked_for(body, MakeToken)
        await self._operations.users.make_token(
            wanted.name, wanted.token, wanted.digest, wanted.expires_seconds
        )
        return JSONResponse({"name": wanted.name})

    async def end_token(self, _request: Request, body: bytes) -> Response:
        """End a token."""
        from holdfast.admin.bodies import asked_for
        from holdfast.admin.user_bodies import EndToken

        wanted = asked_for(body, EndToken)
        await self._operations.users.end_token(wanted.name, wanted.token)
        return JSONResponse({"name": wanted.name, "ended": wanted.token})

    async def remove(self, _request: Request, body: bytes) -> Response:
        """Remove a user."""
        from holdfast.admin.bodies import asked_for
        from holdfast.admin.user_bodies import RemoveUser

        wanted = asked_for(body, RemoveUser)
        users = self._operations.users
        ended = await users.remove(
            wanted.name, is_last_meant=wanted.last, ends_subscriptions=wanted.subscriptions
        )
        told = {"removed": wanted.name, "subscriptions_ended": ended}
        return JSONResponse({**told, "subscriptions_left": users.left_by(wanted.name)})

    async def give_subscription(self, _request: Request, body: bytes) -> Response:
        """Say whose a durable subscription is."""
        from holdfast.admin.bodies import asked_for
        from holdfast.admin.user_bodies import GiveSubscription

        wanted = asked_for(body, GiveSubscription)
        await self._operations.users.give_subscription(wanted.client_id, wanted.name, wanted.user)
        return JSONResponse(wanted.model_dump())

    async def grant(self, _request: Request, body: bytes) -> Response:
        """Grant something to a role."""
        grant = _grant(body)
        return _granted(grant, await self._operations.users.grant(grant))

    async def revoke(self, _request: Request, body: bytes) -> Response:
        """Take something back from a role."""
        grant = _grant(body)
        return _granted(grant, await self._operations.users.revoke(grant))

    async def _told(
        self,
        request: Request,
        what: str,
        find: Callable[[], Iterable[Any]],
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> Response:
        answer = await self._leaders_answer(request)
        if isinstance(answer, list):
            return Response(b"".join(answer), media_type="application/json")
        status = self._operations.status()
        is_known = await self._operations.users.is_known()
        told = {"node": status.name, "role": status.role, "is_known": is_known}
        head = {**told, **more, **answer.head}

        async def write(slices: Slices) -> list[bytes]:
            return await listed(head, what, find(), slices, _ROWS)

        pieces = await self._desk.answer(object(), write)
        return Response(b"".join(pieces), media_type="application/json")


def _grant(body: bytes) -> Grant:
    """
    Read what is granted or revoked.

    Raises:
        HTTPException: The body is not of that form.
        AccessError: There can be no such grant.
    """
    from holdfast.admin.bodies import asked_for
    from holdfast.admin.user_bodies import ChangeGrant

    wanted: ChangeGrant = asked_for(body, ChangeGrant)
    return read_grant(wanted.role, wanted.rights, wanted.pattern)


def _granted(grant: Grant, rights: frozenset[Right]) -> Response:
    return JSONResponse(asdict(grant_status(grant._replace(rights=rights))))


def _destination(written: str) -> Destination:
    """
    Read one destination or wildcard, as a grant has it (`queue://A.>`) or as a client does.

    Raises:
        DestinationError: It is none, or several.
        PolicyError: The same, of what is written as grants are.
    """
    if not written.startswith("/"):
        pattern = parse_pattern(written)
        return Destination(pattern.kind, pattern.text)
    found = parse_sources(written)
    if len(found) != 1:
        raise DestinationError(f"destination {written[:80]!r}: one is expected, not several")
    return found[0]
