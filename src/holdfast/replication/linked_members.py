"""
With whom a node keeps links, and what it says of a member that is linked.

The members in the log say who, the command line may know better where. Whom a change takes out that
is not yet committed stays linked: it may lead, and undo the change. Whom a committed change took
out loses its link, and is told why when it dials.

Invariants:
    A link to an identity that a committed change took out is closed in the turn that learns of it.
"""

from __future__ import annotations

import logging

from holdfast.replication.membership import Membership
from holdfast.replication.messages import Hello
from holdfast.replication.outlets import Links
from holdfast.replication.shared_settings import warned_differences
from holdfast.replication.state import State

logger = logging.getLogger("holdfast.replication")


class LinkedMembers:
    """Keeps the links of one node to its members."""

    def __init__(self, links: Links, bootstrap: Membership) -> None:
        self._links = links
        self._bootstrap = bootstrap
        self._members: Membership | None = None
        self._is_settled = False
        self._warned: dict[str, list[str]] = {}

    def update(self, state: State) -> None:
        """Change the links if the members changed, or are committed now; called in each turn."""
        members = state.membership or self._bootstrap
        is_settled = state.config_index <= state.commit_index
        if members is self._members and is_settled is self._is_settled:
            return
        self._members = members
        self._is_settled = is_settled
        for peer, hello in state.connected.items():
            if state.is_retired(hello):
                self._links.drop(peer)
        self._links.set_peers(self._addresses(state, members))

    def _addresses(self, state: State, members: Membership) -> dict[str, str]:
        settled = state.settled_membership() or self._bootstrap
        addresses = {}
        for member in (*settled.members, *members.members):
            named = self._bootstrap.get(member.name)
            if member.name != state.name:
                addresses[member.name] = (named.address if named else "") or member.address
        return addresses

    def warn(self, state: State, hello: Hello) -> None:
        """Say once of each peer what it was told otherwise and need not be refused for."""
        found = warned_differences(state.name, state.shared, hello.name, hello.shared)
        if found != self._warned.get(hello.name, []):
            self._warned[hello.name] = found
            for sentence in found:
                logger.warning("%s", sentence)
