"""How many connections a user may have where the clients' port takes so many only."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.sessions.connection_shares import ConnectionShares
from holdfast.sessions.session import Session
from tests.unit.sessions.guarded import Guarded


class Somebody:
    """A session, as far as it has a place."""

    is_gone = False


@pytest.fixture
def guarded(desk) -> Guarded:
    made = Guarded(desk)
    made.add("ann", ["sales"])
    desk.context.connection_shares.count_max = 8
    return made


def shares_of(count_max: int = 0) -> tuple[ConnectionShares, Callable[[str], Session | None]]:
    """Give a port, and what lets somebody more of this name in, or gives nobody."""
    shares = ConnectionShares(count_max)

    def come(user: str) -> Session | None:
        session = Somebody()
        return session if shares.take(session, user) else None  # type: ignore[arg-type]

    return shares, come


def test_one_alone_has_three_quarters_and_who_comes_next_three_quarters_of_the_rest() -> None:
    """So there is always a place for somebody else; what is given back counts again."""
    shares, come = shares_of(64)
    there = [come("eve") for _ in range(60)]
    assert sum(it is not None for it in there) == shares.of("eve") == 48
    assert [come("ann") is not None for _ in range(13)] == [True] * 12 + [False]
    for session in there[:8]:
        assert session is not None
        shares.give_back(session)
        shares.give_back(session)
    assert shares.of("eve") == 40
    assert come("ann") is not None


def test_what_was_taken_before_all_were_sent_away_counts_nowhere() -> None:
    """Whoever of them is noticed to be gone later takes nothing from those of now."""
    shares, come = shares_of(8)
    old = come("ann")
    shares.clear()
    assert come("ann") is not None
    assert old is not None
    shares.give_back(old)
    assert shares.of("ann") == len(shares.users) == 1
    _, come = shares_of()
    assert come("ann") is not None, "without a bound there are no shares"


def test_who_is_gone_needs_no_place() -> None:
    """What he sent is read to its end all the same, however many there are."""
    shares, come = shares_of(1)
    assert come("ann") is None
    gone = Somebody()
    gone.is_gone = True
    assert shares.take(gone, "ann")  # type: ignore[arg-type]
    assert not shares.users


@pytest.mark.parametrize("is_read", [False, True], ids=["before it was read", "afterwards"])
def test_who_hangs_up_leaves_his_place_and_his_name_to_others(guarded, is_read) -> None:
    """
    Whatever of it is read first: places of connections that gave up were taken for ever, until
    nobody of that user came in any more.
    """
    desk, shares = guarded.desk, guarded.desk.context.connection_shares
    for _ in range(20):
        client = desk.connect(version="")
        if not is_read:
            client.session.disconnected()
        client.say("CONNECT", accept_version="1.2", login="ann", client_id="c")
        if is_read:
            client.session.disconnected()
        assert not shares.users
        assert not desk.context.client_ids
        assert client.session.is_connected, "what else it sent is wanted"
        client.leave()
    assert not guarded.connect("ann", client_id="c").session.is_closing
    assert list(shares.users.values()) == ["ann"]


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
    shares = desk.context.connection_shares
    shares.count_max = 2
    assert not any(desk.connect().session.is_closing for _ in range(4))
    assert list(shares.users.values()) == [None] * 4
