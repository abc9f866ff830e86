"""
The admin port's HTTP interface: JSON for programs, and Prometheus' metrics.

    GET  /health /ready /status /connections
    GET  /segments[?after=BASE&seconds=N]   what is known after so long; "next" as for the queues
    GET  /queues[?limit=N&after=NAME]       a page; "next" is what the next one stands behind
    GET  /subscriptions[?limit=N&after=KEY]  see `subscription_api`, as of /policies and the log
    GET  /metrics[?queues=top:N|PATTERN]    of single queues only what is asked for
    GET  /log/position /log /holds    POST, DELETE /holds/{name}    (see log_api)
    POST /cluster/transfer /cluster/add /cluster/remove /cluster/promote
    POST /queues/{name}/purge       DELETE /queues/{name}
    GET, POST /policies             (see policy_api)
    GET, POST /users… /grants…      GET /access     (see user_api)
    POST /messages                  (see message_api)
    POST /reload                    read certificates anew

Any node answers. A change that only the leader can make is passed on to it, once: a request that
was passed on already is never passed on again. Errors are `{"error": {"code", "message"}}`.

Who may ask for what is decided before anything here is called: see `access`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from holdfast.admin.access import Access, Gate
from holdfast.admin.asked_of import PROVEN
from holdfast.admin.endpoint import Endpoint
from holdfast.admin.forwarding import BODY_BYTES_MAX, FORWARDED_HEADER
from holdfast.admin.leader_questions import (
    Addressee,
    Ask,
    LeaderQuestions,
    LeaderSays,
    NotAsked,
    written,
)
from holdfast.admin.log_api import LogInterface, read_number
from holdfast.admin.message_api import MessageInterface
from holdfast.admin.metrics_selection import CONTENT_TYPE, Selection, read_selection
from holdfast.admin.operations import Operations
from holdfast.admin.person import acting, on_behalf
from holdfast.admin.policy_api import PolicyInterface
from holdfast.admin.process_mark import MARK, PLACE, mark_of, place_mark_of
from holdfast.admin.queue_pages import PAGE_COUNT_MAX, page
from holdfast.admin.reload_api import ReloadInterface, Renew, nothing
from holdfast.admin.remote import (
    ERRORS,
    FORWARD_SECONDS_MAX,
    QUESTION_SECONDS_MAX,
    Answer,
    RemoteNode,
)
from holdfast.admin.slices import Desk, Slices, listed
from holdfast.admin.status import as_json
from holdfast.admin.subscription_api import SubscriptionInterface
from holdfast.admin.user_api import Prepared, UserInterface, with_told
from holdfast.environment.network_place import network_place
from holdfast.errors import (
    AccessError,
    ConfigError,
    HoldfastError,
    LinkLostError,
    NotLeaderError,
    QuorumLostError,
    RefusedError,
)
from holdfast.model.digits import read_digits

if TYPE_CHECKING:
    from holdfast.admin.metrics import Metrics

_PIECE_BYTES = 64 * 1024
_KEPT_IN_CLEAR = (
    "what is kept of a password is passed on in clear to no other machine, and the leader's admin"
    " port at {leader} is one in clear: ask the leader on its own machine, let the admin ports go"
    " by TLS (admin_tls), or let the node have plain_without_tls"
)

_Endpoint = Callable[[Request], Awaitable[Response]]
_Change = Callable[[Request, bytes], Awaitable[Response]]
_Prepare = Callable[[bytes], Awaitable[Prepared]]
_Page = Callable[[Request, int, str], Awaitable[Response]]


def build_application(
    operations: Operations,
    *,
    access: Access | None = None,
    ask: Ask | None = None,
    renew: Renew = nothing,
) -> Gate:
    """
    The admin port of one node.

    Args:
        access: What proves that somebody may ask; by default the cluster's secret alone.
        ask: How to reach another node; by default over HTTP in a thread.
        renew: Reads the node's certificates anew.
    """
    name = operations.status().name
    api = _Interface(operations, ask or _ask_over_http(name, operations, access), access)
    log = LogInterface(operations)
    policies = PolicyInterface(operations, api.leaders_answer)
    messages = MessageInterface(operations)
    reloading = ReloadInterface(renew)
    subscriptions = SubscriptionInterface(operations, api.leaders_answer)
    application = Starlette(
        routes=[
            Route("/health", api.health),
            Route("/ready", api.ready),
            Route("/status", api.status),
            Route("/queues", api.queues),
            Route("/connections", api.connections),
            Route("/segments", api.segments),
            Route("/metrics", api.metrics),
            Route("/log/position", log.position),
            Route("/log", log.entries),
            Route("/holds", log.holds),
            Route("/holds/{name}", api.guarded(log.keep), methods=["POST"]),
            Route("/holds/{name}", api.guarded(log.release), methods=["DELETE"]),
            Route("/policies", policies.policies),
            Route("/policies", api.guarded(policies.change), methods=["POST"]),
            Route("/messages", api.guarded(messages.step), methods=["POST"]),
            Route("/subscriptions", api.paged(subscriptions.subscriptions)),
            Route("/subscriptions/end", api.guarded(subscriptions.end), methods=["POST"]),
            *_of_users(api, UserInterface(operations, api.leaders_answer)),
            Route("/cluster/transfer", api.guarded(api.transfer), methods=["POST"]),
            Route("/cluster/add", api.guarded(api.add), methods=["POST"]),
            Route("/cluster/remove", api.guarded(api.remove), methods=["POST"]),
            Route("/cluster/promote", api.guarded(api.promote), methods=["POST"]),
            Route("/reload", api.guarded(reloading.reload), methods=["POST"]),
            Route("/mirrors", api.guarded(api.change_mirror), methods=["POST"]),
            Route("/queues/{queue:path}/purge", api.guarded(api.purge), methods=["POST"]),
            Route("/queues/{queue:path}", api.guarded(api.delete), methods=["DELETE"]),
        ],
        exception_handlers={
            HoldfastError: _refuse,
            TimeoutError: _refuse_late,
            HTTPException: _refuse_http,
            ClientDisconnect: _forget,
        },
    )
    return Gate(application, access or Access(secret=operations.secret))


def _of_users(api: _Interface, users: UserInterface) -> list[Route]:
    hashed, drawn = users.with_hash, users.with_digest
    return [
        Route("/users", users.users),
        Route("/users", api.guarded(users.add, prepare=hashed), methods=["POST"]),
        Route("/users/roles", api.guarded(users.set_roles), methods=["POST"]),
        Route("/users/password", api.guarded(users.set_password, prepare=hashed), methods=["POST"]),
        Route("/users/tokens", api.guarded(users.make_token, prepare=drawn), methods=["POST"]),
        Route("/users/tokens/end", api.guarded(users.end_token), methods=["POST"]),
        Route("/users/remove", api.guarded(users.remove), methods=["POST"]),
        Route("/subscriptions/give", api.guarded(users.give_subscription), methods=["POST"]),
        Route("/grants", users.grants),
        Route("/grants", api.guarded(users.grant), methods=["POST"]),
        Route("/grants/revoke", api.guarded(users.revoke), methods=["POST"]),
        Route("/access", users.access),
    ]


def _ask_over_http(own_name: str, operations: Operations, access: Access | None) -> Ask:
    takes_clear = access is not None and access.takes_clear

    async def ask(asked: Addressee, method: str, path: str, body: dict[str, Any] | None) -> Answer:
        is_private = body is not None and "kept" in body and not takes_clear
        patience = QUESTION_SECONDS_MAX if method == "GET" else FORWARD_SECONDS_MAX
        remote = RemoteNode(
            Endpoint("", operations.files).beside(asked.address),
            secret=operations.secret,
            timeout_seconds=patience,
            forwarded_by=own_name,
            is_private=is_private,
            life=asked.life,
            on_behalf=on_behalf(acting()) if method != "GET" else "",
        )
        try:
            return await asyncio.to_thread(remote.send, method, path, body)
        except ConfigError as error:
            if not is_private:
                raise
            raise AccessError(_KEPT_IN_CLEAR.format(leader=asked.address)) from error

    return ask


def _marks_of(life: str) -> dict[str, str]:
    return {MARK: mark_of(life), PLACE: place_mark_of(life, network_place())}


class _Interface:
    """The endpoints of one node."""

    def __init__(self, operations: Operations, ask: Ask, access: Access | None = None) -> None:
        self._operations = operations
        self._marks = _marks_of(access.life) if access is not None and access.life else {}
        self._metrics: Metrics | None = None
        """Made when they are asked for first: what makes them is imported then."""
        self._desk = Desk()
        self._leader = LeaderQuestions(ask)

    async def health(self, request: Request) -> Response:
        status = self._operations.status()
        told = {"alive": True, "name": status.name, "uptime_seconds": status.uptime_seconds}
        return JSONResponse(told | self._marks)

    async def ready(self, request: Request) -> Response:
        verdict = self._operations.readiness()
        code = HTTPStatus.OK if verdict.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return JSONResponse(verdict.as_json(), status_code=code)

    async def status(self, request: Request) -> Response:
        status = as_json(self._operations.status())
        if not request.scope.get(PROVEN):
            del status["holds"]  # As `/holds` is not told without a proof.
        return JSONResponse(status)

    async def queues(self, request: Request) -> Response:
        """The leader's view, as it alone knows consumers; this node's own if it cannot be had."""
        status = self._operations.status()
        count, after = read_page(request.query_params)
        answer = await self.leaders_answer(request)
        if isinstance(answer, list):
            return _in_pieces(answer)
        head = {"node": status.name, "role": status.role, **answer.head}

        async def make(slices: Slices) -> list[bytes]:
            found = await page(self._operations.queue_names(), after, count, slices)
            queues = self._operations.queues(found.names)
            return await listed({**head, "next": found.next}, "queues", queues, slices)

        return _in_pieces(await self._desk.answer(("queues", after, count, answer), make))

    async def connections(self, request: Request) -> Response:
        async def make(slices: Slices) -> list[bytes]:
            return await listed({}, "connections", self._operations.connections(), slices)

        return _in_pieces(await self._desk.answer("connections", make))

    async def segments(self, request: Request) -> Response:
        after = read_number(request, "after", 0)
        seconds = read_number(request, "seconds", 0) or None
        segments, following = await self._operations.segments(after, seconds)
        head = {"next": following} if following else {}

        async def make(slices: Slices) -> list[bytes]:
            return await listed(head, "segments", segments, slices)

        return _in_pieces(await self._desk.answer(("segments", after, seconds), make))

    async def metrics(self, request: Request) -> Response:
        selection = _selection(request)
        is_proven = bool(request.scope.get(PROVEN))

        async def make(slices: Slices) -> list[bytes]:
            return await self._made_metrics().pieces(slices, selection, is_proven=is_proven)

        pieces = await self._desk.answer(("metrics", selection, is_proven), make)
        return _in_pieces(pieces, CONTENT_TYPE)

    def _made_metrics(self) -> Metrics:
        from holdfast.admin.metrics import Metrics

        self._metrics = self._metrics or Metrics(self._operations)
        return self._metrics

    async def transfer(self, request: Request, body: bytes) -> Response:
        from holdfast.admin.bodies import Transfer, asked_for

        wanted = asked_for(body, Transfer)
        leader = await self._operations.transfer(wanted.to)
        return JSONResponse({"leader": leader})

    async def add(self, request: Request, body: bytes) -> Response:
        from holdfast.admin.bodies import Add, asked_for

        wanted = asked_for(body, Add)
        await self._operations.add_member(
            wanted.name, wanted.address, kind=wanted.kind, site=wanted.site
        )
        return JSONResponse({"added": wanted.name})

    async def remove(self, request: Request, body: bytes) -> Response:
        from holdfast.admin.bodies import Remove, asked_for

        wanted = asked_for(body, Remove)
        await self._operations.remove_member(wanted.name)
        return JSONResponse({"removed": wanted.name})

    async def change_mirror(self, request: Request, body: bytes) -> Response:
        from holdfast.admin.bodies import ChangeMirror, asked_for

        wanted = asked_for(body, ChangeMirror)
        await self._operations.change_mirror(wanted.action, wanted.directory, wanted.by)
        return JSONResponse({"mirror": wanted.directory, "action": wanted.action})

    async def promote(self, request: Request, body: bytes) -> Response:
        from holdfast.admin.bodies import Promote, asked_for

        wanted = asked_for(body, Promote)
        if not wanted.force:
            await self._operations.promote(wanted.name)
            return JSONResponse({"promoted": wanted.name})
        report = await self._operations.promote_force(
            wanted.name,
            wanted.companions,
            peers_are_dead=wanted.peers_are_dead,
            is_incomplete_accepted=wanted.incomplete,
        )
        return JSONResponse({"promoted": wanted.name, "report": report.as_json()})

    async def purge(self, request: Request, body: bytes) -> Response:
        _require_nothing(body)
        count = await self._operations.purge(request.path_params["queue"])
        return JSONResponse({"purged": count})

    async def delete(self, request: Request, body: bytes) -> Response:
        _require_nothing(body)
        count = await self._operations.delete(request.path_params["queue"])
        return JSONResponse({"deleted": request.path_params["queue"], "messages": count})

    @staticmethod
    def paged(tell: _Page) -> _Endpoint:
        """What gives pages of something by name."""

        async def endpoint(request: Request) -> Response:
            return await tell(request, *read_page(request.query_params))

        return endpoint

    def guarded(self, change: _Change, prepare: _Prepare | None = None) -> _Endpoint:
        """The change, passed on if this node does not lead; made ready on this one first."""

        async def endpoint(request: Request) -> Response:
            made = Prepared(await _receive(request))
            if prepare is not None:
                made = await prepare(made.body)
            try:
                answer = await change(request, made.body)
            except NotLeaderError as error:
                answer = await self._pass_on(request, made.body, error)
            is_told = made.told and answer.status_code == HTTPStatus.OK
            return with_told(answer, made.told) if is_told else answer

        return endpoint

    async def _pass_on(self, request: Request, body: bytes, error: NotLeaderError) -> Response:
        leader = self._operations.leader_admin()
        if leader is None or FORWARDED_HEADER in request.headers:
            raise error
        try:
            asked = leader, request.method, _target(request), json.loads(body)
            answer = await self._leader.change(*asked)
        except LinkLostError as lost:
            raise LinkLostError(f"{error}; {lost}") from lost
        pieces = await written(answer.body)
        return Response(b"".join(pieces), status_code=answer.status, media_type="application/json")

    async def leaders_answer(self, request: Request) -> LeaderSays:
        """What the leader says to the same question, if it is not for this node to say."""
        is_local = "local" in request.query_params or FORWARDED_HEADER in request.headers
        if is_local or self._operations.status().role == "leader":
            return NotAsked("")
        leader = self._operations.leader_admin()
        if leader is None:
            return NotAsked("no leader is known here, or none whose admin port is")
        query = f"?{request.url.query}" if request.url.query else ""
        return await self._leader.find(leader, _target(request) + query)


def _in_pieces(pieces: list[bytes], content_type: str = "application/json") -> Response:
    """An answer that goes out as fast as it is taken."""

    async def joined() -> AsyncIterator[bytes]:
        gathered: list[bytes] = []
        size = 0
        for piece in pieces:
            gathered.append(piece)
            size += len(piece)
            if size >= _PIECE_BYTES:
                yield b"".join(gathered)
                gathered, size = [], 0
        yield b"".join(gathered)

    length = str(sum(map(len, pieces)))
    headers = {"Content-Type": content_type, "Content-Length": length}
    return StreamingResponse(joined(), headers=headers)


def read_page(query: Mapping[str, str]) -> tuple[int, str]:
    """
    How many queues are asked for, and behind which name.

    Raises:
        HTTPException: That is no number, or too large a one.
    """
    count = read_digits(query.get("limit", str(PAGE_COUNT_MAX)))
    if count is None or not 1 <= count <= PAGE_COUNT_MAX:
        raise HTTPException(
            HTTPStatus.BAD_REQUEST, f"limit: a number from 1 to {PAGE_COUNT_MAX} is expected"
        )
    return count, query.get("after", "")


def _selection(request: Request) -> Selection:
    try:
        return read_selection(request.query_params.get("queues", ""))
    except ValueError as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from error


def _target(request: Request) -> str:
    """Path and query exactly as they came: quoted characters of a queue's name stay quoted."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return raw.decode("ascii").split("?")[0]


