"""
SCRAM with the other end written by others: the library `scramp`, as client and as server.
"""

from __future__ import annotations

import json
import os
from email.message import Message
from types import SimpleNamespace
from typing import Any

import pytest
from scramp import ScramClient, ScramException, ScramMechanism

from holdfast.admin.by_password import ByPassword
from holdfast.admin.scram_http import Said, read_authorization, write_challenge, write_info
from holdfast.errors import AuthenticationError
from holdfast.model.access_records import UserRecord
from holdfast.security.checking import WRONG, Refusal
from holdfast.security.regulars import Regulars
from holdfast.security.scram_exchanges import Begun, Exchanges, Proven
from holdfast.security.scram_keys import keep_keys
from holdfast.security.throttle import Throttle

PEPPER = b"p" * 32
HERE = "192.0.2.1"
MECHANISM = "SCRAM-SHA-256"
NAMES = ("user", "a=b", "J\u00fcrgen", "\u0627\u0628")
PASSWORDS = ("pencil", "two words, =", "u\u0308ber\u00adall", "\u2168", "\u0627\u0628")


def users(name: str, password: str) -> dict[str, UserRecord]:
    keys = keep_keys(name, password, "$kept", pepper=PEPPER, nonce=b"n" * 16)
    values = {"roles": [], "password": "$kept", "scram": keys}
    return {name: UserRecord(name, json.dumps(values), 1)}


def exchanges(known: dict[str, UserRecord]) -> Exchanges:
    return Exchanges(known.get, lambda: (PEPPER,), Throttle(Regulars()), os.urandom)


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("name", NAMES)
def test_its_client_logs_in_and_takes_our_signature(name: str, password: str) -> None:
    """However the password is typed; and it knows us by what we end with."""
    ours = exchanges(users(name, password))
    client = ScramClient([MECHANISM], name, password)
    begun = ours.begin(client.get_client_first().encode(), HERE, 0.0)
    assert isinstance(begun, Begun)
    client.set_server_first(begun.message)
    proven = ours.finish(begun.sid, client.get_client_final().encode(), HERE, 0.0)
    assert isinstance(proven, Proven)
    client.set_server_final(proven.message)


@pytest.mark.parametrize(("name", "password"), [("user", "pen"), ("nobody", "pencil")])
def test_its_client_with_a_wrong_password_or_name_is_refused(name: str, password: str) -> None:
    """And cannot tell which of both is wrong."""
    ours = exchanges(users("user", "pencil"))
    client = ScramClient([MECHANISM], name, password)
    begun = ours.begin(client.get_client_first().encode(), HERE, 0.0)
    assert isinstance(begun, Begun)
    client.set_server_first(begun.message)
    found = ours.finish(begun.sid, client.get_client_final().encode(), HERE, 0.0)
    assert found == Refusal(WRONG, 0.1)


def test_its_client_does_not_take_the_signature_of_another(monkeypatch) -> None:
    """So what we send is what it looks at."""
    ours = exchanges(users("user", "pencil"))
    client = ScramClient([MECHANISM], "user", "pencil")
    begun = ours.begin(client.get_client_first().encode(), HERE, 0.0)
    assert isinstance(begun, Begun)
    client.set_server_first(begun.message)
    client.get_client_final()
    with pytest.raises(ScramException):
        client.set_server_final("v=" + "A" * 43 + "=")


def test_its_client_that_would_bind_to_a_channel_logs_in_without(monkeypatch) -> None:
    """It knows bindings, and believes that we do not: `y` instead of `n`."""
    ours = exchanges(users("user", "pencil"))
    binding = ("tls-unique", b"channel")
    client = ScramClient([MECHANISM], "user", "pencil", channel_binding=binding)
    first = client.get_client_first()
    assert first.startswith("y,,")
    begun = ours.begin(first.encode(), HERE, 0.0)
    assert isinstance(begun, Begun)
    client.set_server_first(begun.message)
    proven = ours.finish(begun.sid, client.get_client_final().encode(), HERE, 0.0)
    assert isinstance(proven, Proven)
    client.set_server_final(proven.message)


def answered(status: int, **told: str) -> Any:
    headers = Message()
    for name, value in told.items():
        headers[name.replace("_", "-")] = value
    return SimpleNamespace(status=status, headers=headers)


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("name", NAMES)
def test_our_client_logs_in_at_its_server_and_takes_its_signature(name: str, password: str) -> None:
    """With the salt and the count that it chooses; and no other's."""
    mechanism = ScramMechanism(MECHANISM)
    kept = mechanism.make_auth_info(password, iteration_count=5000)
    server = mechanism.make_server({name: kept}.get)
    login = ByPassword(name, password)
    first, header = login.first()
    said = read_authorization(header.encode())
    assert said is not None
    server.set_client_first(said.message.decode())
    challenge = write_challenge(Said("s1", server.get_server_first().encode()))
    shown = login.answer(first, answered(401, WWW_Authenticate=challenge))
    assert shown is not None
    said = read_authorization(shown.authorization.encode())
    assert said is not None
    server.set_client_final(said.message.decode())
    info = write_info(Said("s1", server.get_server_final().encode()))
    login.check(shown, answered(200, Authentication_Info=info))
    other = write_info(Said("s1", b"v=" + b"A" * 43 + b"="))
    with pytest.raises(AuthenticationError, match="has not proven"):
        login.check(shown, answered(200, Authentication_Info=other))
