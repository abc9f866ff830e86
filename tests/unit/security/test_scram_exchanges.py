"""Logins by SCRAM that are under way."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from holdfast.model.access_records import UserRecord
from holdfast.security import scram_exchanges
from holdfast.security.checking import BUSY, SHUT_OUT, WRONG, Refusal
from holdfast.security.regulars import Regulars
from holdfast.security.scram_exchanges import (
    EXCHANGE_SECONDS,
    MISMATCHED,
    OVER,
    RIGHT_SECONDS,
    Begun,
    Exchanges,
    Proven,
)
from holdfast.security.scram_keys import (
    client_proof,
    keep_keys,
    keys_of,
    salted,
    server_signature,
    xor,
)
from holdfast.security.scram_messages import (
    ServerFirst,
    read_server_first,
    without_proof,
    write_client_final,
    write_client_first,
    write_server_final,
)
from holdfast.security.scram_tickets import Tickets, read_ticket
from holdfast.security.throttle import FAILURES_MAX, SITE_FAILURES_MAX, Throttle
from holdfast.security.user_changes import with_password

PEPPER = b"p" * 32
HERE = "192.0.2.1"
ELSEWHERE = "192.0.2.2"


def kept(password: str) -> str:
    """What argon2 would make of it, at no cost."""
    return f"$argon2id$v=19$m=19456,t=2,p=1${'A' * 22}${password.encode().hex():A<43}"


class World:
    """A node's users and its exchanges."""

    def __init__(self) -> None:
        self.users: dict[str, UserRecord] = {}
        self.peppers: tuple[bytes, ...] = (PEPPER,)
        self.count = 0
        self.throttle = Throttle(Regulars())
        self.exchanges = Exchanges(self.users.get, lambda: self.peppers, self.throttle, self.chance)
        self.known: dict[tuple[str, bytes], bytes] = {}

    def chance(self, size: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(size, "big")

    def set_password(self, name: str, password: str, *, pepper: bytes = PEPPER) -> None:
        before = self.users.get(name)
        values = {"roles": ["sales"]} if before is None else json.loads(before.values)
        nonce = self.chance(16)
        keys = keep_keys(name, password, kept(password), pepper=pepper, nonce=nonce)
        made = with_password(values, kept(password), keys)
        self.users[name] = UserRecord(name, json.dumps(made), self.count)

    def begin(
        self, name: str = "ann", address: str = HERE, now: float = 0.0, nonce: str = "cnonce"
    ) -> Any:
        first = write_client_first(name, nonce)
        return self.exchanges.begin((first.gs2 + first.bare).encode(), address, now)

    def final(self, begun: Begun, password: str, name: str = "ann") -> tuple[str, bytes]:
        """What a client ends with, and the signature that it expects."""
        first, asked = write_client_first(name, "cnonce"), server_first(begun)
        mark = password, asked.salt
        if mark not in self.known:
            self.known[mark] = salted(password, asked.salt, asked.iterations) or b""
        before_proof = without_proof("n,,", asked.nonce)
        over = f"{first.bare},{begun.message},{before_proof}".encode()
        proof = client_proof(self.known[mark], over)
        return (
            write_client_final(before_proof, proof),
            server_signature(keys_of(self.known[mark]), over),
        )

    def log_in(
        self, password: str, name: str = "ann", address: str = HERE, now: float = 0.0
    ) -> Any:
        begun = self.begin(name, address, now)
        if isinstance(begun, Refusal):
            return begun
        final, _ = self.final(begun, password, name)
        return self.exchanges.finish(begun.sid, final.encode(), address, now)


def server_first(begun: Begun) -> ServerFirst:
    return read_server_first(begun.message.encode())


@pytest.fixture
def world() -> World:
    world = World()
    world.set_password("ann", "right")
    return world


def test_who_knows_his_password_is_let_in_and_the_node_proves_that_it_knows_him(world) -> None:
    """He has his roles, and is known by the password that he has shown: see `Checking.still`."""
    begun = world.begin()
    final, signature = world.final(begun, "right")
    found = world.exchanges.finish(begun.sid, final.encode(), HERE, 1.0)
    assert isinstance(found, Proven)
    principal = found.principal
    assert (principal.name, principal.roles, principal.kept) == ("ann", {"sales"}, kept("right"))
    assert found.message == write_server_final(signature)


def test_who_does_not_is_refused_with_the_words_and_after_the_time_of_who_is_not_there(
    world, monkeypatch
) -> None:
    """
    Salt, count of iterations, words, delay and the number of hashes are alike; the salt of a name
    is the same each time, and so after the user was made, removed, or has another password.
    """
    looked: list[bytes] = []
    real = scram_exchanges.is_proof

    def counted(keys, over, proof) -> bool:
        looked.append(keys.stored)
        return real(keys, over, proof)

    monkeypatch.setattr(scram_exchanges, "is_proof", counted)
    world.users["tok"] = UserRecord("tok", '{"roles":[]}', 1)
    told, counts, salts = [], [], {}
    for name, address in (("ann", HERE), ("cas", ELSEWHERE), ("tok", "192.0.2.3")):
        begun = world.begin(name, address)
        assert world.begin(name, address).message.split(",")[1:] == begun.message.split(",")[1:]
        salts[name] = server_first(begun).salt
        looked.clear()
        told.append(world.log_in("wrong", name, address))
        counts.append(len(looked))
    assert told == [Refusal(WRONG, 0.1)] * 3
    assert counts == [2, 2, 2]
    assert len(set(salts.values())) == 3
    world.set_password("cas", "new")
    world.set_password("ann", "newer")
    assert {name: server_first(world.begin(name)).salt for name in salts} == salts
    assert server_first(world.begin()).iterations == server_first(world.begin("dan")).iterations


def test_a_proof_by_another_count_of_iterations_or_salt_is_wrong(world) -> None:
    """Who was told another count on his way has proven nothing, whatever he knows."""
    for salt, iterations in ((b"", 4096), (b"x", 0)):
        begun = world.begin()
        asked = server_first(begun)
        known = salted("right", asked.salt + salt, iterations or asked.iterations)
        before_proof = without_proof("n,,", asked.nonce)
        over = f"{write_client_first('ann', 'cnonce').bare},{begun.message},{before_proof}"
        final = write_client_final(before_proof, client_proof(known, over.encode()))
        found = world.exchanges.finish(begun.sid, final.encode(), HERE, 0.0)
        assert found.reason == WRONG


def test_an_exchange_ends_once(world) -> None:
    """What was seen on its way opens nothing a second time."""
    begun = world.begin()
    final = world.final(begun, "right")[0].encode()
    assert isinstance(world.exchanges.finish(begun.sid, final, HERE, 0.0), Proven)
    assert world.exchanges.finish(begun.sid, final, HERE, 0.0) == Refusal(OVER, 0.0)
    padded = begun.sid + "=" * (-len(begun.sid) % 4)
    assert world.exchanges.finish(padded, final, HERE, 0.0) == Refusal(OVER, 0.0)
    other = world.begin()
    assert world.exchanges.finish(other.sid, final, HERE, 0.0) == Refusal(MISMATCHED, 0.0)
    assert world.exchanges.finish("nowhere", final, HERE, 0.0) == Refusal(OVER, 0.0)


def test_each_wrong_proof_of_one_exchange_is_a_guess(world) -> None:
    """Nothing is kept of it, so it is not over; and nobody guesses by that for nothing."""
    begun = world.begin()
    finals = [world.final(begun, f"wrong {it}")[0].encode() for it in range(FAILURES_MAX + 1)]
    told = [world.exchanges.finish(begun.sid, it, HERE, 0.0) for it in finals]
    assert {it.reason for it in told} == {WRONG}
    right = world.final(begun, "right")[0].encode()
    assert world.exchanges.finish(begun.sid, right, HERE, 0.0) == Refusal(SHUT_OUT, 0.0)


def test_a_ticket_that_was_changed_or_is_of_another_process_is_none(world) -> None:
    """Whoever writes one himself is not believed: neither a name, nor a later end, nor a nonce."""
    begun = world.begin()
    final = world.final(begun, "right")[0].encode()
    whole = read_ticket(begun.sid)
    assert whole is not None
    forger = Tickets(b"k" * 32)
    for message in (whole.message, b"n,,n=ben,r=cnonce", b"none"):
        forged = forger.make(whole.until_ms + 60_000, whole.chance, message, ())
        assert world.exchanges.finish(forged, final, HERE, 0.0) == Refusal(OVER, 0.0)
    assert isinstance(world.exchanges.finish(begun.sid, final, HERE, 0.0), Proven)


def test_an_exchange_is_bound_to_where_and_when_it_began(world) -> None:
    """Another network cannot end it, and nobody can after half a minute."""
    begun = world.begin()
    final = world.final(begun, "right")[0].encode()
    assert world.exchanges.finish(begun.sid, final, ELSEWHERE, 0.0) == Refusal(OVER, 0.0)
    late = EXCHANGE_SECONDS
    assert world.exchanges.finish(begun.sid, final, HERE, late) == Refusal(OVER, late)
    begun = world.begin(now=late)
    world.set_password("ann", "another")
    final = world.final(begun, "right")[0].encode()
    assert world.exchanges.finish(begun.sid, final, HERE, late) == Refusal(OVER, late)


def test_what_does_not_belong_to_the_first_message_is_no_guess(world) -> None:
    """A nonce or a head of another exchange, or no message at all: nobody counts it."""
    for change in (
        lambda it: it.replace("r=cnonce", "r=dnonce"),
        lambda it: it.replace("c=biws", "c=eSws"),
        lambda it: it[:-4],
        lambda it: f"m=x,{it}",
    ):
        begun = world.begin()
        final = change(world.final(begun, "right")[0])
        found = world.exchanges.finish(begun.sid, final.encode(), HERE, 5.0)
        assert isinstance(found, Refusal)
        assert found.reason.startswith("SCRAM: the last message")
        assert found.due == 5.0
    assert world.throttle.failed(HERE, b"x", 5.0, "ann") == 0.1


def test_failed_proofs_are_guesses_and_shut_their_address_out(world) -> None:
    """
    Each one, however alike: also those of exchanges that had begun before. Others log in.
    """
    opened = [world.begin() for _ in range(FAILURES_MAX + 5)]
    told = []
    for begun in opened:
        final = world.final(begun, "wrong")[0]
        told.append(world.exchanges.finish(begun.sid, final.encode(), HERE, 0.0))
    assert [it.reason for it in told[: FAILURES_MAX + 1]] == [WRONG] * (FAILURES_MAX + 1)
    assert [it.due for it in told[:7]] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert {it.reason for it in told[FAILURES_MAX + 1 :]} == {SHUT_OUT}
    assert world.begin(now=1.0) == Refusal(SHUT_OUT, 1.0)
    assert isinstance(world.log_in("right", address=ELSEWHERE, now=1.0), Proven)
    assert isinstance(world.log_in("right", now=61.0), Proven)


def test_a_program_with_the_password_before_shuts_nobody_out(world) -> None:
    """
    It shows the same each time, and is told so: that is no guess, as it would not be one in clear.
    """
    world.set_password("ann", "newer")
    for _ in range(3 * FAILURES_MAX):
        assert world.log_in("right").reason == WRONG
    assert isinstance(world.log_in("newer"), Proven)
    world.set_password("ann", "newest")
    for _ in range(FAILURES_MAX):
        assert world.log_in("right").reason == WRONG
    assert world.log_in("newest") == Refusal(SHUT_OUT, 0.0), "nobody shows the one before that"


def test_whoever_was_right_from_there_goes_on_until_his_name_is_guessed_at(world) -> None:
    """
    Who guesses at other names from the same address does not keep him out, nor anybody whose name
    is not guessed at; who guesses at his has as many as at any other.
    """
    world.set_password("ben", "bens")
    assert isinstance(world.log_in("right"), Proven)
    for _ in range(FAILURES_MAX + 1):
        world.log_in("wrong", "ben")
    assert world.log_in("bens", "ben") == Refusal(SHUT_OUT, 0.0)
    assert isinstance(world.log_in("right", now=1.0), Proven)
    assert world.log_in("wrong", now=2.0).reason == WRONG
    assert world.log_in("wrong", now=2.0).reason == WRONG
    assert world.log_in("wrong", now=2.0).reason == WRONG
    assert world.log_in("right", now=3.0) == Refusal(SHUT_OUT, 3.0)
    world.set_password("eve", "eves")
    assert isinstance(world.log_in("eves", "eve", now=3.0), Proven)


def test_whoever_was_right_long_ago_or_by_another_record_is_shut_out_as_all_are(world) -> None:
    """What is remembered of him ends by itself, and with his password."""
    assert isinstance(world.log_in("right"), Proven)
    late = RIGHT_SECONDS
    for _ in range(FAILURES_MAX + 1):
        world.log_in("wrong", now=late)
    assert world.begin(now=late).reason == SHUT_OUT
    fresh = World()
    fresh.set_password("ann", "right")
    assert isinstance(fresh.log_in("right"), Proven)
    fresh.set_password("ann", "other")
    for _ in range(FAILURES_MAX + 1):
        fresh.log_in("wrong")
    assert fresh.begin().reason == SHUT_OUT


def test_who_guesses_from_all_networks_of_a_site_is_shut_out_but_where_somebody_was_right(
    world,
) -> None:
    """And each of them would be slowed down by nothing: 65,536 times twenty guesses."""
    assert isinstance(world.log_in("right", address="2001:db8:5:ffff::1"), Proven)
    told = [
        world.log_in("wrong", "ben", address=f"2001:db8:5:{number:x}::1").reason
        for number in range(SITE_FAILURES_MAX + 2)
    ]
    assert told == [WRONG] * (SITE_FAILURES_MAX + 1) + [SHUT_OUT]
    assert isinstance(world.log_in("right", address="2001:db8:5:ffff::2"), Proven)
    world.set_password("ben", "bens")
    assert isinstance(world.log_in("bens", "ben", address="2001:db8:5:ffff::3"), Proven)


def test_without_its_pepper_a_node_knows_nobody_and_says_so_alike(world) -> None:
    """As of passwords: set anew they are right again; of an earlier key they are right as well."""
    world.peppers = ()
    assert world.log_in("right").reason == WRONG
    assert world.log_in("right", "cas").reason == WRONG
    world.peppers = (b"q" * 32,)
    assert world.log_in("right").reason == WRONG
    world.peppers = (b"q" * 32, PEPPER)
    assert isinstance(world.log_in("right"), Proven)


def test_what_is_no_first_message_begins_nothing(world) -> None:
    """It is told at once, and is no guess."""
    found = world.exchanges.begin(b"p=tls-unique,,n=ann,r=abc", HERE, 7.0)
    assert found == Refusal("SCRAM: channel binding is not offered here", 7.0)


def test_whoever_begins_however_many_ends_nobodys_exchange(world) -> None:
    """
    From the same address, as behind a NAT, and with the same name: who is far away answers late.

    A hundred of an address were kept, and 180 begin in a second: with 600 ms there and back nobody
    there ended one.
    """
    mine = world.begin()
    for number in range(5_000):
        world.begin(("ann", "ben", f"n{number}")[number % 3])
    final = world.final(mine, "right")[0].encode()
    assert isinstance(world.exchanges.finish(mine.sid, final, HERE, EXCHANGE_SECONDS - 0.1), Proven)


def test_who_begins_costs_no_memory(world) -> None:
    """However long the messages are: there is nothing to be bounded."""
    name, nonce = "n" * 256, "r" * 512
    world.begin(name, nonce=nonce)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(500):
            assert isinstance(world.begin(name, nonce=nonce), Begun)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held - before < 16 * 1024


def test_what_was_used_is_remembered_for_as_long_as_it_would_be_good(world, monkeypatch) -> None:
    """And no more of them than there is room for: nothing opens twice, so others wait."""
    monkeypatch.setattr(scram_exchanges, "USED_COUNT_MAX", 2)
    for now in (0.0, 10.0):
        assert isinstance(world.log_in("right", now=now), Proven)
    assert len(world.exchanges) == 2
    assert world.log_in("right", now=20.0) == Refusal(BUSY, 20.0)
    assert isinstance(world.log_in("right", now=EXCHANGE_SECONDS), Proven)
    assert len(world.exchanges) == 2


def test_those_who_were_right_are_remembered_up_to_a_bound(world, monkeypatch) -> None:
    """The longest ago goes first."""
    monkeypatch.setattr(scram_exchanges, "RIGHT_COUNT_MAX", 3)
    for number in range(5):
        assert isinstance(world.log_in("right", address=f"192.0.2.{number}"), Proven)
    assert len(world.exchanges._right) == 3


def test_nothing_of_an_exchange_shows(world) -> None:
    """Passwords can be tried on what its messages have."""
    begun = world.begin()
    shown = f"{read_ticket(begun.sid)!r} {world.exchanges._exchange(begun.sid, HERE, 0.0)!r}"
    assert "cnonce" not in shown
    assert shown.endswith("_Exchange('ann')")
    assert world.exchanges.name_of(begun.sid) == "ann"
    assert world.exchanges.name_of("nowhere") == ""
    assert world.exchanges.name_of(Tickets(PEPPER).make(0, bytes(18), b"none", ())) == ""
    assert xor(b"\x0f", b"\x01") == b"\x0e"
