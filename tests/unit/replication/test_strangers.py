"""Tests of replication/strangers.py: who gives way when all places are taken."""

from __future__ import annotations

from holdfast.replication.settings import LinkSettings
from holdfast.replication.strangers import Strangers


def made(total: int = 4, each: int = 2) -> Strangers[str]:
    return Strangers(LinkSettings(strangers_max=total, strangers_per_source_max=each))


def test_the_oldest_of_a_full_source_gives_way() -> None:
    """And nobody else's connection does."""
    strangers = made()

    assert [None, None, None, "x1"] == [
        strangers.enter(name, name[0], ()) for name in ("x1", "y1", "x2", "x3")
    ]
    assert ["y1", "x2", "x3"] == list(strangers)
    assert 1 == strangers.crowded_out


def test_who_holds_the_most_gives_way_when_all_is_full() -> None:
    """One that comes from many places at once takes no place from one that holds a single one."""
    strangers = made()
    for name in ("a1", "x1", "x2", "b1"):
        strangers.enter(name, name[0], ())

    assert "x1" == strangers.enter("c1", "c", ())


def test_members_sources_have_places_apart() -> None:
    """They are not counted, and never give way to others."""
    strangers = made(total=1)
    members = {"m", "n"}
    for name in ("m1", "n1", "x1"):
        assert strangers.enter(name, name[0], members) is None

    assert "x1" == strangers.enter("y1", "y", members)
    assert strangers.enter("m2", "m", members) is None
    assert "m1" == strangers.enter("m3", "m", members)


def test_who_proved_itself_takes_no_place() -> None:
    """Nor does one that is gone, even if it is forgotten twice."""
    strangers = made(total=1)
    strangers.enter("x1", "x", ())
    strangers.leave("x1")
    strangers.leave("x1")

    assert strangers.enter("x2", "x", ()) is None
    assert 1 == len(strangers)


def test_a_source_is_news_once_in_a_while() -> None:
    """And so are a few sources, however many there are."""
    strangers = made(total=2)

    told = [strangers.is_news(source, 1.0) for source in ("x", "x", "y", "z")]

    assert [True, False, True, False] == told
    assert strangers.is_news("x", 100.0)
