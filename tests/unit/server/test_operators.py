"""The users of a node as its admin port asks for them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from holdfast.security.checking import Shown
from holdfast.security.principal import Principal
from holdfast.server.operators import Operators


def test_operators_are_the_users_of_the_node() -> None:
    """Found out where clients are, so that failures count together."""
    ann = Principal("ann")

    async def authenticate(shown: Shown) -> Principal:
        assert shown.name == "ann"
        return ann

    book = SimpleNamespace(principal={"ann": ann}.get)
    logins = SimpleNamespace(is_needed=True)
    operators = Operators(SimpleNamespace(book=book, logins=logins, authenticate=authenticate))
    assert operators.has_users
    assert (operators.principal("ann"), operators.principal("ben")) == (ann, None)
    assert asyncio.run(operators.authenticate(Shown("ann", "x"))) is ann
