"""
One request at the gate of the admin port: what it says of who sends it, and of what he wants.

What its headers say is read here and not believed; `access` judges it. What the answer must prove
to who asks is put into it on its way out.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.types import Message, Scope, Send

from holdfast.admin.answer_proofs import ANSWER_HEADER, Expected
from holdfast.admin.forwarding import FORWARDED_HEADER, Forwarded
from holdfast.admin.person import CLUSTER, MEMBERS, ON_BEHALF_HEADER, Person
from holdfast.admin.reached import Standing
from holdfast.model.networks import is_same_machine
from holdfast.security.certificate_names import name_of
from holdfast.security.roles import Duty

CONNECTION_STATE: Final = "connection"
"""Where a request's scope has its connection, in `state`; it is told who has it, and tells when it
is lost."""

PROVEN: Final = "holdfast.is_proven"
"""Whether a request's scope is of somebody who may operate: what is open may tell more then."""


class AskedOf:
    """What of a request says who sends it, and what he wants."""

    __slots__ = (
        *("_headers", "_scope", "authorization", "expected", "host", "info", "is_page"),
        *("method", "on_behalf", "path", "proven_by"),
    )

    def __init__(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        self._scope = scope
        self._headers = headers
        self.proven_by = ""
        """Who has signed it: `person.CLUSTER` or `person.MACHINE`; empty: nobody."""
        self.info = ""
        """What the answer proves to who has logged in, as `Authentication-Info` has it."""
        self.expected: Expected | None = None
        """By what the answer shows to who has given a proof that it is from this node."""
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.host = headers.get(b"host", b"").decode("latin-1")
        self.authorization = headers.get(b"authorization", b"")
        self.on_behalf = headers.get(ON_BEHALF_HEADER.encode(), b"").decode("latin-1")
        self.is_page = b"origin" in headers or headers.get(b"sec-fetch-site", b"none") != b"none"

    @property
    def forwarded(self) -> Forwarded:
        """What it must be proven to be, if it says that it was passed on."""
        raw: bytes = self._scope.get("raw_path") or self.path.encode()
        query: bytes = self._scope.get("query_string", b"")
        target = raw.partition(b"?")[0] + (b"?" + query if query else b"")
        by = self._headers.get(FORWARDED_HEADER.encode(), b"").decode("latin-1")
        return Forwarded(self.method, target.decode("latin-1"), by, self.on_behalf, to="")

    @property
    def address(self) -> str:
        """From where it comes, without a port."""
        client = self._scope.get("client")
        return "" if client is None else str(client[0])

    def standing(self, named: frozenset[str]) -> Standing:
        """Where it has reached this node, which `named` lead to as well."""
        server = self._scope.get("server")
        return Standing(None if server is None else (str(server[0]), int(server[1])), named)

    @property
    def certified(self) -> str:
        """The name that the certificate has by which it came; empty: there is none."""
        return name_of(getattr(_connection(self._scope), "certificate", None))

    @property
    def is_private(self) -> bool:
        """Whether nobody on the way can read it."""
        return self._scope.get("scheme") == "https" or self.is_same_machine

    @property
    def is_same_machine(self) -> bool:
        """Whether its sender is on this machine."""
        client, server = self._scope.get("client"), self._scope.get("server")
        if client is None:
            return False
        return is_same_machine(client[0], None if server is None else server[0])

    @property
    def is_lost(self) -> bool:
        """Whether nobody is there any more to take an answer."""
        connection = _connection(self._scope)
        return connection is not None and bool(connection.is_lost)

    def answering(self, send: Send) -> Send:
        """Give by what it is answered."""
        expected = self.expected
        if not self.info and expected is None:
            return send

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(b"authentication-info", self.info.encode())] if self.info else []
                if expected is not None:
                    proof = expected.proof(message["status"]).encode()
                    more.append((ANSWER_HEADER.encode(), proof))
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        return sent

    def hold(self, person: Person) -> bool:
        """Let its sender be told more, and have the connection; false: he has too many already."""
        if person.duty > Duty.NONE:
            self._scope[PROVEN] = person.duty >= Duty.OPERATE
        connection = _connection(self._scope)
        who = person.who
        if self.proven_by == CLUSTER and person.duty > Duty.NONE:
            who = MEMBERS if self.forwarded.by else CLUSTER
        return connection is None or bool(connection.hold(who))


def _connection(scope: Scope) -> Any:
    return scope.get("state", {}).get(CONNECTION_STATE)
