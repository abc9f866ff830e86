"""
Users and grants of a node that runs in this process, asked for and changed by its operators.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from types import SimpleNamespace

import pytest

from holdfast.admin.person import Person, act_for
from holdfast.admin.user_status import TokenStatus, UserStatus
from holdfast.errors import AccessError, AuthenticationError, NotLeaderError
from holdfast.model.access_records import AuditRecord
from holdfast.model.destination import parse_sources
from holdfast.model.format_level import ACCESS_LEVEL
from holdfast.security.checking import Shown
from holdfast.security.grants import Right, read_grant
from holdfast.security.roles import Duty
from holdfast.security.tokens import CHANCE_BYTES, digest_of, make_token
from holdfast.server.node import Node
from holdfast.server.role import Role
from tests.unit.server.whole_node import run

PASSWORD = "correct horse battery staple"
ROOT = Person("root", "192.0.2.7", Duty.GOVERN)


def manned(tmp_path, work):
    """Do something with a node's users as `root`, once its log may hold them."""

    async def begin(node: Node):
        while node.parts.broker.state.format_level < ACCESS_LEVEL:
            await asyncio.sleep(0)
        act_for(ROOT)
        return await work(node, node.administration.users)

    found, code = run(tmp_path, begin)
    assert code == 0
    return found


def shown(name: str, secret: str) -> Shown:
    return Shown(name, secret, address="192.0.2.8")


def test_a_user_is_let_in_by_his_password_until_he_has_another(tmp_path) -> None:
    """
    And has the roles that he was given last. Two of one name there cannot be.
    """

    async def work(node: Node, users) -> None:
        kept = await users.keep_password("ann", PASSWORD)
        assert await users.add("ann", ["sales", "viewer"], kept) == 0
        found = await node.parts.access.authenticate(shown("ann", PASSWORD))
        assert (found.name, found.roles) == ("ann", {"sales", "viewer"})
        assert next(iter(users.users())).has_password
        with pytest.raises(AccessError, match="a user 'ann' already"):
            await users.add("ann", [], None)
        await users.set_roles("ann", ["other"])
        found = await node.parts.access.authenticate(shown("ann", PASSWORD))
        assert found.roles == {"other"}
        await users.set_password("ann", await users.keep_password("ann", "another"))
        with pytest.raises(AuthenticationError):
            await node.parts.access.authenticate(shown("ann", PASSWORD))
        assert (await node.parts.access.authenticate(shown("ann", "another"))).name == "ann"

    manned(tmp_path, work)


def test_a_token_opens_until_it_ends_and_stands_nowhere(tmp_path) -> None:
    """
    Only its digest is kept; ended by its name it opens nothing any more.
    """

    async def work(node: Node, users) -> None:
        await users.add("ci", [], None)
        token = make_token("ci", b"t" * CHANCE_BYTES)
        await users.make_token("ci", "build", digest_of(token), 60)
        assert (await node.parts.access.authenticate(shown("", token))).name == "ci"
        (status,) = users.users()
        expected = TokenStatus(name="build", expires_ms=status.tokens[0].expires_ms)
        assert status == UserStatus(name="ci", tokens=(expected,), revision=status.revision)
        wall_ms = node.parts.clock.wall_microseconds() // 1000
        assert 0 < expected.expires_ms - wall_ms <= 60_000
        assert token not in node.parts.broker.state.access.users["ci"].values
        with pytest.raises(AccessError, match="no token 'other'; there are: build"):
            await users.end_token("ci", "other")
        await users.end_token("ci", "build")
        with pytest.raises(AuthenticationError):
            await node.parts.access.authenticate(shown("", token))

    manned(tmp_path, work)


def test_the_last_user_goes_only_where_that_is_meant(tmp_path) -> None:
    """
    Without users everybody would be let in; two at once cannot get round it.
    """

    async def work(_node: Node, users) -> None:
        for name in ("ann", "ben"):
            await users.add(name, [], None)
        both = [users.remove(name, is_last_meant=False) for name in ("ann", "ben")]
        answers = await asyncio.gather(*both, return_exceptions=True)
        assert [type(it) for it in answers] == [int, AccessError]
        with pytest.raises(AccessError, match="no user 'ann'"):
            await users.remove("ann", is_last_meant=False)
        assert [it.name for it in users.users()] == ["ben"]
        await users.remove("ben", is_last_meant=True)
        assert list(users.users()) == []

    manned(tmp_path, work)


