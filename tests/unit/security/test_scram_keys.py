"""What is kept of a password for SCRAM."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode

import pytest

from holdfast.errors import AccessError
from holdfast.security.scram_keys import (
    ITERATIONS,
    NOBODYS,
    client_proof,
    is_proof,
    keep_keys,
    keys_of,
    nobodys_values,
    read_kept,
    salt_for,
    salted,
    server_signature,
    unmasked,
)

PEPPER = b"p" * 32
NONCE = b"n" * 16

RFC_AUTH = (
    b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
)


def kept(password: str = "pencil", name: str = "user", pepper: bytes = PEPPER) -> dict[str, object]:
    return {
        "password": "$kept",
        "scram": keep_keys(name, password, "$kept", pepper=pepper, nonce=NONCE),
    }


def test_proof_and_signature_are_those_of_the_standard() -> None:
    """The exchange of RFC 7677, 3."""
    salted_password = salted("pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    assert salted_password is not None
    proof = client_proof(salted_password, RFC_AUTH)
    assert b64encode(proof) == b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    keys = keys_of(salted_password)
    signature = server_signature(keys, RFC_AUTH)
    assert b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert is_proof(keys, RFC_AUTH, proof)
    assert not is_proof(keys, RFC_AUTH + b"x", proof)
    assert not is_proof(unmasked(NOBODYS, "user", PEPPER), RFC_AUTH, proof)


def test_keys_are_found_again_with_the_pepper_and_by_the_name_only() -> None:
    """Whoever reads the log has neither the keys nor anything to try passwords on."""
    values = kept()
    found = read_kept(values)
    assert found is not None
    assert (found.salt, found.iterations, found.before) == (
        salt_for("user", PEPPER),
        ITERATIONS,
        None,
    )
    salted_password = salted("pencil", found.salt, found.iterations)
    assert salted_password is not None
    keys = keys_of(salted_password)
    assert unmasked(found.masked, "user", PEPPER) == keys
    assert unmasked(found.masked, "other", PEPPER) != keys
    assert unmasked(found.masked, "user", b"q" * 32) != keys
    text = json.dumps(values)
    for secret in (keys.stored, keys.server):
        assert b64encode(secret).decode() not in text
        assert secret.hex() not in text
    shown = repr((found, keys))
    assert not any(it in shown for it in (repr(keys.stored), repr(found.masked.keys)))


def test_what_is_read_for_who_does_not_exist_is_like_a_users() -> None:
    """Else the time that reading takes would tell him apart; there is nothing in it to be right."""
    found = read_kept(nobodys_values())
    assert found is not None
    assert found.masked == found.before == NOBODYS
    users = kept(pepper=b"q" * 32)["scram"]
    assert {key: len(str(it)) for key, it in users.items()} == {
        key: len(str(it)) for key, it in nobodys_values()["scram"].items() if key != "before"
    }


def test_a_salt_is_a_names_for_ever_and_a_pad_is_used_once() -> None:
    """So nobody learns by the salt that there is such a user, or that he has another password."""
    one, other = kept("one")["scram"], kept("other")["scram"]
    assert one["salt"] == other["salt"] != kept(name="ann")["scram"]["salt"]
    assert one["salt"] != kept(pepper=b"q" * 32)["scram"]["salt"]
    again = keep_keys("user", "one", "$kept", pepper=PEPPER, nonce=b"m" * 16)
    assert again["keys"] != one["keys"]


@pytest.mark.parametrize(
    ("name", "password", "said"),
    [
        ("\u00aann", "pencil", "written otherwise there"),
        ("user", "pen\u0007cil", "has a character that SCRAM cannot show"),
        ("user", "\U0001f600", "has a character that SCRAM cannot show"),
        ("user", "\u00ad", "has a character that SCRAM cannot show"),
    ],
)
def test_who_could_not_log_in_by_it_is_refused_when_it_is_set(
    name: str, password: str, said: str
) -> None:
    """And hears why; the password is not in the sentence."""
    with pytest.raises(AccessError, match=said) as refused:
        keep_keys(name, password, "$kept", pepper=PEPPER, nonce=NONCE)
    assert password not in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        {"of": "other"},
        {"salt": "AA=="},
        {"salt": None},
        {"keys": "A" * 88},
        {"keys": ["x"]},
        {"nonce": ""},
        {"iterations": 4095},
        {"iterations": 1_000_001},
        {"iterations": "16384"},
        {"iterations": True},
    ],
)
def test_what_cannot_be_read_is_none(change: dict[str, object]) -> None:
    """Of another version, of another password, or by hand: nobody is let in by it."""
    values = kept()
    assert read_kept({**values, "scram": {**values["scram"], **change}}) is None


def test_keys_of_no_password_are_none() -> None:
    """Nor is what is no object."""
    values = kept()
    assert read_kept({"scram": values["scram"]}) is None
    assert read_kept({"password": "$kept", "scram": "x"}) is None
    assert read_kept({"password": "$kept"}) is None
    odd = {**values, "scram": {**values["scram"], "before": {"nonce": "x"}}}
    found = read_kept(odd)
    assert found is not None
    assert found.before is None
