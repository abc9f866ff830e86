"""Tests of config/store_url.py: what is an address of a database, and that its secret stays one."""

from __future__ import annotations

import pytest

from holdfast.config.store_url import StoreUrl, hidden, parse_store_url, read_store_urls

SECRETS = [
    "postgresql://hf:pa55@h/db",
    "postgresql://hf:pa55@h1:5432,h2/db?sslmode=require",
    "mysql://hf:pa55@h/db",
    "mysql+pymysql://hf:pa%405@h/db",
    "postgresql://h/db?user=hf&password=pa55",
    "postgresql://hf:p:a55@h/db",
    "postgresql://hf:p/a55?#@h/db",
    "postgresql://h/db?sslpassword=pa55",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_password_is_never_shown(text: str) -> None:
    """Neither as a text nor as a value in an error or a log."""
    url = parse_store_url(text)

    for shown in (str(url), repr(url), f"{url}", repr((url,)), hidden(f"cannot reach {text}: no")):
        assert "a55" not in shown
        assert "a%405" not in shown
    assert url.has_password
    assert text == url.text


def test_what_has_no_password_is_shown_as_it_is() -> None:
    """A port is none."""
    text = "postgresql://hf@h:5432/db"

    assert text == str(StoreUrl(text))
    assert not StoreUrl(text).has_password


@pytest.mark.parametrize("text", ["", "db", "oracle://h/db", "/var/lib/db", "postgres:/h"])
def test_what_is_no_address_is_refused_with_what_is(text: str) -> None:
    """A typing mistake is told with the forms that there are."""
    with pytest.raises(ValueError, match="write sqlite:///FILE"):
        parse_store_url(text)


def test_a_refused_address_hides_its_password_too() -> None:
    """The mistake may be in the scheme, or a sign that is missing."""
    for text in ("pgsql://hf:pa55@h/db", "postgresql:hf:pa55@h/db", "postgresql:/hf:pa55@h/db"):
        with pytest.raises(ValueError, match="no address") as told:
            parse_store_url(text)
        assert "pa55" not in str(told.value)


def test_several_are_a_list_or_one_text_with_spaces() -> None:
    """As flags and files give them, and as a variable does."""
    two = ("sqlite:///a", "postgresql://h/db")

    assert read_store_urls(" ".join(two)) == read_store_urls(list(two))
    assert read_store_urls([StoreUrl(two[0])]) == (StoreUrl(two[0]),)
    with pytest.raises(ValueError, match="not a list"):
        read_store_urls(7)
    with pytest.raises(ValueError, match="text"):
        read_store_urls([7])
