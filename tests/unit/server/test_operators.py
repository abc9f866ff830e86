"""The users of a node as its admin port asks for them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from holdfast.admin.logins import AT_A_WITNESS, Users
from holdfast.errors import AuthenticationError
from holdfast.model.access_records import UserRecord
from holdfast.security.checking import Shown
from holdfast.security.principal import Principal
from holdfast.server.operators import Operators


def test_operators_are_the_users_of_the_node() -> None:
    """Found out where clients are, so that failures count together."""
    ann = Principal("ann", frozenset({"admin"}))

    async def authenticate(shown: Shown) -> Principal:
        assert shown.name == "ann"
        return ann

    async def look() -> None:
        log_end.trouble = "damaged"

    records = {"ann": UserRecord("ann", '{"roles": ["admin"]}', 1)}
    log_end = SimpleNamespace(is_sure=True, record_of=records.get, look=look, trouble="")
    logins = SimpleNamespace(is_needed=True)
    access = SimpleNamespace(
        log_end=log_end, logins=logins, authenticate=authenticate, scram="exchanges"
    )
    operators = Operators(access)
    assert operators.users is Users.SOME
    assert (operators.principal("ann"), operators.principal("ben")) == (ann, None)
    assert asyncio.run(operators.authenticate(Shown("ann", "x"))) is ann
    mark = operators.mark_of(ann)
    assert operators.has_mark("ann", mark)
    assert (operators.mark_of(ann._replace(name="ben")), operators.has_mark("ben", mark)) == ("", 0)
    records["ann"] = UserRecord("ann", '{"roles": ["admin"], "life": 9}', 2)
    assert not operators.has_mark("ann", mark)
    logins.is_needed = False
    assert operators.users is Users.NONE
    assert operators.scram == "exchanges"
    log_end.is_sure = False
    assert operators.users is Users.NOT_KNOWN
    assert operators.scram is None, "the log up to its end may have others, without its keys"
    assert asyncio.run(operators.look()) == "damaged"


def test_what_is_heard_of_users_is_waited_for() -> None:
    """By whoever knows how far the log is heard of; where nobody does, there is nothing else."""

    class Age:
        async def catch_up(self) -> str:
            return "it lags"

    access = SimpleNamespace()
    assert asyncio.run(Operators(access, rights_age=Age()).catch_up()) == "it lags"
    assert asyncio.run(Operators(access).catch_up()) == ""


def test_a_witness_knows_nobody_by_what_it_has_not_dropped_yet() -> None:
    """
    It let in who was made a moment ago, and not any more once his entry was dropped; one that is
    made a member with data knows its users as any other does.
    """
    is_witness = True
    records = {"ann": UserRecord("ann", '{"roles": ["admin"]}', 1)}
    log_end = SimpleNamespace(is_sure=False, record_of=records.get)
    access = SimpleNamespace(log_end=log_end, scram="exchanges")
    operators = Operators(access, is_witness=lambda: is_witness)
    assert operators.users is Users.ELSEWHERE
    assert operators.principal("ann") is None
    assert operators.scram is None
    assert asyncio.run(operators.look()) == AT_A_WITNESS
    with pytest.raises(AuthenticationError, match="a witness, which knows no users"):
        asyncio.run(operators.authenticate(Shown("ann", "x")))
    is_witness = False
    assert operators.users is Users.NOT_KNOWN
    assert operators.principal("ann") is not None
