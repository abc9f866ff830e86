"""Names of users and roles: what can be one, and the sentence about what cannot."""

from __future__ import annotations

import pytest

from holdfast.errors import AccessError
from holdfast.security.names import NAME_BYTES_MAX, require_name


@pytest.mark.parametrize("name", ["sales", "a", "Zoë", "dom\\user", "me@example", "x" * 128, "a/b"])
def test_a_name_is_taken_as_it_is(name: str) -> None:
    """Nothing is folded or trimmed: what was written is what a login must say."""
    assert require_name(name, "user") == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "has 0"),
        ("x" * (NAME_BYTES_MAX + 1), "has 129"),
        ("é" * 65, "has 130"),
        ("a b", "no spaces"),
        ("a:b", "colons"),
        ("a,b", "commas"),
        ('a"b', "quotation"),
        ("a\n", "control"),
        ("\u200bx", "control"),
        ("-rf", "option"),
    ],
)
def test_what_cannot_be_a_name_is_refused_in_one_sentence(name: str, why: str) -> None:
    """It says of what it was to be the name, and what is wrong with it."""
    with pytest.raises(AccessError, match=why) as caught:
        require_name(name, "role")
    assert "role" in str(caught.value)
    assert "\n" not in str(caught.value)
