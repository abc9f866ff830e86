"""Tokens: whose they are, and what is kept of them."""

from __future__ import annotations

import pytest

from holdfast.security.tokens import (
    digest_of,
    is_any_token,
    is_token,
    is_web_token,
    make_token,
    owner_of,
)


@pytest.mark.parametrize("name", ["ann", "zoë", "a", "a.b/c", "x" * 128])
def test_a_token_says_whose_it_is(name: str) -> None:
    """In letters that need no quotes in a URL, a header or a shell."""
    token = make_token(name, bytes(range(32)))
    assert owner_of(token) == name
    assert is_token(token)
    assert token.isascii()
    assert not set(token) - set("hf_.-") - set(map(chr, range(48, 123)))


def test_only_all_of_a_token_has_its_digest() -> None:
    """One letter less, or another one, is another token."""
    token = make_token("ann", bytes(32))
    assert len(digest_of(token)) == 64
    assert len({digest_of(it) for it in (token, token[:-1], make_token("ann", b"\1" * 32))}) == 3
    assert "ann" not in digest_of(token)


@pytest.mark.parametrize("token", ["hf_", "hf_x", "hf_!.y", "hf_/w.y", "hf_\udcff.y", "hf_abcde.y"])
def test_what_is_no_token_is_nobodys(token: str) -> None:
    """It breaks nothing, whatever is shown."""
    assert owner_of(token) in (None, "")
    digest_of(token)


def test_a_password_is_not_taken_for_a_token() -> None:
    """By how it begins."""
    assert not is_token("hunter2")
    assert not is_any_token("hunter2")


@pytest.mark.parametrize("secret", ["eyJhbGciOiJSUzI1NiJ9.e30.c2ln", "eyJ.."])
def test_the_token_of_an_issuer_is_known_by_how_it_looks(secret: str) -> None:
    """Three parts, of which the first is an object of JSON: it is no token of ours."""
    assert is_web_token(secret)
    assert is_any_token(secret)
    assert not is_token(secret)


@pytest.mark.parametrize("secret", ["", "eyJ", "eyJ.a", "eyJ.a.b.c", "hf_eyJ.a.b", "a.b.c"])
def test_what_looks_otherwise_is_none_of_an_issuer(secret: str) -> None:
    """A password may have points in it."""
    assert not is_web_token(secret)
