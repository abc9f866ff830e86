"""
A desk whose clients log in: users and grants stand in its log, and change while clients are there.
"""

from __future__ import annotations

import json

from holdfast.model.access_records import GrantRecord, UserRecord
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.security.grants import bits_of, read_grant
from holdfast.security.principal import ANONYMOUS, Principal
from tests.unit.sessions.conftest import Desk, StompClient

ALL = "read,write,admin"


class Guarded:
    """Users, what they were granted, and their clients."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.clients: list[StompClient] = []
        desk.broker.state.format_level = NEWEST_LEVEL
        desk.context.check = self._check
        self.add("root", ["root"])
        for kind in ("queue", "topic"):
            self.grant("root", ALL, f"{kind}://>")

    def _check(self, _session: object, credential: tuple[str, str]) -> Principal:
        """Everybody is who he says, without a name nobody in particular."""
        return self.desk.broker.access_book.principal(credential[0]) or ANONYMOUS

    def add(self, name: str, roles: list[str], life: int = 0) -> None:
        values = json.dumps({"roles": roles, "life": life}) if roles else ""
        self._log(UserRecord(name, values, self.desk.next_record))

    def remove(self, name: str) -> None:
        self.add(name, [])

    def grant(self, role: str, rights: str, pattern: str) -> None:
        """Let a role have these rights of a pattern, and no others; none: "-"."""
        found = read_grant(role, "read" if rights == "-" else rights, pattern)
        bits = 0 if rights == "-" else bits_of(found.rights)
        self._log(GrantRecord(role, str(found.pattern), bits))

    def _log(self, record: UserRecord | GrantRecord) -> None:
        self.desk.broker.receipts.add_records([record])
        self.desk.turn()
        self.desk.broker.destinations.leadership.patterns.unsettle()
        for client in self.clients:
            session = client.session
            if not session.is_closing:
                who = self.desk.broker.access_book.principal(session.principal.name)
                for _ in session.judge_again(who, "not any more"):
                    pass
        self.desk.turn()

    def connect(self, name: str = "", **headers: str) -> StompClient:
        client = self.desk.connect(**({"login": name} if name else {}), **headers)
        self.clients.append(client)
        return client
