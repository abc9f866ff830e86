"""
Who may ask the admin port what.

    GET /health /ready /status /queues /metrics     whoever can reach the port
    everything else                                 with a proof, from wherever it comes

What is open tells numbers and names, but who reads the log only with a proof; what messages say,
who is connected, and every change need a proof: the token made from the cluster's secret
(`remote.admin_token`), or, on the node's machine, the token in a file that only the node's user may
read (`token_file`).

A web page can make the operator's browser ask a loopback port, and with a name that changes its
address (DNS rebinding) even read the answer. So each request must name this node as its host: by an
address, or by a name it knows. And no page of ours asks, so what comes from a page is refused.

The port lives on the node's loop, and sixty answers to strangers in one turn of it, a millisecond
each, would keep the clients waiting. So strangers are let in one after the other.

Invariants:
    What has no proof takes no more than a fifth of the loop's time, however many ask.
    A path that is not listed as open needs a proof, also one that is added later.
    Proofs are compared in constant time.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.admin.remote import admin_token
from holdfast.admin.slices import Turnstile

OPEN_PATHS: Final = frozenset({"/health", "/ready", "/status", "/queues", "/metrics"})
CONNECTION_STATE: Final = "connection"
"""Where a request's scope has its connection, in `state`; it is told of a proof, and tells when it
is lost."""

PROVEN: Final = "holdfast.is_proven"
"""Whether a request's scope brought a proof: what is open may tell more then."""

_HOST: Final = re.compile(r"(\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:@/]+))(:[0-9]*)?")
_LOCAL_NAMES: Final = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What one node's admin port asks for."""

    secret: bytes = field(default=b"", repr=False)
    """The cluster's; empty if there is none."""

    local_token: str = field(default="", repr=False)
    """What the file in the data directory holds; empty if there is none."""

    token_path: str = ""
    """Where that file is, told to programs on the same machine."""

    token_place: Callable[[], str] | None = None
    """The same, where it may be elsewhere now: a node may have several directories."""

    names: frozenset[str] = frozenset()
    """Host names of this node, in small letters."""

    def told_path(self) -> str:
        """Where the file is that a program on this machine may read."""
        return self.token_path if self.token_place is None else self.token_place()

    def is_host(self, header: str) -> bool:
        """Whether a `Host` header names this node: an address always does."""
        host = _host_of(header)
        return _is_address(host) or host in _LOCAL_NAMES or host in self.names

    def is_proof(self, header: bytes) -> bool:
        """Whether an `Authorization` header proves that its sender may act for the operator."""
        expected = [admin_token(self.secret)] if self.secret else []
        expected += [self.local_token] if self.local_token else []
        found = [hmac.compare_digest(f"Bearer {token}".encode(), header) for token in expected]
        return any(found)


class Gate:
    """Stands before an application and lets in who may ask."""

    def __init__(self, application: ASGIApp, access: Access) -> None:
        self._application = application
        self._access = access
        self._turnstile = Turnstile()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if not scope.get(PROVEN):
            path = scope.get("path")
            # By what it asks: who asks whether the node lives does not wait for all the others.
            await self._turnstile.enter(path if path in OPEN_PATHS else None)
            connection = _connection(scope)
            if connection is not None and connection.is_lost:
                return  # It left in the meantime, and costs nothing any more.
        await (refusal or self._application)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        # A browser always says which host it means; who does not is none.
        if host and not self._access.is_host(host):
            return _refuse(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"this node is not known as {_host_of(host)[:200]!r}: ask it by its address, or"
                f" add the name to its setting admin_names",
            )
        is_page = b"origin" in headers or headers.get(b"sec-fetch-site", b"none") != b"none"
        is_proven = not is_page and self._access.is_proof(headers.get(b"authorization", b""))
        scope[PROVEN] = is_proven
        if scope["path"] in OPEN_PATHS and scope["method"] in {"GET", "HEAD"}:
            return None
        if is_page:
            return _refuse(HTTPStatus.FORBIDDEN, "this is not answered for web pages")
        if not is_proven:
            return self._ask_for_proof(scope)
        connection = _connection(scope)
        if connection is not None:
            connection.is_proven = True
        return None

    def _ask_for_proof(self, scope: Scope) -> JSONResponse:
        access = self._access
        if access.told_path() and _is_same_machine(scope):
            return _refuse(
                HTTPStatus.FORBIDDEN,
                f"a proof is needed: run this as the user of the node, who may read"
                f" {access.told_path()}, or give the cluster's secret (--secret-file)",
                token_file=access.told_path(),
            )
        if not access.secret:
            return _refuse(
                HTTPStatus.FORBIDDEN,
                "this is answered on the node's own machine only, as it has no cluster secret",
            )
        return _refuse(
            HTTPStatus.FORBIDDEN,
            "the proof is missing or wrong: give the file with the cluster's secret"
            " (--secret-file)",
        )


def _connection(scope: Scope) -> Any:
    return scope.get("state", {}).get(CONNECTION_STATE)


def own_names(*hosts: str, more: Collection[str] = ()) -> frozenset[str]:
    """The names among these hosts, and the first label of each."""
    names = {host.lower().removesuffix(".") for host in (*hosts, *more) if host}
    names = {name for name in names if not _is_address(name)}
    return frozenset(names | {name.partition(".")[0] for name in names})


def _refuse(status: HTTPStatus, message: str, **more: str) -> JSONResponse:
    fault: dict[str, Any] = {"code": "authentication", "message": message, **more}
    return JSONResponse({"error": fault}, status_code=status)


def _host_of(header: str) -> str:
    """The host of `host`, `host:port` or `[ipv6]:port`, in small letters; all of it if neither."""
    found = _HOST.fullmatch(header.strip())
    if found is None:
        return header.lower()
    return (found["address"] or found["name"]).lower().removesuffix(".")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_same_machine(scope: Scope) -> bool:
    client, server = scope.get("client"), scope.get("server")
    if client is None:
        return False
    is_own = server is not None and client[0] == server[0]
    return is_own or (_is_address(client[0]) and ip_address(client[0]).is_loopback)
