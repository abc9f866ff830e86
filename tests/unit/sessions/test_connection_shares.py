"""How many connections a user may have where the clients' port takes so many only."""

from __future__ import annotations

import pytest

from holdfast.sessions.connection_shares import ConnectionShares
from tests.unit.sessions.guarded import Guarded


@pytest.fixture
def guarded(desk) -> Guarded:
    made = Guarded(desk)
    made.add("ann", ["sales"])
    desk.context.connection_shares.count_max = 8
    return made


def test_one_alone_has_three_quarters_and_who_comes_next_three_quarters_of_the_rest() -> None:
    """So there is always a place for somebody else; what is given back counts again."""
    shares = ConnectionShares(64)
    taken = [shares.take("eve") for _ in range(60)]
    assert sum(it is not None for it in taken) == shares.of("eve") == 48
    assert [shares.take("ann") is not None for _ in range(13)] == [True] * 12 + [False]
    for place in taken[:8]:
        assert place is not None
        shares.give_back(place)
    assert shares.of("eve") == 40
    assert shares.take("ann") is not None


def test_what_was_taken_before_all_were_sent_away_counts_nowhere() -> None:
    """Whoever of them is noticed to be gone later takes nothing from those of now."""
    shares = ConnectionShares(8)
    old = shares.take("ann")
    shares.clear()
    assert shares.take("ann") is not None
    assert old is not None
    shares.give_back(old)
    assert shares.of("ann") == 1
    assert ConnectionShares().take("ann") is not None, "without a bound there are no shares"


def test_a_user_leaves_connections_to_others(guarded) -> None:
    """The seventh of eight is told why and closed; another user comes in, and so does he again
    once one of his has left."""
    mine = [guarded.connect("ann") for _ in range(6)]
    late = guarded.desk.connect(version="")
    late.say("CONNECT", accept_version="1.2", login="ann")
    (refused,) = late.frames()
    assert (refused.command, refused.headers["code"]) == ("ERROR", "port-full")
    assert refused.headers["message"].startswith("user 'ann' has 6 connections of 8 that there may")
    late.session.disconnected()  # It had none that it could give back.
    mine[0].session.disconnected()
    assert not guarded.connect("ann").session.is_closing
    assert not guarded.connect("root").session.is_closing


def test_without_users_nobody_has_a_share(desk) -> None:
    """Nobody can be told from another one: the bound of the port is all there is."""
    desk.context.connection_shares.count_max = 2
    assert not any(desk.connect().session.is_closing for _ in range(4))
