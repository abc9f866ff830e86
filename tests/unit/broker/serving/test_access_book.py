"""What users and grants mean, worked out of what the log says."""

from __future__ import annotations

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving.access_book import AccessBook
from holdfast.broker.settings import BrokerSettings
from holdfast.model.access_records import GrantRecord, UserRecord
from holdfast.model.destination import Kind
from holdfast.security.grants import Right
from holdfast.security.principal import Principal


@pytest.fixture
def state() -> BrokerState:
    return BrokerState(BrokerSettings())


def may_read(book: AccessBook, name: str) -> bool:
    principal = book.principal("ann")
    assert principal is not None
    return book.access(principal).deciding(Right.READ, Kind.QUEUE, name) is not None


def test_a_user_may_what_his_roles_were_granted(state: BrokerState) -> None:
    """A change of either is obeyed by who asks next."""
    book = AccessBook(state)
    assert not book.has_users
    assert book.principal("ann") is None
    user, grant = UserRecord("ann", '{"roles":["sales"]}', 1), GrantRecord("sales", "queue://a", 1)
    state.apply(1, [user, grant], 1)
    assert book.has_users
    assert book.principal("ann") == Principal("ann", frozenset({"sales"}))
    assert may_read(book, "a")
    state.apply(3, [GrantRecord("sales", "queue://a", 2)], 2)
    assert not may_read(book, "a")
    state.apply(4, [GrantRecord("sales", "queue://b", 1), UserRecord("ann", "{}", 2)], 3)
    assert not may_read(book, "b")


def test_what_cannot_be_read_gives_nobody_anything(state: BrokerState) -> None:
    """A later version may say more; this one must not take it for a grant, nor break."""
    state.apply(1, [GrantRecord("sales", "queue://a>", 7), GrantRecord("sales", "queue://b", 1)], 1)
    state.apply(3, [UserRecord("ann", '{"roles":["sales",7,null]}', 1)], 1)
    book = AccessBook(state)
    assert not may_read(book, "a")
    assert may_read(book, "b")


def test_a_state_that_began_anew_is_noticed(state: BrokerState) -> None:
    """Its changes are counted from the beginning: the count alone would not tell."""
    book = AccessBook(state)
    state.apply(1, [UserRecord("ann", '{"roles":["s"]}', 1), GrantRecord("s", "queue://a", 1)], 1)
    assert may_read(book, "a")
    state.begin_anew()
    state.apply(1, [UserRecord("ann", '{"roles":["s"]}', 1), GrantRecord("s", "queue://b", 1)], 1)
    assert not may_read(book, "a")
    assert may_read(book, "b")


def test_what_stands_in_a_checkpoint_is_worked_out_as_the_book_is_made(state: BrokerState) -> None:
    """At a start, and not by the first client who asks: ten thousand grants take 0.1 s."""
    state.apply(1, [UserRecord("ann", '{"roles":["s"]}', 1), GrantRecord("s", "queue://a", 1)], 1)
    book = AccessBook(state)
    state.access.grants = {}  # Nobody looks there again.
    assert may_read(book, "a")
    state.apply(3, [GrantRecord("s", "queue://b", 1)], 2)
    state.apply(4, [GrantRecord("t", "queue://a", 0)], 2)
    assert may_read(book, "a")
    assert may_read(book, "b")


def test_a_broker_that_begins_anew_follows_what_comes(state: BrokerState) -> None:
    """A follower is sent another log whole: what is in it is worked out as it is applied."""
    broker = Broker(BrokerSettings(), state)
    broker.begin_anew()
    state.apply(1, [UserRecord("ann", '{"roles":["s"]}', 1), GrantRecord("s", "queue://b", 1)], 1)
    state.access.grants = {}
    assert may_read(broker.access_book, "b")


def test_somebody_can_log_in_where_there_are_users_or_who_vouches_for_them(state) -> None:
    """Else everybody may do everything."""
    book = AccessBook(state)
    assert (book.is_guarded, book.is_user("ann"), book.anonymous) == (False, False, None)
    book.has_authorities = True
    assert (book.is_guarded, book.is_user("ann")) == (True, False)
    book.has_authorities = False
    before = book.change_count
    state.apply(1, [UserRecord("ann", '{"roles":["s"]}', 1)], 1)
    assert (book.is_guarded, book.is_user("ann"), book.is_user("ben")) == (True, True, False)
    assert book.change_count == before + 1
    assert AccessBook(state, "guest").anonymous == Principal("", frozenset({"guest"}))


def test_an_owner_is_one_life_of_a_name(state) -> None:
    """Who has a name again is another one; whom the log does not know has none."""
    book = AccessBook(state)
    state.apply(1, [UserRecord("ann", '{"roles":["s"],"life":7}', 9)], 1)
    assert [book.owner(it) for it in ("ann", "ben", "")] == [("ann", 7), ("ben", 0), ("", 0)]
    for life in ('"7"', "true", "-1", "1.5"):
        state.apply(1, [UserRecord("ann", f'{{"life":{life}}}', 10)], 2)
        assert book.owner("ann") == ("ann", 0)


def test_who_may_nothing_is_known(state) -> None:
    """A role of the admin port is something, too; a role without a grant is nothing."""
    book = AccessBook(state)
    state.apply(1, [GrantRecord("s", "queue://a", 1)], 1)
    roles = ({"s"}, {"viewer"}, {"other"}, set())
    assert [book.may_anything(Principal("ann", frozenset(it))) for it in roles] == [
        *(True, True, False, False)
    ]
    state.apply(2, [GrantRecord("s", "queue://a", 0)], 2)
    assert not book.may_anything(Principal("ann", frozenset({"s"})))
