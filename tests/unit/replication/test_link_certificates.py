"""
The two certificates of a link, as both ends see them.
"""

from __future__ import annotations

import asyncio

import pytest

from holdfast.replication.link_certificates import Certificates, certificates_of

HERE = Certificates("aa", "bb", frozenset({"b", "localhost"}))


def test_both_ends_must_see_the_same_two() -> None:
    """Whoever stands between shows another one to each, at least to one of them."""
    there = Certificates("bb", "aa")
    assert HERE.are_told(there.as_told())
    assert not HERE.are_told(HERE.as_told())
    for told in (None, "x", {}, {"own": "bb"}, Certificates("cc", "aa").as_told()):
        assert not HERE.are_told(told)


def test_it_must_be_the_member_that_it_says() -> None:
    """By a name in its certificate, and by nothing like it."""
    assert HERE.refusal("b") == ""
    assert HERE.refusal("B") == "its certificate is that of b, localhost, not of B"
    assert Certificates("a", "b").refusal("a") == "its certificate is that of nobody, not of a"


@pytest.mark.parametrize("told", [None, ("127.0.0.1", 1)])
def test_in_clear_there_are_none(told: object) -> None:
    """Whatever a transport answers to what it does not know."""

    class Plain(asyncio.Transport):
        def get_extra_info(self, name: str, default: object = None) -> object:
            return told

    assert certificates_of(Plain()) is None
