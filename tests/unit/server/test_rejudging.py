"""What changes of users and grants mean for those who are connected (S5)."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.environment.randomness import SystemRandomness
from holdfast.model.access_records import GrantRecord, UserRecord
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.security.tokens import digest_of, make_token
from holdfast.server.access import NodeAccess
from holdfast.server.log_end_users import LogEndUsers
from holdfast.server.settings import ServerSettings
from tests.unit.server.conftest import CONNECT, SUBSCRIBE, Node, persistent

TOKENS = {name: make_token(name, name[:1].encode() * 32) for name in ("ann", "bob", "eve")}
CLEAR = {"plain_without_tls": True}


class Guarded:
    """A serving node with users, all of whom come in by tokens."""

    def __init__(self, *, anonymous_role: str = "", **settings: object) -> None:
        self.node = node = Node(
            BrokerSettings(anonymous_role=anonymous_role), ServerSettings(**CLEAR, **settings)
        )
        node.serve()
        node.broker.state.format_level = NEWEST_LEVEL
        pepper = SimpleNamespace(keys=(), need=None)
        sure = SimpleNamespace(is_sure=True)
        log_end = LogEndUsers(SimpleNamespace(), sure, lambda: node.broker.state.access)
        self.access = NodeAccess(node.conductor, pepper, SystemRandomness(), log_end=log_end)
        node.conductor.context.check = self.access.logins.check
        self.revision = 0

    def user(self, name: str, *, token: str = "", removed: bool = False, role: str = "") -> None:
        values = {
            "roles": [role or name],
            "tokens": [{"sha256": digest_of(token or TOKENS[name])}],
        }
        self.revision += 1
        self.change(UserRecord(name, "" if removed else json.dumps(values), self.revision))

    def grant(self, role: str, pattern: str, rights: int = 7) -> None:
        self.change(GrantRecord(role, pattern, rights))

    def change(self, record: UserRecord | GrantRecord) -> None:
        """Let the log say something; it counts from the next turn that applies it on."""
        self.node.broker.receipts.add_records([record])
        self.node.turn()

    def applied(self) -> None:
        """Commit what waits, and do the one turn that applies it."""
        self.node.store.commit_all()
        self.node.turn()

    def connect(self, name: str, *data: bytes, **headers: str):
        lines = "".join(f"{key}:{value}\n" for key, value in headers.items())
        connect = f"STOMP\naccept-version:1.2\nhost:h\nlogin:{name}\npasscode:{TOKENS[name]}\n"
        connection = self.node.open()
        for each in (f"{connect}{lines}\n\0".encode(), *data):
            connection.data_received(each)
        self.node.turn()
        assert connection.transport.take().startswith(b"CONNECTED\n")
        return connection


@pytest.fixture
def guarded() -> Guarded:
    made = Guarded()
    for name in ("ann", "bob"):
        made.user(name)
        made.grant(name, "queue://q")
    made.node.settle()
    return made


def test_a_removed_user_is_cut_off_in_the_turn_that_applies_it(guarded: Guarded) -> None:
    """What it had comes back, and goes to others; nobody else notices."""
    node = guarded.node
    ann = guarded.connect("ann", SUBSCRIBE)
    node.settle()
    bob = guarded.connect("bob", persistent(b"1"), SUBSCRIBE)
    node.settle()
    assert b"\n\n1\0" in ann.transport.take()
    bob.transport.take()
    guarded.user("ann", removed=True)
    assert not ann.transport.is_closed
    guarded.applied()
    told = ann.transport.take()
    assert b"user 'ann' was removed, or what this client has shown was replaced" in told
    assert b"code:not-authenticated" in told
    assert ann.transport.is_closed
    assert ann.session.subscriptions == {}
    ann.data_received(persistent(b"2"))
    node.settle()
    given = bob.transport.take()
    assert b"\n\n1\0" in given
    assert b"\n\n2\0" not in given
    assert not bob.transport.is_closed
    assert node.broker.state.live_count() == 1


def test_who_came_in_by_what_was_replaced_is_cut_off_and_nobody_else(guarded: Guarded) -> None:
    """Other roles, and another credential beside the old one, end nobody."""
    ann = guarded.connect("ann")
    guarded.user("ann", role="other")
    guarded.node.settle()
    assert ann.session.principal.roles == {"other"}
    assert not ann.transport.is_closed
    guarded.user("ann", token=TOKENS["eve"])
    guarded.applied()
    assert ann.transport.is_closed


def test_nothing_is_kept_for_who_is_cut_off(guarded: Guarded) -> None:
    """Its temporary queues would wait for a client that is lost to come back."""
    ann = guarded.connect(
        "ann",
        b"SUBSCRIBE\nid:t\ndestination:/temp-queue/x\n\n\0",
        **{"client-id": "c", "holdfast-client": "secret"},
    )
    temporaries = guarded.node.broker.temporaries
    assert temporaries.count_of(ann.session) == 1
    guarded.user("ann", removed=True)
    guarded.applied()
    guarded.node.settle()
    assert not temporaries.has_orphans
    assert not temporaries.queues


def test_a_consumer_gets_nothing_once_the_end_of_its_grant_is_applied(guarded: Guarded) -> None:
    """Not in that turn either: the message was there before."""
    node = guarded.node
    bob = guarded.connect("bob")
    ann = guarded.connect("ann", SUBSCRIBE)
    node.settle()
    guarded.grant("ann", "queue://q", 0)
    bob.data_received(persistent(b"1"))
    node.turn()
    guarded.applied()
    node.settle()
    told = ann.transport.take()
    assert b"code:forbidden" in told
    assert b"subscription:s" in told
    assert b"MESSAGE" not in told
    assert not ann.transport.is_closed
    ann.data_received(persistent(b"2"))
    node.settle()
    assert b"user 'ann' may not write /queue/q" in ann.transport.take()
    assert node.broker.state.live_count() == 1


def test_what_was_worked_out_of_a_send_before_counts_no_more(guarded: Guarded) -> None:
    """Same headers, a thousand times: the verdict stands nowhere (ActiveMQ keeps it)."""
    ann = guarded.connect("ann")
    for _ in range(3):
        ann.data_received(persistent(b"1") * 3)
        guarded.node.settle()
    assert guarded.node.broker.state.live_count() == 9
    guarded.grant("ann", "queue://q", 1)
    guarded.applied()
    ann.transport.take()
    ann.data_received(persistent(b"1") * 3)
    guarded.node.settle()
    assert ann.transport.take().count(b"code:forbidden") == 3
    assert guarded.node.broker.state.live_count() == 9


def test_only_those_are_judged_again_whom_a_change_concerns(guarded: Guarded) -> None:
    """Ten thousand others cost a comparison each."""
    judged: list[str] = []
    connections = [guarded.connect(name) for name in ("ann", "bob", "ann")]
    for each in connections:
        real = each.session.judge_again

        def judge_again(who, why, real=real):
            judged.append(who.name)
            return real(who, why)

        each.session.judge_again = judge_again
    guarded.grant("bob", "queue://z")
    guarded.node.settle()
    assert judged == ["bob"]
    guarded.user("ann", role="bob")
    guarded.node.settle()
    assert judged == ["bob", "ann", "ann"]
    guarded.grant("bob", "queue://z")
    guarded.user("eve")
    guarded.grant("eve", "queue://z")
    guarded.node.settle()
    assert judged == ["bob", "ann", "ann"]


def test_many_are_judged_in_slices_and_nothing_is_delivered_before_all_are() -> None:
    """Nor is anybody read: heart-beats and other members have their turn meanwhile."""
    guarded = Guarded(slice_seconds=0.0)
    node = guarded.node
    guarded.user("ann")
    guarded.grant("ann", "queue://>")
    node.settle()
    connections = [guarded.connect("ann") for _ in range(300)]
    for each in connections:
        each.data_received(SUBSCRIBE)
    node.turns_until(lambda: all(each.session.subscriptions for each in connections))
    rejudging = node.conductor.rejudging
    guarded.grant("ann", "queue://>", 2)
    connections[0].data_received(persistent(b"1"))
    guarded.applied()
    turn_count = 0
    while rejudging.is_under_way:
        before = sum(not each.session.subscriptions for each in connections)
        node.turn()
        turn_count += 1
        ended = sum(not each.session.subscriptions for each in connections) - before
        assert ended <= 64
        assert b"RECEIPT" not in connections[0].transport.take()
    assert turn_count > 4
    node.turns_until(lambda: node.broker.state.live_count() == 1)
    assert not any(each.session.subscriptions for each in connections)
    node.settle()
    assert b"MESSAGE" not in b"".join(each.transport.take() for each in connections)


def test_a_change_that_comes_meanwhile_is_obeyed_by_those_judged_before() -> None:
    """All are looked at again."""
    guarded = Guarded(slice_seconds=0.0)
    node = guarded.node
    for name in ("ann", "bob"):
        guarded.user(name)
        guarded.grant(name, "queue://>")
    node.settle()
    connections = [guarded.connect(name) for name in ("ann", "bob") for _ in range(100)]
    for each in connections:
        each.data_received(SUBSCRIBE)
    node.turns_until(lambda: all(each.session.subscriptions for each in connections))
    guarded.grant("ann", "queue://>", 2)
    guarded.applied()
    assert node.conductor.rejudging.is_under_way
    guarded.grant("bob", "queue://>", 2)
    guarded.applied()
    node.turns_until(lambda: not any(each.session.subscriptions for each in connections))


def test_with_the_first_user_those_who_have_shown_nothing_are_sent_away() -> None:
    """Or have the role that is said for them; the ports are told, too."""
    for role in ("", "guest"):
        guarded = Guarded(anonymous_role=role)
        node = guarded.node
        client = node.connect()
        changes = node.role_changes
        guarded.grant("guest", "queue://q")
        guarded.user("ann")
        guarded.applied()
        assert node.role_changes == changes + 1
        assert client.transport.is_closed == (not role)
        if role:
            client.data_received(persistent(b"1"))
            node.settle()
            assert b"RECEIPT" in client.transport.take()
        else:
            assert b"there are users here now: log in" in client.transport.take()
        guarded.user("ann", removed=True)
        guarded.applied()
        assert node.role_changes == changes + 2


def test_a_mistake_of_ours_costs_one_client(guarded: Guarded, capsys) -> None:
    """The others are judged."""
    broken, ann = guarded.connect("ann"), guarded.connect("ann", SUBSCRIBE)

    def judge_again(*_arguments):
        raise RuntimeError

    broken.session.judge_again = judge_again
    guarded.grant("ann", "queue://q", 0)
    guarded.applied()
    assert broken.transport.is_aborted
    assert ann.session.subscriptions == {}
    assert guarded.node.conductor.containment.mistake_count == 1


def test_nobody_is_judged_once_the_lead_is_over(guarded: Guarded) -> None:
    """All are sent away; who comes under the next lead is judged by what is so then."""
    node = guarded.node
    guarded.connect("ann")
    guarded.user("ann", removed=True)
    node.store.is_serving = False
    node.store.is_leader = False
    guarded.applied()
    rejudging = node.conductor.rejudging
    assert not rejudging.is_under_way
    node.store.is_leader = True
    node.serve()
    node.settle()
    connection = node.open()
    connection.data_received(
        CONNECT.replace(b"\n\n", f"\nlogin:ann\npasscode:{TOKENS['ann']}\n\n".encode())
    )
    node.turn()
    assert b"CONNECTED" not in connection.transport.take()
    assert rejudging.seen_count == node.broker.access_book.change_count


def test_a_token_that_ends_ends_the_connection(guarded: Guarded) -> None:
    """When it is due, told so; heart-beats do not put it off."""
    node = guarded.node
    until_ms = node.clock.wall_microseconds() // 1000 + 5_000
    values = {"roles": ["ann"], "tokens": [{"sha256": digest_of(TOKENS["ann"])}]}
    values["tokens"][0]["expires_ms"] = until_ms
    guarded.change(UserRecord("ann", json.dumps(values), 99))
    node.settle()
    until = node.clock.now + (until_ms - node.clock.wall_microseconds() // 1000) / 1000
    ann = guarded.connect("ann")
    beating = guarded.connect("ann", **{"heart-beat": "1000,1000"})
    while node.clock.now < until - 0.1:
        node.clock.now += 0.09
        beating.data_received(b"\n")
        node.conductor.tick()
        assert not (ann.transport.is_closed or beating.transport.is_closed)
    for _ in range(4):
        node.clock.now += 0.09
        node.conductor.tick()
    for each in (ann, beating):
        assert each.transport.is_closed
        assert b"the token of user 'ann' has expired" in each.transport.take()


class Unwalked(dict):
    """Users or grants that can be found by name, and not gone through."""

    def __iter__(self):
        raise AssertionError("all are gone through")

    keys = values = items = copy = __iter__


def test_a_change_of_one_user_goes_through_no_others(guarded: Guarded) -> None:
    """
    An import of ten thousand is ten thousand changes: to copy all users with each took minutes,
    and to read all grants again 0.1 s of the loop.
    """
    ann, bob = guarded.connect("ann"), guarded.connect("bob")
    access = guarded.node.broker.state.access
    access.users, access.grants = Unwalked(access.users), Unwalked(access.grants)
    guarded.user("eve")
    guarded.user("bob", role="other")
    guarded.node.settle()
    assert bob.session.principal.roles == {"other"}
    assert ann.session.principal.roles == {"ann"}
    assert access.changed == set()
    guarded.grant("other", "queue://other")
    guarded.node.settle()
    bob.data_received(SUBSCRIBE.replace(b"/queue/q", b"/queue/other"))
    guarded.node.settle()
    assert b"ERROR" not in bob.transport.take()
    guarded.user("ann", removed=True)
    guarded.node.settle()
    assert ann.transport.is_closed
    assert not bob.transport.is_closed


def test_nobody_who_does_not_lead_notes_who_has_changed(guarded: Guarded) -> None:
    """
    It would grow as long as the process lives; who leads again judges everybody anew.
    """
    node, access = guarded.node, guarded.node.broker.state.access
    assert access.changed == set()
    node.conductor.rejudging.stop()
    access.apply(UserRecord("eve", "{}", 90), 900)
    assert access.changed is None
    ann = guarded.connect("ann")
    guarded.user("ann", removed=True)
    node.settle()
    assert ann.transport.is_closed
    assert access.changed == set()
