"""Names and passwords in the form in which SASL compares them."""

from __future__ import annotations

import pytest

from holdfast.security.saslprep import prepare


@pytest.mark.parametrize(
    ("typed", "compared"),
    [
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("u\u0308", "\u00fc"),
        ("\u0627\u0628", "\u0627\u0628"),
        ("", ""),
        ("two words, =", "two words, ="),
    ],
)
def test_what_looks_alike_is_alike(typed: str, compared: str) -> None:
    """The examples of RFC 4013, 3, and what keyboards differ in."""
    assert prepare(typed) == compared


@pytest.mark.parametrize(
    "typed",
    [
        "\u0007",
        "a\nb",
        "\u0627\u0031",
        "\u0627b\u0627",
        "a\u0627",
        "\ue000x",
        "\ud800",
        "\U0001f600",
        "\ufffd\u00e9",
        "\u0221",
        "\u200e\u00e9",
    ],
)
def test_what_cannot_be_compared_is_none(typed: str) -> None:
    """Control characters, both directions at once, what Unicode 3.2 has not (RFC 4013, 2.3-2.5)."""
    assert prepare(typed) is None
