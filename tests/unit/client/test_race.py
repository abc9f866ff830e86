"""
Names with several addresses: one that is silent does not keep the others from being used.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from scripted_broker import ScriptedBroker

from holdfast.client import connect, race
from holdfast.client.race import brokers_first, connect_one, in_turns, open_socket
from holdfast.errors import LinkLostError

V4, V6 = socket.AF_INET, socket.AF_INET6
SILENT = (V4, ("192.0.2.1", 1))
"""RFC 5737: nobody has it. Here nothing is sent there: it is silent by `Names`."""


class Names:
    """A name with these addresses, of which the silent one never answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *addresses: race.SocketAddress) -> None:
        self.addresses = addresses
        self.given_up = 0
        monkeypatch.setattr(race, "addresses_of", self.addresses_of)
        monkeypatch.setattr(race, "connect_one", self.connect_one)

    async def addresses_of(self, _host: str, _port: int) -> list[race.SocketAddress]:
        return list(self.addresses)

    async def connect_one(self, family: Any, address: Any) -> socket.socket:
        if (family, address) == SILENT:
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up += 1
        return await connect_one(family, address)


def here(broker: ScriptedBroker) -> race.SocketAddress:
    return (V4, ("127.0.0.1", broker.port))


async def test_a_silent_address_is_got_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of a name's addresses drops packets: the second is used, the first given up."""
    async with ScriptedBroker() as broker:
        names = Names(monkeypatch, SILENT, here(broker))
        uri = f"failover:(stomp://two.example:{broker.port})"
        async with connect(uri, connect_seconds_max=15.0) as connection:
            await connection.send("/queue/a", b"1")
            assert broker.store.bodies("/queue/a") == [b"1"]
        assert names.given_up == 1


async def test_the_next_is_tried_at_once_where_the_first_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the moment that a silent one is given."""
    monkeypatch.setattr(race, "NEXT_SECONDS", 3600.0)
    async with ScriptedBroker() as dead, ScriptedBroker() as broker:
        dead.kill()
        Names(monkeypatch, here(dead), here(broker))
        (await open_socket("two.example", 1)).close()


async def test_why_none_can_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reason is told; a name without addresses, too."""
    async with ScriptedBroker() as one, ScriptedBroker() as two:
        pass
    Names(monkeypatch, here(one), here(two))
    with pytest.raises(OSError, match=f"{one.port}") as raised:
        await open_socket("two.example", 1)
    assert str(two.port) in str(raised.value)
    Names(monkeypatch)
    with pytest.raises(OSError, match="no address"):
        await open_socket("none.example", 1)


async def test_giving_up_closes_what_was_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that is cancelled leaves no attempt behind."""
    names = Names(monkeypatch, SILENT, SILENT)
    monkeypatch.setattr(race, "NEXT_SECONDS", 0.0)
    opening = asyncio.create_task(open_socket("two.example", 1))
    while len(asyncio.all_tasks()) < 4:
        await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    assert opening.cancelled()
    assert names.given_up == 2


async def test_who_is_cancelled_while_the_slower_are_given_up_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever was told that a connect is being cancelled waits for it: it must not go on."""
    told: list[bool] = []

    async def connect_slowly(_family: Any, address: Any) -> socket.socket:
        if address == SILENT[1]:
            try:
                await asyncio.Event().wait()
            finally:
                told.append(opening.cancel())
                await asyncio.sleep(0)
        return socket.socket()

    Names(monkeypatch, SILENT, (V4, ("127.0.0.1", 1)))
    monkeypatch.setattr(race, "connect_one", connect_slowly)
    monkeypatch.setattr(race, "NEXT_SECONDS", 0.0)
    opening = asyncio.create_task(open_socket("two.example", 1))
    await asyncio.wait([opening])
    if not opening.cancelled():
        opening.result().close()
    await asyncio.sleep(0)
    assert told == [opening.cancelled()]


async def test_those_that_were_ready_at_once_are_closed_but_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One is given; nobody would ever close the others."""
    opened: list[socket.socket] = []
    answered = asyncio.Event()

    async def connect_together(_family: Any, _address: Any) -> socket.socket:
        await answered.wait()
        opened.append(socket.socket())
        return opened[-1]

    Names(monkeypatch, SILENT, SILENT)
    monkeypatch.setattr(race, "connect_one", connect_together)
    monkeypatch.setattr(race, "NEXT_SECONDS", 0.0)
    opening = asyncio.create_task(open_socket("two.example", 1))
    while len(asyncio.all_tasks()) < 4:
        await asyncio.sleep(0)
    answered.set()
    given = await opening
    await asyncio.sleep(0)
    assert len(opened) == 2
    assert [each.fileno() >= 0 for each in opened] == [each is given for each in opened]
    given.close()


async def test_families_take_turns() -> None:
    """A whole family may have no route: its addresses are not all tried first."""
    six = [(V6, (name,)) for name in "abc"]
    four = [(V4, (name,)) for name in "de"]
    assert in_turns([*six, *four]) == [six[0], four[0], six[1], four[1], six[2]]
    assert in_turns([]) == []


HERE_4, HERE_6 = (V4, ("127.0.0.1", 1)), (V6, ("::1", 1, 0, 0))
ELSEWHERE = (V6, ("2001:db8::1", 1, 0, 0))


@pytest.mark.parametrize(
    ("found", "order", "with_secret"),
    [
        ([HERE_6, HERE_4], [HERE_4, HERE_6], [HERE_4]),
        ([HERE_4, HERE_6], [HERE_4, HERE_6], [HERE_4]),
        ([HERE_6], [HERE_6], [HERE_6]),
        ([ELSEWHERE, HERE_4], [ELSEWHERE, HERE_4], [ELSEWHERE, HERE_4]),
        ([ELSEWHERE, HERE_6, HERE_4], [HERE_4, ELSEWHERE, HERE_6], [HERE_4, ELSEWHERE]),
        ([], [], []),
    ],
)
def test_localhost_is_where_brokers_listen(
    found: list[race.SocketAddress],
    order: list[race.SocketAddress],
    with_secret: list[race.SocketAddress],
) -> None:
    """And a secret goes nowhere else: at the other family's address anybody can listen."""
    assert brokers_first(found, is_one_loopback=False) == order
    assert brokers_first(found, is_one_loopback=True) == with_secret


async def test_a_passcode_for_localhost_does_not_go_to_who_listens_by_the_other_family(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the broker is stopped neither; by TLS a certificate tells who it is."""
    tried: list[str] = []

    async def connect_none(_family: Any, address: Any) -> socket.socket:
        tried.append(address[0])
        raise OSError("refused")

    Names(monkeypatch, HERE_6, HERE_4)
    monkeypatch.setattr(race, "connect_one", connect_none)
    for uri, more, families in (
        ("stomp://localhost:1", {"login": "ada", "passcode": "a secret"}, ["127.0.0.1"]),
        ("stomp://localhost:1", {}, ["127.0.0.1", "::1"]),
        ("stomp+ssl://localhost:1", {"passcode": "a secret"}, ["127.0.0.1", "::1"]),
    ):
        tried.clear()
        with pytest.raises(LinkLostError):
            await connect(uri, **more)
        assert tried == families
