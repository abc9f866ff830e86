"""How somebody shows on the admin port who he is."""

from __future__ import annotations

import asyncio
import base64

import pytest

from holdfast.admin.logins import Nobody, Users, read_login
from holdfast.security.checking import Shown
from holdfast.security.principal import ANONYMOUS


def basic(said: bytes) -> bytes:
    return b"Basic " + base64.b64encode(said)


@pytest.mark.parametrize(
    ("header", "name", "secret"),
    [
        (basic(b"ann:pass"), "ann", "pass"),
        (basic("J\u00fcrgen:\u00fc:b".encode()), "J\u00fcrgen", "\u00fc:b"),
        (basic(b"ann:hf_YW5u.x").replace(b"Basic", b"bAsIc"), "ann", "hf_YW5u.x"),
        (b"Bearer hf_YW5u.x", "", "hf_YW5u.x"),
        (b"bearer  hf_YW5u.x ", "", "hf_YW5u.x"),
    ],
)
def test_a_login_is_read(header: bytes, name: str, secret: str) -> None:
    """By password, by token in its place, by token alone; the scheme in any letters."""
    assert read_login(header, "::1") == Shown(name, secret, address="::1")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"Basic",
        b"Basic ",
        b"Basic %%%",
        basic(b"ann"),
        basic(b"ann:"),
        basic(b":pass"),
        basic(b"\xff\xfe:x"),
        b"Bearer 1234",
        b"Digest username=ann",
        b"Bearer hf_" + b"x" * 13_000,
    ],
)
def test_what_is_no_login_is_none(header: bytes) -> None:
    """It is no error: the answer says what is asked for."""
    assert read_login(header, "::1") is None


def test_where_there_are_no_users_nobody_is_let_in_as_one() -> None:
    """Whatever he shows."""
    nobody = Nobody()
    assert nobody.users is Users.NONE
    assert asyncio.run(nobody.look()) == ""
    assert nobody.principal("ann") is None
    assert asyncio.run(nobody.authenticate(Shown("ann", "x"))) is ANONYMOUS
