"""Tests of replication/linked_members.py: who is linked while members change."""

from __future__ import annotations

from dataclasses import replace

from holdfast.replication.linked_members import LinkedMembers
from holdfast.replication.membership import Member, Membership, with_removed


class Links:
    def __init__(self) -> None:
        self.addresses: list[dict[str, str]] = []
        self.dropped: list[str] = []

    def set_peers(self, addresses: dict[str, str]) -> None:
        self.addresses.append(addresses)

    def drop(self, peer: str) -> None:
        self.dropped.append(peer)


def test_who_is_removed_stays_linked_until_that_is_committed(member) -> None:
    """Then its link is closed; nothing is asked of the links while nothing changes."""
    state = member().state
    state.commit_index = 1
    links = Links()
    linked = LinkedMembers(links, Membership((Member("b", "better:1"),)))
    linked.update(state)
    state.adopt(state.membership.changed(with_removed(state.membership, "c", "a"), 1), 2)
    linked.update(state)
    linked.update(state)
    assert [{"b": "better:1", "c": "c:1"}] * 2 == links.addresses
    assert [] == links.dropped

    state.commit_index = 2
    linked.update(state)

    assert {"b": "better:1"} == links.addresses[-1]
    assert ["c"] == links.dropped


def test_before_a_cluster_is_formed_the_command_line_says_who(member) -> None:
    """There is no log yet that could."""
    state = member().state
    state.membership = None
    links = Links()

    LinkedMembers(links, Membership((Member("a", "a:1"), Member("b", "b:1")))).update(state)

    assert [{"b": "b:1"}] == links.addresses


def test_a_difference_is_told_once(member, caplog) -> None:
    """And again when it is another one."""
    state = member().state
    linked = LinkedMembers(Links(), Membership(()))
    hello = state.connected["b"]
    for seconds in (0.1, 0.2, 0.2, 0.3):
        shared = {**state.shared, "heartbeat_seconds": seconds}
        linked.warn(state, replace(hello, shared=shared))

    assert 2 == len(caplog.records)
