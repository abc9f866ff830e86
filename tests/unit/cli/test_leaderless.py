"""
Why nobody leads: the verdict on statuses as nodes give them.
"""

from __future__ import annotations

from holdfast.admin.status import MemberStatus, NodeStatus, StoreStatus
from holdfast.cli.leaderless import cluster_trouble, trouble


def member(name: str, *, connected: bool, kind: str = "voter") -> MemberStatus:
    return MemberStatus(name=name, connected=connected, kind=kind)  # type: ignore[arg-type]


def test_whoever_does_his_part_is_no_trouble() -> None:
    """A leader that serves, a follower in contact with it."""
    members = (member("a", connected=True), member("b", connected=True))
    for status in (
        NodeStatus(name="a", role="leader", leader="a", serving=True),
        NodeStatus(name="b", role="follower", leader="a", members=members),
    ):
        assert (trouble(status), cluster_trouble(status)) == ("", "")


def test_a_cluster_that_has_not_formed_says_what_it_waits_for() -> None:
    """Before that a node knows no members but those of its own list."""
    assert trouble(NodeStatus(name="a")) == (
        "no leader: a belongs to no cluster yet; one forms when every member of the list has been"
        " started, and all of them name the same members"
    )


def test_too_few_voters_are_counted_and_those_away_are_named() -> None:
    """A witness votes; a learner does not, and somebody shut out is nobody's voter."""
    status = NodeStatus(
        name="a",
        members=(
            member("a", connected=False),
            member("b", connected=False),
            member("c", connected=False, kind="witness"),
            member("d", connected=True, kind="learner"),
            member("e", connected=True, kind="fenced"),
        ),
    )
    assert trouble(status) == (
        "no leader: a is connected to 1 of 3 voters, itself included, and 2 are needed; it does"
        " not reach b and c"
    )


def test_enough_voters_without_a_leader_is_told_as_it_is() -> None:
    """An election takes a moment; where it lasts the reason stands in the logs."""
    status = NodeStatus(
        name="a", members=(member("a", connected=True), member("b", connected=True))
    )
    assert trouble(status).startswith("no leader: a is connected to enough voters (2 of 2)")


def test_what_a_node_knows_of_itself_comes_first() -> None:
    """Its disk, and an end of its log for which an operator is needed."""
    store = StoreStatus(unknown_end="the end is lost: holdfast cluster promote a --force")
    assert trouble(NodeStatus(name="a", store=store)) == (
        "a: the end is lost: holdfast cluster promote a --force"
    )
    full = NodeStatus(name="a", store=StoreStatus(is_out_of_room=True))
    assert trouble(full).startswith("a: its disk is full")


def test_a_leader_with_a_sick_disk_still_serves_its_cluster() -> None:
    """Its own status is trouble; that of the cluster is not, as long as clients are served."""
    store = StoreStatus(disk_hangs=True, disk_wait_seconds=4)
    status = NodeStatus(name="a", role="leader", leader="a", serving=True, store=store)
    assert trouble(status) == "a: its disk has got nothing done for 4 s"
    assert cluster_trouble(status) == ""
    follower = NodeStatus(
        name="b", role="follower", leader="a", members=(member("a", connected=False),)
    )
    assert cluster_trouble(follower) == "b: not in contact with the leader a"
