"""The bodies of requests about users and grants."""

from __future__ import annotations

import json

import pytest

from holdfast.admin.bodies import BodyError, read_body
from holdfast.admin.user_bodies import AddUser, ChangeGrant, MakeToken, WithPassword


def test_a_password_shows_nowhere() -> None:
    """Neither in what is printed of a body, nor in what is said of one that cannot be read."""
    read = read_body(b'{"name":"ann","password":"hunter2","kept":"k3pt"}', AddUser)
    assert (read.password, read.kept) == ("hunter2", "k3pt")
    assert "hunter2" not in repr(read)
    assert "k3pt" not in repr(read)
    for body in (b'{"name":1,"password":"hunter2"}', b'{"name":"a","x":"hunter2"}', b'"hunter2"'):
        with pytest.raises(BodyError) as refused:
            read_body(body, WithPassword)
        assert "hunter2" not in f"{refused.value}{refused.value.__cause__}"


def test_everything_has_a_bound() -> None:
    """What a stranger sends is looked at before anything is done with it."""
    for kind, body in [
        (AddUser, {"name": ""}),
        (AddUser, {"name": "n" * 129}),
        (AddUser, {"name": "a", "roles": ["r"] * 101}),
        (AddUser, {"name": "a", "kept": "k" * 257}),
        (MakeToken, {"name": "a", "token": "t", "expires_seconds": 10**12}),
        (ChangeGrant, {"role": "a", "rights": "read", "pattern": "p" * 4097}),
    ]:
        with pytest.raises(BodyError):
            read_body(json.dumps(body).encode(), kind)
