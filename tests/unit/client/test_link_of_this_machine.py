"""Links to this machine in clear: who is told a passcode there."""

from __future__ import annotations

import asyncio

import pytest
from scripted_broker import ScriptedBroker

from holdfast.client import connect
from holdfast.environment import told_in_clear
from holdfast.environment.node_users import VARIABLE
from holdfast.errors import ConfigError

EVE = 12_345


class Machine:
    """One whose kernel says that these users have the other end of every connection."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.users: frozenset[int] | None = frozenset({EVE})
        self.asked: list[tuple[str, int]] = []
        monkeypatch.setattr(told_in_clear, "answerers_users", self.answerers_users)
        monkeypatch.delenv(VARIABLE, raising=False)

    def answerers_users(
        self, there: tuple[str, int], _here: tuple[str, int]
    ) -> frozenset[int] | None:
        self.asked.append(there)
        return self.users


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


async def test_a_person_who_listens_here_is_not_told_a_passcode(machine: Machine) -> None:
    """Nothing at all is sent to him, also where the way to other machines is trusted."""
    machine.users, machine.asked = frozenset({EVE}), []
    async with ScriptedBroker() as broker:
        uri = f"stomp://127.0.0.1:{broker.port}"
        for more in ({}, {"plain_without_tls": True}):
            with pytest.raises(ConfigError, match=f"user {EVE} of this machine"):
                await connect(uri, login="ada", passcode="a secret", **more)
        assert all(it.received == b"" for it in broker.connections)
        assert machine.asked == [("127.0.0.1", broker.port)] * 2
        async with connect(uri):  # Without a passcode there is nothing to keep.
            pass
        machine.users = frozenset({0, EVE})
        with pytest.raises(ConfigError):
            await connect(uri, login="ada", passcode="a secret")
        machine.users = frozenset({0})
        async with connect(uri, login="ada", passcode="a secret"):
            pass


async def test_who_sits_where_a_broker_was_is_told_nothing_and_the_broker_is_waited_for(
    machine: Machine,
) -> None:
    """A program that runs comes back by itself, once the port is its broker's again."""
    async with ScriptedBroker() as broker:
        machine.users = frozenset({0})
        uri = f"failover:(stomp://127.0.0.1:{broker.port})?initialReconnectDelay=1"
        async with connect(uri, login="ada", passcode="a secret") as connection:
            machine.users = frozenset({EVE})
            count, taken = len(machine.asked), len(broker.connections)
            broker.hang_up()
            while len(machine.asked) < count + 3:
                await asyncio.sleep(0)
            assert all(it.received == b"" for it in broker.connections[taken:])
            machine.users = frozenset({0})
            await connection.send("/queue/a", b"1")
        assert broker.store.bodies("/queue/a") == [b"1"]
