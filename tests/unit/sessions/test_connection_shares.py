"""How many connections a user may have where the clients' port takes so many only."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.model.shares import STRANGERS
from holdfast.sessions.connection_shares import LOOKED_AT_MAX, ConnectionShares
from holdfast.sessions.session import Session
from tests.unit.sessions.guarded import Guarded


class Somebody:
    """A session, as far as it has a place."""

    is_gone = is_closing = False
    told = ""

    def farewell(self, text: str, code: str) -> None:
        self.is_closing, self.told = True, f"{code}: {text}"


@pytest.fixture
def guarded(desk) -> Guarded:
    made = Guarded(desk)
    made.add("ann", ["sales"])
    made.add("eve", ["none"])
    made.grant("sales", "read", "queue://sales")
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
    assert all(come("ann") for _ in range(12))
    assert shares.of("eve") == 48, "nobody had to give way"
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
    assert refused.headers["message"].startswith("user 'ann'\\c this user has 6 connections, at")
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


def test_whoever_was_first_has_no_more_than_who_comes_later() -> None:
    """
    The newest of who has more gives way, until both have as many; then nobody does, so that the
    two do not close each other's for ever.
    """
    shares, come = shares_of(64)
    eves = [come("eve") for _ in range(48)]
    anns = [come("ann") for _ in range(40)]
    had = sum(it is not None for it in anns)
    assert (shares.of("eve"), shares.of("ann"), had) == (30, 30, 30)
    assert [it.is_closing for it in eves if it] == [False] * 30 + [True] * 18
    assert eves[-1] is not None
    assert eves[-1].told.startswith("port-full: its user has 48 connections of 64")  # type: ignore[attr-defined]
    assert come("eve") is come("ann") is None
    for session in eves:
        assert session is not None
        shares.give_back(session)  # As their sockets are gone: of some it was taken already.
    assert (shares.of("eve"), shares.of("ann"), len(shares.users)) == (0, 30, 30)
    assert come("bob") is not None


def test_who_has_the_most_of_several_gives_way() -> None:
    """Not who happened to be first, or last."""
    shares, come = shares_of(64)
    for user, count in (("ann", 5), ("eve", 36), ("bob", 7)):
        assert all(come(user) for _ in range(count))
    while shares.of("cid") < 14:
        assert come("cid")
    assert (shares.of("ann"), shares.of("bob")) == (5, 7)
    assert shares.of("eve") < 36


def test_strangers_have_little_together_and_give_way_to_everybody() -> None:
    """Whatever names they have; and they take nobody's place, not even one of their own."""
    shares, come = shares_of(100)
    strangers = [come(STRANGERS) for _ in range(20)]
    assert shares.of(STRANGERS) == 10
    assert sum(come("ann") is not None for _ in range(100)) == shares.of("ann") == 75
    assert shares.of(STRANGERS) == 2, "she has as many as if they were not there"
    assert sum(come("bob") is not None for _ in range(40)) == 40
    assert shares.of(STRANGERS) == 0
    assert come(STRANGERS) is not None
    assert come(STRANGERS) is None
    assert all(it is None or it.is_closing for it in strangers)


def test_what_a_user_has_given_up_himself_goes_first() -> None:
    """The earlier connection of the same client, then who is closing, or does nothing."""
    shares, come = shares_of(8)
    mine = [come("ann") for _ in range(6)]
    assert come("ann") is None
    latest = Somebody()
    assert shares.take(latest, "ann", (mine[3],))  # type: ignore[arg-type]
    assert mine[3].told == "port-full: this client has connected again"
    mine[5].is_closing = True
    assert come("ann") is not None
    assert mine[5].told == "", "why it goes was said already"
    assert come("ann") is None
    shares.is_idle = lambda session: session is mine[1]
    assert come("ann") is not None
    assert "which did nothing" in mine[1].told
    assert come("ann") is None
    assert shares.of("ann") == 6


def test_of_many_connections_some_are_looked_at_each_time() -> None:
    """So many that come at once cost no more than so much each; in the end each was looked at."""
    shares, come = shares_of(400)
    mine = [come("ann") for _ in range(300)]
    asked: list[Session] = []
    shares.is_idle = lambda session: bool(asked.append(session))
    for _ in range(5):
        assert come("ann") is None
    assert len(asked) == 5 * LOOKED_AT_MAX
    assert set(asked) == set(mine)


def test_a_user_to_whom_nothing_is_granted_any_more_is_a_stranger(guarded) -> None:
    """Also with the connections that he has; and the other way round."""
    shares = guarded.desk.context.connection_shares
    guarded.connect("ann")
    eve = guarded.connect("eve")
    assert list(shares.users.values()) == ["ann", STRANGERS]
    guarded.grant("sales", "-", "queue://sales")
    guarded.grant("none", "write", "queue://sales")
    assert shares.users[eve.session] == "eve"
    assert (shares.of("ann"), shares.of(STRANGERS), shares.of("eve")) == (0, 1, 1)


def test_a_client_that_comes_again_has_the_place_of_its_earlier_connection(guarded) -> None:
    """
    Of whom all connections are dead and nobody knows it yet comes back whole.
    """
    shares = guarded.desk.context.connection_shares
    mine = [guarded.connect("ann", holdfast_client=f"secret {number}") for number in range(6)]
    again = [guarded.connect("ann", holdfast_client=f"secret {number}") for number in range(6)]
    assert [it.session.is_closing for it in mine + again] == [True] * 6 + [False] * 6
    assert set(shares.users) == {it.session for it in again}


def test_a_stranger_is_told_why_he_goes(guarded) -> None:
    """As somebody needs his place to whom something is granted."""
    eve = guarded.connect("eve")
    for _ in range(5):
        assert not guarded.connect("ann").session.is_closing
    assert not eve.session.is_closing
    assert not guarded.connect("ann").session.is_closing
    (told,) = eve.frames()
    assert (told.command, told.headers["code"]) == ("ERROR", "port-full")
    assert "to whom something is granted needs this place" in told.headers["message"]
