"""
Logins by SCRAM that are under way: who has begun, and whether what he ends with proves a password.

Two messages of a client make an exchange (RFC 5802, 5). Nothing between them takes time: the keys
were made where the password was set, so a proof costs some hashes, also for who does not exist.

Invariants:
    What was right once is not taken again, and each wrong proof is a guess, also of one exchange.
    Nothing is kept of an exchange until it has succeeded: its client has all of it, as a ticket.
    Who begins however many is in nobody's way.
    Whoever does not exist gets an exchange alike: a salt that is his name's for ever, as many
    iterations, the same words and as many hashes.
    A failed proof counts as a guess, but for who shows the password before this one.
    Whoever was right lately from a network is not shut out there by other people's guesses, until
    his name is guessed at from there.

Pure: time is an argument, chance and the keys of passwords are handed in. Owned by the loop.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from holdfast.errors import AuthenticationError
from holdfast.model.access_records import UserRecord
from holdfast.model.networks import network_of
from holdfast.security.checking import BUSY, SHUT_OUT, WRONG, Refusal
from holdfast.security.principal import Principal
from holdfast.security.scram_keys import (
    ITERATIONS,
    NOBODYS,
    KeptKeys,
    Keys,
    is_proof,
    nobodys_values,
    salt_for,
    server_signature,
    unmasked,
)
from holdfast.security.scram_messages import (
    ClientFinal,
    ClientFirst,
    ServerFirst,
    read_client_final,
    read_client_first,
    write_server_final,
    write_server_first,
)
from holdfast.security.scram_tickets import CHANCE_BYTES, Ticket, Tickets, read_ticket
from holdfast.security.throttle import FORGOTTEN_AT_ONCE_MAX, Throttle
from holdfast.security.user_values import read_values

OVER: Final = "SCRAM: this exchange is over, or was never begun: begin anew"
MISMATCHED: Final = "SCRAM: the last message does not belong to the first one: begin anew"

EXCHANGE_SECONDS: Final = 30.0
USED_COUNT_MAX: Final = 50_000
"""6 MiB, and 1,600 logins in a second; behind that the next ones are asked to come again."""
RIGHT_COUNT_MAX: Final = 10_000
RIGHT_SECONDS: Final = 600.0

_NOBODYS_VALUES: Final = json.dumps(nobodys_values())
_KEY_BYTES: Final = 32


class Begun(NamedTuple):
    """An exchange that goes on."""

    sid: str
    message: str


class Proven(NamedTuple):
    """Somebody who knows his password, and what proves to him that his node does."""

    principal: Principal
    message: str


class _Exchange(NamedTuple):
    """One that goes on, by its ticket."""

    ticket: Ticket
    first: ClientFirst
    nonce: str
    answer: str
    record: UserRecord | None

    def __repr__(self) -> str:
        """Without what proofs could be tried on."""
        return f"_Exchange({self.first.name!r})"


class Exchanges:
    """All exchanges of one node."""

    __slots__ = (
        *("_chance", "_peppers", "_record_of", "_right", "_spare", "_throttle", "_tickets"),
        "_used",
    )

    def __init__(
        self,
        record_of: Callable[[str], UserRecord | None],
        peppers: Callable[[], tuple[bytes, ...]],
        throttle: Throttle,
        chance: Callable[[int], bytes],
    ) -> None:
        """
        Judge users by their records.

        Args:
            record_of: Gives the record of a user.
            peppers: What keys may be masked with; none: no password is right.
            throttle: Notes who guesses, together with those who show passwords.
            chance: Gives so many bytes that nobody can guess.
        """
        self._record_of = record_of
        self._peppers = peppers
        self._throttle = throttle
        self._chance = chance
        self._spare = chance(_KEY_BYTES)
        """Salts are made of it where there is no pepper."""
        self._tickets = Tickets(chance(_KEY_BYTES))
        self._used: OrderedDict[bytes, float] = OrderedDict()
        """What was right: the marks of the tickets, and until when they would be good."""
        self._right: dict[tuple[str, str], tuple[UserRecord, float]] = {}
        """Who was right lately: by network and name, by which record, and until when it counts."""

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._used)

    def name_of(self, sid: str) -> str:
        """Give whose exchange this is, by what he says; empty: it is none."""
        ticket = read_ticket(sid)
        if ticket is None:
            return ""
        try:
            return read_client_first(ticket.message).name
        except AuthenticationError:
            return ""

    def begin(self, message: bytes, address: str, now: float) -> Begun | Refusal:
        """Take a client's first message, from an address without a port."""
        try:
            first = read_client_first(message)
        except AuthenticationError as error:
            return Refusal(str(error), now)
        record = self._record_of(first.name)
        if self._is_shut_out(address, first.name, record, now):
            return Refusal(SHUT_OUT, now)
        chance = self._chance(CHANCE_BYTES)
        answer = self._answer(first, chance, record)
        until_ms = int((now + EXCHANGE_SECONDS) * 1000)
        bound = _bound(address, answer, record)
        return Begun(self._tickets.make(until_ms, chance, message, bound), answer)

    def finish(self, sid: str, message: bytes, address: str, now: float) -> Proven | Refusal:
        """Take his last message."""
        self._forget_old(now)
        exchange = self._exchange(sid, address, now)
        if exchange is None:
            return Refusal(OVER, now)
        try:
            final = read_client_final(message)
        except AuthenticationError as error:
            return Refusal(str(error), now)
        if final.nonce != exchange.nonce or final.binding != exchange.first.gs2.encode():
            return Refusal(MISMATCHED, now)
        # Asked again: he may have begun a hundred before he was shut out.
        if self._is_shut_out(address, exchange.first.name, exchange.record, now):
            return Refusal(SHUT_OUT, now)
        if len(self._used) >= USED_COUNT_MAX:
            return Refusal(BUSY, now)
        return self._judge(exchange, final, address, now)

    def _answer(self, first: ClientFirst, chance: bytes, record: UserRecord | None) -> str:
        """Give the server's first message."""
        keys = self._keys_of(record)
        pepper = next(iter(self._peppers()), self._spare)
        salt, iterations = salt_for(first.name, pepper), ITERATIONS
        if keys is not None:
            salt, iterations = keys.salt, keys.iterations
        return write_server_first(ServerFirst(_nonce(first, chance), salt, iterations))

    def _exchange(self, sid: str, address: str, now: float) -> _Exchange | None:
        """Give the exchange of a ticket; None: it is none of ours, used, or not good any more."""
        ticket = read_ticket(sid)
        if ticket is None or ticket.mark in self._used or ticket.until_ms <= now * 1000:
            return None
        try:
            first = read_client_first(ticket.message)
        except AuthenticationError:
            return None
        record = self._record_of(first.name)
        answer = self._answer(first, ticket.chance, record)
        if not self._tickets.is_own(ticket, _bound(address, answer, record)):
            return None
        return _Exchange(ticket, first, _nonce(first, ticket.chance), answer, record)

    def _judge(
        self, exchange: _Exchange, final: ClientFinal, address: str, now: float
    ) -> Proven | Refusal:
        name, ticket = exchange.first.name, exchange.ticket
        auth_message = f"{exchange.first.bare},{exchange.answer},{final.without_proof}".encode()
        known = self._keys_of(exchange.record)
        right: Keys | None = None
        is_before = False
        # Each is looked at, also behind one that fits: so it takes as long whoever it is.
        for keys, is_current in self._candidates(name, known):
            if is_proof(keys, auth_message, final.proof):
                right = keys if is_current and right is None else right
                is_before = is_before or not is_current
        record = exchange.record
        seen = network_of(address), name
        if right is None or record is None or known is None:
            if not is_before:
                self._right.pop(seen, None)
            guess = f"before {name}".encode() if is_before else ticket.mark + final.proof
            delay = self._throttle.failed(address, guess, now, name)
            return Refusal(WRONG, now + delay)
        self._used[ticket.mark] = ticket.until_ms / 1000
        self._right.pop(seen, None)
        if len(self._right) >= RIGHT_COUNT_MAX:
            del self._right[next(iter(self._right))]
        self._right[seen] = record, now + RIGHT_SECONDS
        self._throttle.regulars.came_in(address, now)
        values = read_values(record.values)
        principal = Principal(record.name, values.roles, kept=values.password)
        return Proven(principal, write_server_final(server_signature(right, auth_message)))

    def _candidates(self, name: str, known: KeptKeys | None) -> Iterator[tuple[Keys, bool]]:
        """Give keys to compare with, and whether they are of the password of now."""
        for pepper in self._peppers() or (self._spare,):
            current, before = (None, None) if known is None else (known.masked, known.before)
            yield unmasked(current or NOBODYS, name, pepper), True
            yield unmasked(before or NOBODYS, name, pepper), False

    def _keys_of(self, record: UserRecord | None) -> KeptKeys | None:
        """Give a user's keys; without a pepper nobody's are of use, and nobody has any."""
        values = read_values(_NOBODYS_VALUES if record is None else record.values)
        return values.scram if record is not None and self._peppers() else None

    def _is_shut_out(self, address: str, name: str, record: UserRecord | None, now: float) -> bool:
        if not self._throttle.is_shut_out(address, now, name):
            return False
        by, until = self._right.get((network_of(address), name), (None, now))
        return record is None or by is not record or now >= until

    def _forget_old(self, now: float) -> None:
        for _ in range(min(len(self._used), FORGOTTEN_AT_ONCE_MAX)):
            mark = next(iter(self._used))
            if self._used[mark] > now:
                return
            del self._used[mark]


def _nonce(first: ClientFirst, chance: bytes) -> str:
    return first.nonce + b64encode(chance).decode()


def _bound(address: str, answer: str, record: UserRecord | None) -> tuple[bytes, ...]:
    """Give what has to be the same at an exchange's end: from where, what was asked, who he is."""
    user = b"" if record is None else f"{record.revision} {record.values}".encode()
    return network_of(address).encode(), answer.encode(), user
