"""The users of a node as its admin port asks for them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from holdfast.admin.logins import Users
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
    logins.is_needed = False
    assert operators.users is Users.NONE
    assert operators.scram == "exchanges"
    log_end.is_sure = False
    assert operators.users is Users.NOT_KNOWN
    assert operators.scram is None, "the log up to its end may have others, without its keys"
    assert asyncio.run(operators.look()) == "damaged"
