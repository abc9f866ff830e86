"""Verdicts on what clients write: each part by itself, wildcards whole, temporaries their own."""

from __future__ import annotations

import pytest

from holdfast.errors import ForbiddenError
from holdfast.model.destination import Destination, Kind, parse_destinations, parse_sources
from holdfast.security.grants import Access, Grants, Right, read_grant
from holdfast.security.principal import ANONYMOUS, Principal
from holdfast.security.verdicts import hint, judge, require

ME = Principal("me", frozenset({"sales"}))
MAY = Grants(
    [
        read_grant("sales", "read,write", "queue://ORDERS.>"),
        read_grant("sales", "read", "topic://PRICES.*"),
    ]
).of(ME.roles)


def test_each_part_of_a_composite_is_judged() -> None:
    """Whoever may send to one of several may not for that send to the others."""
    require(ME, MAY, Right.WRITE, parse_destinations("ORDERS.A,ORDERS.B"))
    with pytest.raises(ForbiddenError, match="may not write /queue/PAYMENTS"):
        require(ME, MAY, Right.WRITE, parse_destinations("ORDERS.A,PAYMENTS"))
    with pytest.raises(ForbiddenError, match=r"/topic/PRICES\.A"):
        require(ME, MAY, Right.WRITE, parse_destinations("ORDERS.A,topic://PRICES.A"))


@pytest.mark.parametrize(
    ("written", "is_allowed"),
    [
        ("/queue/ORDERS.>", True),
        ("/queue/ORDERS.*", True),
        ("/queue/*", False),
        ("/queue/>", False),
        ("/topic/PRICES.*", True),
        ("/topic/PRICES.>", False),
        ("/queue/ORDERS.x>", False),
        ("/queue/ORDERS.>.*", False),
    ],
)
def test_a_wildcard_is_judged_as_a_whole(written: str, is_allowed: bool) -> None:
    """Also one that no pattern can be: it is refused, and breaks nothing."""
    (source,) = parse_sources(written)
    assert judge(MAY, Right.READ, source).is_allowed is is_allowed


def test_the_verdict_names_the_grants_that_allow() -> None:
    """That is what `access` shows."""
    verdict = judge(MAY, Right.READ, Destination(Kind.QUEUE, "ORDERS.A"))
    assert [str(it) for it in verdict.grants] == ["sales may read,write queue://ORDERS.>"]
    verdict = judge(MAY, Right.READ, Destination(Kind.QUEUE, "ORDERS.*"))
    assert [str(it) for it in verdict.grants] == ["sales may read,write queue://ORDERS.>"]
    assert judge(MAY, Right.ADMIN, Destination(Kind.QUEUE, "ORDERS.A")).grants == ()


@pytest.mark.parametrize("kind", [kind for kind in Kind if "temp" in kind.value])
def test_temporary_destinations_need_no_grant(kind: Kind) -> None:
    """An answer may go wherever it was asked for; whose they are is for others to say."""
    nothing = Access([])
    written = Destination(kind, "anything.*")
    assert judge(nothing, Right.READ, written).is_allowed
    assert judge(nothing, Right.WRITE, written).is_allowed
    assert not judge(nothing, Right.ADMIN, written).is_allowed


def test_a_refusal_says_who_may_not_do_what() -> None:
    """In one sentence, shortened if the name is long, and with a code of its own."""
    with pytest.raises(ForbiddenError) as caught:
        require(ME, MAY, Right.READ, [Destination(Kind.QUEUE, "x" * 500)])
    assert str(caught.value).startswith("user 'me' may not read /queue/xxx")
    assert len(str(caught.value)) < 300
    assert caught.value.code == "forbidden"
    with pytest.raises(ForbiddenError, match="who is not logged in may not read"):
        require(ANONYMOUS, MAY, Right.READ, [Destination(Kind.QUEUE, "A")])


@pytest.mark.parametrize(
    ("who", "may", "said"),
    [
        (Principal("me", frozenset({"b", "a"})), Access([]), "nothing at all was granted to a, b"),
        (Principal("me"), Access([]), "they have no role yet"),
        (Principal("", frozenset({"guest"})), Access([]), "nothing at all was granted to guest"),
        (ANONYMOUS, Access([]), ""),
        (ME, MAY, ""),
    ],
)
def test_who_may_nothing_at_all_is_told_what_was_forgotten(who, may, said: str) -> None:
    """
    A user whose roles have no grants, as that of an admin who expects his role to be enough; who
    may something else is not told of it.
    """
    assert said in hint(who, may)
    assert bool(said) == bool(hint(who, may))
    if said:
        with pytest.raises(ForbiddenError, match=f"was granted that; {said}"):
            require(who, may, Right.READ, [Destination(Kind.QUEUE, "x")])
