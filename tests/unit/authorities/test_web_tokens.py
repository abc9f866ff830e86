"""JSON Web Tokens: checked by what the operator wrote, whatever a token says of itself (S16)."""

from __future__ import annotations

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from holdfast.authorities.key_sets import KeySet
from holdfast.authorities.options import JwtOptions
from holdfast.authorities.web_tokens import TOKEN_BYTES_MAX, WebTokens
from holdfast.errors import AuthenticationError
from holdfast.security.authority import Vouched

RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
EC_KEY, OTHER_KEY = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
ISSUER, AUDIENCE = "https://issuer.example/", "holdfast"
SETS = {
    "keys": [
        {**json.loads(RSAAlgorithm.to_jwk(RSA_KEY.public_key())), "kid": "rsa", "alg": "RS256"},
        {**json.loads(ECAlgorithm.to_jwk(EC_KEY.public_key())), "kid": "ec"},
    ]
}


def tokens(**more: Any) -> WebTokens:
    """What a node has that believes one issuer."""
    made = JwtOptions(name="idp", issuer=ISSUER, audience=AUDIENCE, keys="x", **more)
    return WebTokens([made], [KeySet(made, fetch=lambda _options: json.dumps(SETS).encode())])


def claims(**more: Any) -> dict[str, Any]:
    """What a good token says; None takes a claim out."""
    made = {"iss": ISSUER, "aud": AUDIENCE, "sub": "anna", "exp": int(time.time()) + 60, **more}
    return {name: value for name, value in made.items() if value is not None}


def signed(
    key: Any = EC_KEY, algorithm: str = "ES256", key_id: str | None = "ec", **more: Any
) -> str:
    """A token."""
    headers = {} if key_id is None else {"kid": key_id}
    return jwt.encode(claims(**more), key, algorithm=algorithm, headers=headers)


@pytest.mark.parametrize(
    "make",
    [
        lambda: signed(roles=["orders", "viewer"]),
        lambda: signed(RSA_KEY, "RS256", "rsa", roles="orders viewer"),
        lambda: signed(key_id=None, roles=["orders", "viewer"]),
        lambda: signed(aud=["others", AUDIENCE], roles=["orders", "viewer", 7, "no name", ""]),
    ],
)
def test_a_good_token_is_whom_it_says_with_its_roles(make: Callable[[], str]) -> None:
    """By either kind of key, with a list or a line of roles, to one audience or several."""
    shown = make()
    found = tokens().look("", shown)
    assert isinstance(found, Vouched)
    assert (found.name, found.roles) == ("anna", {"orders", "viewer"})
    assert time.time() * 1000 < found.expires_ms <= (time.time() + 71) * 1000
    assert tokens().look("anna", shown) is not None
    assert tokens().look("bert", shown) is None


def _letters(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _none() -> str:
    parts = ({"alg": "none", "kid": "ec"}, claims())
    return ".".join((*(_letters(json.dumps(it).encode()) for it in parts), ""))


def _mixed() -> str:
    """The public key taken for a shared secret, which is what mixing up algorithms comes to."""
    public = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    parts = ({"alg": "HS256", "kid": "rsa"}, claims())
    text = ".".join(_letters(json.dumps(it).encode()) for it in parts)
    return f"{text}.{_letters(hmac.digest(public, text.encode(), 'sha256'))}"


BAD: dict[str, Callable[[], str]] = {
    "no signature": _none,
    "public key as a secret": _mixed,
    "another key": lambda: signed(OTHER_KEY),
    "key of another kind": lambda: signed(EC_KEY, "ES256", "rsa"),
    "not pinned": lambda: signed(RSA_KEY, "RS512", "rsa"),
    "unknown key": lambda: signed(key_id="gone"),
    "to others": lambda: signed(aud="others"),
    "to nobody": lambda: signed(aud=None),
    "of others": lambda: signed(iss="https://others.example/"),
    "over": lambda: signed(exp=int(time.time()) - 11),
    "without end": lambda: signed(exp=None),
    "not yet": lambda: signed(nbf=int(time.time()) + 60),
    "issued tomorrow": lambda: signed(iat=int(time.time()) + 86_400),
    "no name": lambda: signed(sub=None),
    "no name's name": lambda: signed(sub="a\nb"),
    "end of another kind": lambda: signed(exp="soon"),
    "signature cut": lambda: signed()[:-8],
    "a word": lambda: "eyJ.x.y",
    "objects in objects": lambda: "eyJ" + "W1tb" * 1_000 + ".e30.e30",
    "too long": lambda: signed(more="x" * TOKEN_BYTES_MAX),
}


@pytest.mark.parametrize("make", list(BAD.values()), ids=list(BAD))
def test_whatever_is_wrong_with_a_token_it_lets_nobody_in(make: Callable[[], str]) -> None:
    """None of them is an error, which would tell more than a refusal."""
    assert tokens().look("", make()) is None


def test_a_secret_that_both_sides_have_is_no_key_even_if_it_is_allowed() -> None:
    """Should the reading of settings ever let it through."""
    assert tokens(algorithms=("HS256", "none")).look("", _mixed()) is None
    assert tokens(algorithms=("HS256", "none")).look("", _none()) is None


def test_headers_that_must_be_understood_are_not() -> None:
    """What a token calls critical would change what it means (RFC 7515 section 4.1.11)."""
    shown = jwt.encode(claims(), EC_KEY, "ES256", headers={"kid": "ec", "crit": ["exp"], "exp": 1})
    assert tokens().look("", shown) is None


def test_names_and_roles_are_where_the_operator_says() -> None:
    """As issuers have them: below objects, or under a name that has dots itself."""
    shown = signed(
        preferred_username="anna@example.org",
        realm_access={"roles": ["orders"]},
        **{"https://example.org/roles": ["bills"]},
    )
    deep = tokens(name_claim="preferred_username", roles_claim="realm_access.roles")
    assert deep.look("", shown) is not None
    found = deep.look("", shown)
    assert found is not None
    assert (found.name, found.roles) == ("anna@example.org", {"orders"})
    flat = tokens(roles_claim="https://example.org/roles").look("", shown)
    assert flat is not None
    assert flat.roles == {"bills"}
    for place in ("sub.roles", "exp", "nowhere.at.all"):
        none = tokens(roles_claim=place).look("", shown)
        assert none is not None
        assert none.roles == frozenset()


def test_only_what_looks_like_a_token_is_taken_for_one() -> None:
    """A password with dots goes on being a password."""
    assert tokens().recognises("", signed(), is_known=False)
    for other in ("hf_YQ.x", "a.b.c", "eyJ", "eyJ.x", ""):
        assert not tokens().recognises("anna", other, is_known=True)


def test_an_issuer_that_cannot_be_asked_is_no_refusal() -> None:
    """Whoever logs in is told to try again."""

    def fetch(_options: JwtOptions) -> bytes:
        raise OSError("no route")

    made = JwtOptions(name="idp", issuer=ISSUER, audience=AUDIENCE, keys="x")
    with pytest.raises(AuthenticationError, match="try again"):
        WebTokens([made], [KeySet(made, fetch=fetch)]).look("", signed())
