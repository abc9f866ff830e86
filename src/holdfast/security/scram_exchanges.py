"""
Logins by SCRAM that are under way: who has begun, and whether what he ends with proves a password.

Two messages of a client make an exchange (RFC 5802, 5). Nothing between them takes time: the keys
were made where the password was set, so a proof costs some hashes, also for who does not exist.

Invariants:
    An exchange ends once, whatever comes of it: what was sent before is not taken again.
    How many are under way is bounded, in all and of each network, and for how long; where there is
    no room somebody of a site or network that has more gives way (`Crowd`).
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
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from holdfast.errors import AuthenticationError
from holdfast.model.access_records import UserRecord
from holdfast.model.crowd import Crowd
from holdfast.model.networks import network_of
from holdfast.security.checking import SHUT_OUT, WRONG, Refusal
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
    ServerFirst,
    read_client_final,
    read_client_first,
    write_server_final,
    write_server_first,
)
from holdfast.security.throttle import Throttle
from holdfast.security.user_values import read_values

OVER: Final = "SCRAM: this exchange is over, or was never begun: begin anew"
MISMATCHED: Final = "SCRAM: the last message does not belong to the first one: begin anew"

EXCHANGE_SECONDS: Final = 30.0
EXCHANGE_COUNT_MAX: Final = 1_000
"""Two messages each, so some 4 MiB at most."""
NETWORK_COUNT_MAX: Final = 100
RIGHT_COUNT_MAX: Final = 10_000
RIGHT_SECONDS: Final = 600.0

_NOBODYS_VALUES: Final = json.dumps(nobodys_values())
_SID_BYTES: Final = 16
_NONCE_BYTES: Final = 18


class Begun(NamedTuple):
    """An exchange that goes on."""

    sid: str
    message: str


class Proven(NamedTuple):
    """Somebody who knows his password, and what proves to him that his node does."""

    principal: Principal
    message: str


class _Exchange(NamedTuple):
    name: str
    nonce: str
    gs2: str
    auth_message: str
    """As far as it has come."""
    record: UserRecord | None
    network: str
    until: float

    def __repr__(self) -> str:
        """Without what proofs could be tried on."""
        return f"_Exchange({self.name!r})"


class Exchanges:
    """All exchanges under way on one node."""

    __slots__ = (
        *("_chance", "_crowd", "_peppers", "_record_of", "_right", "_spare", "_throttle"),
        "_under_way",
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
        self._spare = chance(32)
        """Salts are made of it where there is no pepper."""
        self._under_way: dict[str, _Exchange] = {}
        """By their words, the oldest first."""
        self._crowd: Crowd[str] = Crowd()
        """The same words, by where they are from."""
        self._right: dict[tuple[str, str], tuple[UserRecord, float]] = {}
        """Who was right lately: by network and name, by which record, and until when it counts."""

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._under_way)

    def name_of(self, sid: str) -> str:
        """Give whose exchange this is, by what he says; empty: there is none."""
        exchange = self._under_way.get(sid)
        return "" if exchange is None else exchange.name

    def begin(self, message: bytes, address: str, now: float) -> Begun | Refusal:
        """Take a client's first message, from an address without a port."""
        network = network_of(address)
        try:
            first = read_client_first(message)
        except AuthenticationError as error:
            return Refusal(str(error), now)
        record = self._record_of(first.name)
        if self._is_shut_out(address, first.name, record, now):
            return Refusal(SHUT_OUT, now)
        keys = self._keys_of(record)
        pepper = next(iter(self._peppers()), self._spare)
        salt, iterations = salt_for(first.name, pepper), ITERATIONS
        if keys is not None:
            salt, iterations = keys.salt, keys.iterations
        nonce = first.nonce + b64encode(self._chance(_NONCE_BYTES)).decode()
        answer = write_server_first(ServerFirst(nonce, salt, iterations))
        sid = self._chance(_SID_BYTES).hex()
        self._forget_old(now)
        self._make_room(address)
        self._under_way[sid] = _Exchange(
            *(first.name, nonce, first.gs2, f"{first.bare},{answer}", record, network),
            now + EXCHANGE_SECONDS,
        )
        self._crowd.add(sid, address)
        return Begun(sid, answer)

    def finish(self, sid: str, message: bytes, address: str, now: float) -> Proven | Refusal:
        """Take his last message; the exchange is over then."""
        exchange = self._take(sid, network_of(address), now)
        if exchange is None or self._record_of(exchange.name) is not exchange.record:
            return Refusal(OVER, now)
        try:
            final = read_client_final(message)
        except AuthenticationError as error:
            return Refusal(str(error), now)
        if final.nonce != exchange.nonce or final.binding != exchange.gs2.encode():
            return Refusal(MISMATCHED, now)
        # Asked again: he may have begun a hundred before he was shut out.
        if self._is_shut_out(address, exchange.name, exchange.record, now):
            return Refusal(SHUT_OUT, now)
        return self._judge(exchange, sid, final, address, now)

    def _judge(
        self, exchange: _Exchange, sid: str, final: ClientFinal, address: str, now: float
    ) -> Proven | Refusal:
        auth_message = f"{exchange.auth_message},{final.without_proof}".encode()
        known = self._keys_of(exchange.record)
        right: Keys | None = None
        is_before = False
        # Each is looked at, also behind one that fits: so it takes as long whoever it is.
        for keys, is_current in self._candidates(exchange.name, known):
            if is_proof(keys, auth_message, final.proof):
                right = keys if is_current and right is None else right
                is_before = is_before or not is_current
        record = exchange.record
        seen = exchange.network, exchange.name
        if right is None or record is None or known is None:
            if not is_before:
                self._right.pop(seen, None)
            mark = f"before {exchange.name}" if is_before else sid
            delay = self._throttle.failed(address, mark.encode(), now)
            return Refusal(WRONG, now + delay)
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
        if not self._throttle.is_shut_out(address, now):
            return False
        by, until = self._right.get((network_of(address), name), (None, now))
        return record is None or by is not record or now >= until

    def _take(self, sid: str, network: str, now: float) -> _Exchange | None:
        self._forget_old(now)
        exchange = self._under_way.get(sid)
        if exchange is None or exchange.network != network:
            return None
        self._drop(sid)
        return exchange

    def _drop(self, sid: str) -> None:
        del self._under_way[sid]
        self._crowd.discard(sid)

    def _forget_old(self, now: float) -> None:
        while self._under_way:
            sid = next(iter(self._under_way))
            if self._under_way[sid].until > now:
                return
            self._drop(sid)

    def _make_room(self, address: str) -> None:
        """Let one more in: where all is full, by whom has more, his own fellows, or the oldest."""
        own = self._crowd.of(address)
        if len(own) >= NETWORK_COUNT_MAX:
            self._drop(next(iter(own)))
        elif len(self._under_way) >= EXCHANGE_COUNT_MAX:
            group = self._crowd.greedier(address) or self._crowd.fellows(address)
            self._drop(next(iter(group or self._under_way)))
