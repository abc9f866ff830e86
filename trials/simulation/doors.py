"""
A small world before one broker's door: users send while grants come and go, and strangers log in.

What is let through is compared with a table that knows nothing of caches, patterns as they are
compiled, or what a SEND's headers came to before. What a login costs is compared with what another
one costs: who is not known here must not be told apart by that.

One seed is one world; nothing in it waits.
"""

from __future__ import annotations

import json
import random
from itertools import chain
from typing import Final

from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.model.access_records import GrantRecord, UserRecord
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import MessageRecord
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.security.checking import Checking, Shown, Waiting
from holdfast.security.grants import Right, bits_of
from holdfast.security.principal import ANONYMOUS, Principal
from holdfast.sessions.context import SessionContext
from holdfast.sessions.credentials import Credential
from holdfast.sessions.session import Session
from holdfast.sessions.stomp import StompSession

_STEPS: Final = 200
_USERS: Final = {"ann": "sales", "ben": "stock"}
_QUEUES: Final = ("a", "b")
_PATTERNS: Final = {"queue://a": {"a"}, "queue://b": {"b"}, "queue://*": {"a", "b"}}
"""What each means of the queues that there are."""


def live(seed: int) -> str:
    """Live through one world; gives what was broken in it, or nothing."""
    return _Door(seed).broken()


class _Door:
    """One broker, its users, and the table of what they may."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - to be repeated
        self._broker = Broker(BrokerSettings())
        self._broker.state.format_level = NEWEST_LEVEL
        self._broker.lead()
        self._record = 1
        self._granted: set[tuple[str, str]] = set()
        self._context = SessionContext(node="door", version="simulated")
        self._context.check = self._let_in
        self._checking = Checking(self._broker.state.access.users.get, bytes(32))
        self._say(GrantRecord("root", "queue://>", bits_of([*Right])))
        for name, role in {"root": "root", **_USERS}.items():
            self._say(UserRecord(name, json.dumps({"roles": [role], "password": "kept"}), 1))
        root = self._connect("root")
        for name in _QUEUES:
            self._send(root, f"/queue/{name}")
        self._sessions = {name: self._connect(name) for name in _USERS}

    def broken(self) -> str:
        """Live, and tell."""
        acts = (self._change, self._try_to_send, self._try_to_send, self._log_in)
        for _ in range(_STEPS):
            violation = self._chance.choice(acts)()
            if violation:
                return violation
        return ""

    def _change(self) -> str:
        role = self._chance.choice([*_USERS.values()])
        pattern = self._chance.choice([*_PATTERNS])
        is_granted = self._chance.random() < 0.5
        (self._granted.add if is_granted else self._granted.discard)((role, pattern))
        self._say(GrantRecord(role, pattern, bits_of([Right.WRITE]) if is_granted else 0))
        self._broker.destinations.leadership.patterns.unsettle()
        return ""

    def _try_to_send(self) -> str:
        name, role = self._chance.choice([*_USERS.items()])
        wanted = self._chance.sample(_QUEUES, self._chance.randint(1, 2))
        written = ",".join(f"/queue/{each}" for each in wanted)
        may_send = all(
            any((role, it) in self._granted and each in of for it, of in _PATTERNS.items())
            for each in wanted
        )
        was_sent = self._send(self._sessions[name], written)
        if was_sent == may_send:
            return ""
        return f"S6: {name} {'sent' if was_sent else 'could not send'} to {written}"

    def _log_in(self) -> str:
        costs = []
        for name in ("ann", f"nobody-{self._chance.random()}"):
            shown = Shown(name, f"wrong-{self._chance.random()}", address=name)
            answer = self._checking.check(shown, 0.0, 0)
            costs.append(isinstance(answer, Waiting))
            if isinstance(answer, Waiting):
                self._checking.looked_at(answer, False, now=0.0, now_ms=0)
        return "" if costs[0] == costs[1] else "S2: who is not known is told apart by the work"

    def _say(self, record: UserRecord | GrantRecord) -> None:
        self._broker.receipts.add_records([record])
        self._turn()

    def _let_in(self, _session: Session, credential: Credential) -> Principal:
        return self._broker.access_book.principal(credential.name) or ANONYMOUS

    def _connect(self, name: str) -> StompSession:
        session = StompSession(self._broker, self._context, StompSettings(), _nothing_stored)
        session.room_bytes = 1 << 30
        session.receive(f"CONNECT\naccept-version:1.2\nlogin:{name}\n\n\0".encode())
        return session

    def _send(self, session: StompSession, written: str) -> bool:
        session.out.clear()
        frame = f"SEND\ndestination:{written}\npersistent:true\nreceipt:r\n\nx\0"
        session.receive(frame.encode())
        self._turn()
        return b"RECEIPT" in b"".join(session.out)

    def _turn(self) -> None:
        broker = self._broker
        while broker.receipts.has_batch():
            batch = broker.receipts.take_batch()
            for _ in chain.from_iterable(batch.unnumbered):
                pass
            broker.apply_batch(batch, self._record, 1_000_000 + self._record)
            self._record += len(batch.records)
            for replier, receipt in batch.replies:
                replier.reply(receipt)


def _nothing_stored(_record_number: int) -> MessageRecord:
    raise AssertionError("nobody reads here")
