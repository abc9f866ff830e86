"""Who may come in at any port of a node."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from scramp import ScramClient

from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.environment.clock import SystemClock
from holdfast.environment.randomness import SystemRandomness
from holdfast.errors import AccessError, AuthenticationError
from holdfast.model.access_records import UserRecord
from holdfast.security.checking import UNNAMED, WRONG, Shown, Waiting
from holdfast.security.principal import ANONYMOUS, Principal
from holdfast.server.access import NodeAccess
from holdfast.server.log_end_users import LogEndUsers
from holdfast.server.node import Node
from holdfast.server.pepper import Pepper
from holdfast.server.settings import ServerSettings
from tests.unit.server.whole_node import config


def made_access(tmp_path, settings: ServerSettings) -> NodeAccess:
    conductor = SimpleNamespace(
        broker=Broker(BrokerSettings()),
        clock=SystemClock(),
        clients=SimpleNamespace(authenticated=None, is_there=None),
        rejudging=SimpleNamespace(still=None, concern=None),
        settings=settings,
        loop=None,
    )
    conductor.store = SimpleNamespace(is_sure=True)
    log_end = LogEndUsers(None, conductor.store, lambda: conductor.broker.state.access)
    pepper = Pepper(b"", (tmp_path,), is_shared=False)
    made = NodeAccess(conductor, pepper, SystemRandomness(), log_end=log_end)
    made.conductor = conductor
    return made


@pytest.fixture
def access(tmp_path):
    made = made_access(tmp_path, ServerSettings())
    yield made
    made.close()


def run(access: NodeAccess, work) -> object:
    async def within() -> object:
        access.conductor.loop = asyncio.get_running_loop()
        return await work()

    return asyncio.run(within())


def add_user(access: NodeAccess, name: str, kept: str, **more: object) -> None:
    values = json.dumps({"roles": ["sales"], "password": kept, **more})
    access.conductor.broker.state.apply(1, [UserRecord(name, values, 1)], 1)


def test_who_has_set_a_password_comes_in_by_it(access) -> None:
    """A real hash, beside the loop; who shows another one is told so, and when it is due."""

    async def work() -> None:
        assert await access.authenticate(Shown("ann", "right")) is ANONYMOUS
        add_user(access, "ann", (await access.keep_password("ann", "right")).password)
        found = await access.authenticate(Shown("ann", "right"))
        assert (found.name, found.roles) == ("ann", frozenset({"sales"}))
        assert await access.authenticate(Shown("ann", "right")) == found
        begun = asyncio.get_running_loop().time()
        with pytest.raises(AuthenticationError, match=WRONG):
            await access.authenticate(Shown("ann", "wrong"))
        assert asyncio.get_running_loop().time() - begun >= 0.1

    run(access, work)


def test_a_password_that_there_cannot_be_is_refused(access) -> None:
    """With the words for who set it."""

    async def work() -> None:
        with pytest.raises(AccessError, match="1 to 1,024 bytes"):
            await access.keep_password("ann", "")

    run(access, work)


def test_who_does_not_wait_any_more_is_told_nothing(access) -> None:
    """Others who show the same are."""

    async def work() -> str:
        add_user(access, "ann", (await access.keep_password("ann", "right")).password)
        one, other = (
            asyncio.create_task(access.authenticate(Shown("ann", "right"))) for _ in range(2)
        )
        await asyncio.sleep(0)
        one.cancel()
        found = await other
        assert one.cancelled()
        return found.name

    assert run(access, work) == "ann"


def test_what_is_found_when_the_loop_is_closed_is_told_nobody(access) -> None:
    """The node has ended."""

    async def work() -> None:
        add_user(access, "ann", "kept")

    run(access, work)
    access.logins._looking.look(
        Waiting(b"", "ann", "right", "kept", None), lambda _: "", lambda *_: pytest.fail("told")
    )
    access._threads._kinds[""].executor.shutdown(wait=True)


def test_a_password_that_was_kept_for_scram_is_shown_by_it(tmp_path) -> None:
    """
    By keys that the threads made; a failed proof is told when it is due, and counts with wrong
    passwords in one. Set without keys, a password ends the offer.
    """
    access = made_access(tmp_path, ServerSettings(scram=True))

    async def log_in(password: str) -> str:
        client = ScramClient(["SCRAM-SHA-256"], "ann", password)
        begun = await access.scram.begin(client.get_client_first().encode(), "192.0.2.1")
        client.set_server_first(begun.message)
        final = client.get_client_final().encode()
        proven = await access.scram.finish(begun.sid, final, "192.0.2.1")
        client.set_server_final(proven.message)
        return proven.principal.name

    async def work() -> None:
        assert not access.scram.is_offered
        kept = await access.keep_password("ann", "right")
        add_user(access, "ann", kept.password, scram=kept.scram)
        assert access.scram.is_offered
        assert await log_in("right") == "ann"
        begun = asyncio.get_running_loop().time()
        with pytest.raises(AuthenticationError, match=WRONG):
            await log_in("wrong")
        assert asyncio.get_running_loop().time() - begun >= 0.1
        with pytest.raises(AuthenticationError, match=WRONG):
            await access.authenticate(Shown("ann", "worse", address="192.0.2.1"))
        assert asyncio.get_running_loop().time() - begun >= 0.3
        add_user(access, "ben", kept.password)
        assert not access.scram.is_offered

    try:
        run(access, work)
    finally:
        access.close()


def test_a_node_asks_its_users_who_they_are(tmp_path) -> None:
    """Its sessions ask the same as its other ports do."""
    parts = Node(config(tmp_path)).parts
    parts.journal.close()
    assert parts.context.check == parts.access.logins.check
    assert parts.access.book.has_users is False
    assert parts.conductor.rejudging.still == parts.access.checking.still


def test_others_are_let_in_once_it_is_known_who_may_come(access) -> None:
    """Or where the operator has said what who shows nothing may (S1)."""
    assert not access.lets_others_in
    access.book.anonymous = Principal("", frozenset({"guest"}))
    assert access.lets_others_in
    access.book.anonymous = None
    add_user(access, "ann", "kept")
    assert access.lets_others_in


def test_as_long_as_nobody_is_known_for_sure_a_login_is_needed(access) -> None:
    """No port lets everybody in because this node has not read of its users yet."""
    assert not access.logins.is_needed
    access.conductor.store.is_sure = False
    assert access.logins.is_needed

    async def work() -> None:
        with pytest.raises(AuthenticationError, match=UNNAMED):
            await access.authenticate(Shown())

    run(access, work)