def test_it_is_said_which_grants_decide(tmp_path) -> None:
    """
    For each right, of one destination and of a wildcard; nobody has what was granted to no role.
    """

    async def work(_node: Node, users) -> None:
        await users.add("ann", ["sales"], None)
        grants = [read_grant("sales", "read", "queue://A.>"), read_grant("x", "write", "A.b")]
        for grant in grants:
            await users.grant(grant)
        assert await users.grant(read_grant("sales", "write", "queue://A.>")) == {
            Right.READ,
            Right.WRITE,
        }
        (written,) = parse_sources("/queue/A.b")
        decided = {it.right: it for it in users.decisions("ann", written)}
        assert [it.is_allowed for it in decided.values()] == [True, True, False]
        assert [it.pattern for it in decided["read"].grants] == ["queue://A.>"]
        (wild,) = parse_sources("/queue/>")
        assert not any(it.is_allowed for it in users.decisions("ann", wild))
        assert await users.revoke(read_grant("sales", "read,write", "A.>")) == set()
        assert [it.role for it in users.grants()] == ["x"]
        with pytest.raises(AccessError, match="was not granted"):
            await users.revoke(grants[0])
        for unknown in (
            partial(users.decisions, "cas", written),
            partial(users.set_roles, "cas", []),
        ):
            with pytest.raises(AccessError, match="no user 'cas'"):
                found = unknown()
                await found

    manned(tmp_path, work)


def test_every_change_has_its_record_in_its_entry_and_none_has_a_secret(tmp_path) -> None:
    """
    Who, from where, what and to whom; what was refused has none (S14, S15).
    """
    told: list[tuple[str, ...]] = []

    async def work(node: Node, users) -> str:
        trail = node.administration.trail
        trail._file = SimpleNamespace(
            note=lambda fields, _kind: told.append(tuple(fields.values()))
        )
        receipts = node.parts.broker.receipts
        records: list[AuditRecord] = []
        add = receipts.add_records

        def noticed(_self, given) -> None:
            given = list(given)
            records.extend(it for it in given if isinstance(it, AuditRecord))
            add(given)

        type(receipts).add_records = noticed
        try:
            kept = await users.keep_password("ann", PASSWORD)
            await users.add("ann", ["b", "a"], kept)
            await users.set_password("ann", kept)
            token = make_token("ann", b"t" * CHANCE_BYTES)
            await users.make_token("ann", "ci", digest_of(token), 0)
            await users.grant(read_grant("a", "write,read", "A.>"))
            with pytest.raises(AccessError):
                await users.end_token("ann", "x")
        finally:
            type(receipts).add_records = add.__func__
        said = [(it.who, it.source, it.action, it.object, it.outcome) for it in records]
        assert said == [
            ("root", "admin 192.0.2.7", "add user", "ann a,b", "done"),
            ("root", "admin 192.0.2.7", "set password", "ann", "done"),
            ("root", "admin 192.0.2.7", "make token", "ann ci", "done"),
            ("root", "admin 192.0.2.7", "grant", "a read,write queue://A.>", "done"),
        ]
        return f"{kept} {token}"

    secrets = manned(tmp_path, work).split()
    assert [line[3:5] for line in told[:2]] == [("add user", "ann a,b"), ("set password", "ann")]
    assert told[-1] == (
        "root",
        "admin",
        "192.0.2.7",
        "end token",
        "ann x",
        "refused: there is no token 'x'; there are: ci",
    )
    written = json.dumps(told)
    assert not any(secret in written for secret in [*secrets, PASSWORD])
    for path in tmp_path.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert PASSWORD.encode() not in data
        assert secrets[1].encode() not in data


def test_another_node_changes_nothing_and_notes_nothing(tmp_path, monkeypatch) -> None:
    """
    The leader does, for whom the request is passed on.
    """

    async def work(node: Node, users) -> None:
        monkeypatch.setattr(Role, "is_serving", False)
        with pytest.raises(NotLeaderError):
            await users.add("ann", [], None)
        monkeypatch.undo()
        assert list(users.users()) == []

    manned(tmp_path, work)
