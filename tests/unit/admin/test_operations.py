"""
What an operator may ask, and what is refused before the node is bothered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.admin.operations import Operations
from holdfast.admin.status import MemberStatus, StoreStatus
from holdfast.errors import DestinationError, MembershipError, NotLeaderError

CHANGES: list[Callable[[Operations], Coroutine[Any, Any, object]]] = [
    lambda operations: operations.transfer("b"),
    lambda operations: operations.add_member("d", "h:1", kind="voter", site=""),
    lambda operations: operations.remove_member("b"),
    lambda operations: operations.promote("c"),
    lambda operations: operations.purge("mail"),
    lambda operations: operations.delete("mail"),
]
PAIR = (MemberStatus(name="a"), MemberStatus(name="b", admin="127.0.0.1:8162", life="0b" * 16))


@pytest.mark.parametrize("change", CHANGES)
def test_only_the_leader_makes_changes(node, change) -> None:
    """
    A follower names the leader and does nothing.
    """
    node.be(role="follower", leader="b")
    with pytest.raises(NotLeaderError) as caught:
        asyncio.run(change(Operations(node)))
    assert (caught.value.leader, node.changes) == ("b", [])


def test_the_leader_hands_changes_to_the_node(node) -> None:
    """
    Each change reaches the node with its arguments, once.
    """
    operations = Operations(node)
    for change in CHANGES:
        asyncio.run(change(operations))
    assert node.changes == [
        ("transfer", "b"),
        ("add", "d", "h:1", "voter", ""),
        ("remove", "b"),
        ("promote", "c"),
        ("purge", "mail"),
        ("delete", "mail"),
    ]


def test_the_node_chooses_where_to_transfer_if_nobody_is_named(node) -> None:
    """
    `cluster transfer` without --to is a wish to hand over to whoever is best.
    """
    assert asyncio.run(Operations(node).transfer(None)) == "b"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda o: o.transfer("x"), "x is not a member; members are: a, b, c"),
        (lambda o: o.remove_member("x"), "x is not a member"),
        (lambda o: o.promote("x"), "x is not a member"),
        (lambda o: o.add_member("b", "h:1", kind="voter", site=""), "b is a member already"),
    ],
)
def test_changes_of_the_wrong_members_are_refused(node, change, sentence: str) -> None:
    """
    The sentence tells which members there are.
    """
    with pytest.raises(MembershipError, match=sentence):
        asyncio.run(change(Operations(node)))
    assert node.changes == []


@pytest.mark.parametrize("change", [lambda o: o.purge("x"), lambda o: o.delete("x")])
def test_a_queue_that_does_not_exist_is_not_changed(node, change) -> None:
    """
    A typing mistake in a queue's name is told.
    """
    with pytest.raises(DestinationError, match="there is no queue x"):
        asyncio.run(change(Operations(node)))


def test_questions_come_in_order(node) -> None:
    """
    Queues by name and segments by index, whatever order the node keeps them in.
    """
    operations = Operations(node)
    assert set(operations.queue_names()) == {"mail", "orders/new"}
    assert [it.name for it in operations.queues(["mail", "none"]) if it is not None] == ["mail"]
    assert sum(it.messages for it in operations.queue_depths() if it is not None) == 12
    assert [s.base_index for s in asyncio.run(operations.segments())[0]] == [1, 50]
    assert next(iter(operations.connections())).id == "1"
    assert operations.readiness().ready


def test_the_leaders_admin_port_comes_from_the_members(node) -> None:
    """
    A follower passes changes on to where the leader said it can be reached.
    """
    operations = Operations(node)
    node.be(leader="b")
    assert operations.leader_admin() == ("127.0.0.1:8162", "0b" * 16)
    node.be(leader="c")
    assert operations.leader_admin() is None
    node.be(leader=None)
    assert operations.leader_admin() is None


def test_force_is_for_the_node_that_goes_on(node) -> None:
    """
    Asked of another node, the operator is sent to the right one.
    """
    with pytest.raises(MembershipError, match=r"this is a; .* b itself at 127.0.0.1:8162"):
        Operations(node).promotion_report("b")


def test_force_is_refused_while_there_is_a_leader(node) -> None:
    """
    Two leaders would be made, so a known leader is the end of it.
    """
    node.be(role="follower", leader="b")
    with pytest.raises(MembershipError, match="b leads"):
        asyncio.run(Operations(node).promote_force("a", peers_are_dead=True))
    assert node.changes == []


def test_force_needs_the_word_that_the_others_are_dead(node) -> None:
    """
    Without it nothing happens, and the operator reads what the node may lack.
    """
    members = tuple(MemberStatus(name=name) for name in "abc")
    node.be(role="candidate", leader=None, leader_contact_seconds=12.0, members=members)
    node.be(store=StoreStatus(last_index=101))
    with pytest.raises(MembershipError, match=r"say that b, c are dead .*12.0 s since"):
        asyncio.run(Operations(node).promote_force("a", peers_are_dead=False))
    assert node.changes == []
    report = asyncio.run(Operations(node).promote_force("a", peers_are_dead=True))
    assert node.changes == [("promote_force",)]
    assert report.shut_out == ("b", "c")


def test_force_is_refused_where_the_log_is_not_full(node) -> None:
    """
    Its lack is the reason; the operator may accept it.
    """
    store = StoreStatus(incomplete="up to 7 messages are missing")
    node.be(role="candidate", leader=None, members=PAIR, store=store)
    assert not Operations(node).promotion_report("a").complete
    with pytest.raises(MembershipError, match="up to 7 messages are missing"):
        asyncio.run(Operations(node).promote_force("a", peers_are_dead=True))
    asyncio.run(
        Operations(node).promote_force("a", peers_are_dead=True, is_incomplete_accepted=True)
    )
    assert node.changes == [("promote_force", "incomplete")]


def test_one_of_two_lacks_nothing_confirmed(node) -> None:
    """
    With two voters each confirmation needed both: promotion loses nothing, and says why.
    """
    node.be(role="candidate", leader=None, members=PAIR)
    assert not Operations(node).promotion_report("a").complete, "its log is damaged"
    node.be(store=StoreStatus(last_index=101))
    report = Operations(node).promotion_report("a")
    assert report.complete
    assert "nothing confirmed is missing" in report.may_lack
    assert "a and b" in report.may_lack


def test_a_learner_may_lack_what_was_confirmed_without_it(node) -> None:
    """
    A learner follows asynchronously, so it is never called complete.
    """
    members = (MemberStatus(name="a", kind="learner"), MemberStatus(name="b"))
    node.be(role="learner", leader=None, members=members, leader_contact_seconds=None)
    node.be(store=StoreStatus(last_index=1234))
    report = Operations(node).promotion_report("a")
    assert not report.complete
    assert "entry 1,234 of term 7; it has not heard of a leader since it started" in report.may_lack
    assert report.as_json()["shut_out"] == ("b",)
