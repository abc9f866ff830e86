"""
A node that lets people in by SCRAM, asked in memory: its gate, its exchanges and one user.
"""

from __future__ import annotations

import asyncio
import json
import os
from email.message import Message
from types import SimpleNamespace
from typing import Any

from starlette.responses import JSONResponse

from holdfast.admin.access import Access, Gate
from holdfast.admin.logins import Users
from holdfast.environment.clock import SystemClock
from holdfast.errors import AuthenticationError
from holdfast.model.access_records import UserRecord
from holdfast.security.checking import WRONG, Shown
from holdfast.security.principal import Principal
from holdfast.security.regulars import Regulars
from holdfast.security.scram_exchanges import Exchanges
from holdfast.security.scram_keys import keep_keys
from holdfast.security.throttle import Throttle
from holdfast.server.scram_logins import ScramLogins

PASSWORD = "correct horse"
PEPPER = b"p" * 32
KEPT = "$kept"
KEYS = keep_keys("ann", PASSWORD, KEPT, pepper=PEPPER, nonce=b"n" * 16)


class ScramNode:
    """Knows one user, `ann`, an admin; notes what it was sent, and who was refused."""

    def __init__(self, *, is_offered: bool = True, has_users: bool = True) -> None:
        values = {"roles": ["admin"], "password": KEPT, "scram": KEYS}
        record = UserRecord("ann", json.dumps(values), 1)
        self.offer = SimpleNamespace(is_made=lambda: self.is_offered, look=self._look)
        self.looks_left = 0
        self.is_offered = is_offered
        self.has_users = has_users
        self.throttle = Throttle(Regulars())
        exchanges = Exchanges({"ann": record}.get, lambda: (PEPPER,), self.throttle, os.urandom)
        self.scram = ScramLogins(self.offer, exchanges, SystemClock())
        self.refused: list[tuple[str, str]] = []
        self.sent: list[tuple[str, str, bytes | None, str]] = []
        access = Access(people=self, tell=self._tell)
        self.gate = Gate(self._answer, access)
        self.client = "127.0.0.1"
        self.server = ("127.0.0.1", 8161)

    def _look(self) -> bool:
        self.looks_left = max(0, self.looks_left - 1)
        return not self.looks_left

    def _tell(self, person: Any, _method: str, _path: str, reason: str) -> None:
        self.refused.append((person.who, reason))

    @property
    def users(self) -> Users:
        return Users.SOME if self.has_users else Users.NONE

    async def look(self) -> str:
        return ""

    async def catch_up(self) -> str:
        return ""

    def principal(self, name: str) -> Principal | None:
        return Principal(name, frozenset({"admin"})) if name == "ann" else None

    def mark_of(self, _found: Principal) -> str:
        return ""

    def has_mark(self, _name: str, mark: str) -> bool:
        return not mark

    async def authenticate(self, shown: Shown) -> Principal:
        if (shown.name, shown.secret) == ("ann", PASSWORD):
            return Principal("ann", frozenset({"admin"}))
        raise AuthenticationError(WRONG)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        await JSONResponse({"done": scope["path"]})(scope, receive, send)

    def ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, Message, bytes]:
        """Give status, headers and body of the answer to one request."""
        self.sent.append((method, path, body, headers.get("Authorization", "")))
        sent: list[dict[str, Any]] = []
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": [(name.lower().encode(), it.encode()) for name, it in headers.items()],
            "client": (self.client, 5000),
            "server": self.server,
            "scheme": "http",
            "state": {},
        }

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request", "body": body or b"", "more_body": False}

        asyncio.run(self.gate(scope, receive, send))
        told = Message()
        for name, value in sent[0]["headers"]:
            told[name.decode()] = value.decode()
        return sent[0]["status"], told, b"".join(it.get("body", b"") for it in sent)


class PaperSocket:
    """Both ends on this machine."""

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", 8161

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 5000


class ScramConnection:
    """Stands for a connection of `http.client` to such a node."""

    node: ScramNode

    def __init__(self, place: str, timeout: float = 0.0) -> None:
        self.host, self.port = "127.0.0.1", 8161
        self.sock: Any = PaperSocket()
        self.closed = False
        self.headers = Message()
        self.status = 0
        self.content = b""

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Any = None
    ) -> None:
        self.status, self.headers, self.content = self.node.ask(method, path, body, headers)

    def getresponse(self) -> ScramConnection:
        return self

    def read(self, _size: int = -1) -> bytes:
        return self.content

    def close(self) -> None:
        self.closed = True
