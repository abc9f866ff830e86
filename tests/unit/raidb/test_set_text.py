"""How a set stands in a lease row."""

from __future__ import annotations

import pytest

from holdfast.errors import MirrorError
from holdfast.mirrors.mirror_set import Acceptance, MirrorSet, Number
from holdfast.raidb.member import KnownSet
from holdfast.raidb.set_text import decode, encode

WHOLE = KnownSet(
    MirrorSet(
        "5" * 32,
        (("a", "active"), ("b", "failed"), ("c", "disabled")),
        Number(7, 3),
        before=(frozenset({"a", "b"}), frozenset({"a", "c"})),
        promised=9,
        accepted=(Acceptance("x", Number(2, 1)),),
    ),
    (("a", "postgresql://hf@db1:5432/log"), ("b", "sqlite:////b.db")),
)


def test_what_is_written_is_read_again() -> None:
    """Everything that a set says comes back as it was."""
    assert decode(encode(WHOLE), "here") == WHOLE


def test_an_empty_text_is_no_set() -> None:
    """A database that is the only one, or new."""
    assert decode("", "here") is None


@pytest.mark.parametrize("text", ["{", "[]", "{}", "7", encode(WHOLE).replace('"set"', '"sat"')])
def test_a_text_that_was_changed_by_hand_is_refused(text: str) -> None:
    """The sentence names the place."""
    with pytest.raises(MirrorError, match=r"members of holdfast_lease in sqlite:///x\.db"):
        decode(text, "sqlite:///x.db")