async def _receive(request: Request) -> bytes:
    """The body, bounded; one that is empty counts as an object without fields."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY_BYTES_MAX:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request is too large")
    return bytes(data) or b"{}"


def _require_nothing(body: bytes) -> None:
    from holdfast.admin.bodies import NoArguments, asked_for

    asked_for(body, NoArguments)


async def _refuse(request: Request, error: Exception) -> Response:
    """Our own errors, by name and with the status that says the same to a program."""
    fault: dict[str, Any] = {"code": "refused", "message": str(error)}
    status = HTTPStatus.CONFLICT if isinstance(error, RefusedError) else HTTPStatus.BAD_GATEWAY
    for code, (kind, known) in ERRORS.items():
        if isinstance(error, kind):
            fault["code"], status = code, known
    if isinstance(error, NotLeaderError):
        fault["leader"] = error.leader
    return JSONResponse({"error": fault}, status_code=status)


async def _refuse_late(request: Request, error: Exception) -> Response:
    """A change that was not committed in time; it may still be."""
    return await _refuse(request, QuorumLostError("not committed in time; it may still be made"))


async def _forget(request: Request, error: Exception) -> Response:
    """Whoever asked is gone before the whole request had come; nobody reads this answer."""
    return Response(status_code=HTTPStatus.BAD_REQUEST)


async def _refuse_http(request: Request, error: Exception) -> Response:
    """Wrong paths, methods and bodies, in the same shape."""
    assert isinstance(error, HTTPException)
    fault = {"code": "request", "message": error.detail}
    return JSONResponse({"error": fault}, status_code=error.status_code, headers=error.headers)
