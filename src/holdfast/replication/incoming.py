"""
What comes to a member from its peers, taken in the order in which it came.

Messages, links made and lost, and signs of life stand in one line, because a message is judged by
what its link's other end had said of itself until then. Here it is decided whether what comes
counts at all, and which rule hears of it; the rules themselves stand elsewhere.

Invariants:
    Of a peer of another cluster or generation nothing counts but what it says of itself.
    Who is shut out learns of it before anything that came later is taken.
    Which level a log has reached is believed of the leader only, which writes it: the word of any
    other member ends nobody.

Owned by the driver, which queues what comes and has it taken once per turn.
"""

from __future__ import annotations

from typing import TypeAlias

from holdfast.replication import consensus, editions, format_levels, formation, promotion, repair
from holdfast.replication.fencing import Fence
from holdfast.replication.link_events import LinkDown, LinkUp, Moving
from holdfast.replication.linked_members import LinkedMembers
from holdfast.replication.messages import (
    AppendRequest,
    AppendResponse,
    Editions,
    Hello,
    Message,
    RepairRequest,
    RepairResponse,
)
from holdfast.replication.outgoing import Outgoing
from holdfast.replication.outlets import Links
from holdfast.replication.state import State

Event: TypeAlias = Message | LinkUp | LinkDown | Moving


class Incoming:
    """The line of what came to one member, and the door to its rules."""

    __slots__ = (
        "_fence",
        "_leader",
        "_linked_members",
        "_links",
        "_outgoing",
        "_repairs",
        "_state",
        "queue",
    )

    def __init__(
        self,
        state: State,
        *,
        fence: Fence,
        links: Links,
        linked_members: LinkedMembers,
        outgoing: Outgoing,
        repairs: repair.Repairs,
    ) -> None:
        self._state = state
        self._fence = fence
        self._links = links
        self._linked_members = linked_members
        self._outgoing = outgoing
        self._repairs = repairs
        self._leader: str | None = None
        """Who led when it was last asked whether its log can be read here."""
        self.queue: list[tuple[str, Event]] = []
        """What came and was not taken yet, with whom it is of."""

    def take_all(self) -> None:
        """
        Take what is in the line.

        Raises:
            FormatLevelError: The leader's log has reached a level that this node does not know.
        """
        queue, self.queue = self.queue, []
        for peer, event in queue:
            self._take(peer, event)
        if self._state.leader != self._leader:
            self._leader = self._state.leader
            self._require_readable(self._state.connected.get(self._leader or ""))

    def _take(self, peer: str, event: Event) -> None:
        state = self._state
        if isinstance(event, AppendRequest | AppendResponse):
            # By far the most; the others are told apart after them.
            if not self._is_stale(peer):
                consensus.receive(state, peer, event)
        elif isinstance(event, Editions):
            self._fence.shut_out(editions.heed(state, peer, event), state.generation + 1)
        elif isinstance(event, Hello):
            self._heed(peer, event)
            if peer in state.connected:
                consensus.hello_changed(state, peer, event)
        elif isinstance(event, RepairRequest):
            repair.answer(state, peer, event)
        elif isinstance(event, RepairResponse):
            self._repairs.take(state, event)
        elif isinstance(event, LinkUp):
            self._take_link(peer, event.hello)
        elif isinstance(event, Moving):
            if not self._is_stale(peer):
                consensus.moving(state, peer, has_entries=event.has_entries)
        elif isinstance(event, LinkDown):
            consensus.link_down(state, peer, closed=event.closed)
        elif not self._is_stale(peer):
            consensus.receive(state, peer, event)

    def _take_link(self, peer: str, hello: Hello) -> None:
        state = self._state
        if state.is_retired(hello):
            self._links.drop(peer)  # What shut it out was committed since it was let in.
            return
        self._linked_members.warn(state, hello)
        self._heed(peer, hello)
        consensus.link_up(state, peer, hello)

    def _is_stale(self, peer: str) -> bool:
        """Whether the peer is of another cluster or generation, so that nothing it says counts."""
        state = self._state
        hello = state.connected.get(peer)
        if hello is None:
            return True
        if not hello.cluster_id or not state.cluster_id:
            return False
        if hello.cluster_id != state.cluster_id or hello.generation != state.generation:
            return True
        return hello.lineage != () and state.is_apart_from(hello)

    def _heed(self, peer: str, hello: Hello) -> None:
        state = self._state
        if peer == state.leader:
            self._require_readable(hello)
        self._fence.shut_out(formation.own_fence(state, hello), formation.bar(state, hello))
        if formation.is_taken_along(state, hello) and not state.fenced_reason:
            promotion.follow_along(state, hello)
        self._fence.shut_out(editions.heed_hello(state, peer, hello), state.generation + 1)

    def _require_readable(self, hello: Hello | None) -> None:
        """Make sure that we know the level of what the leader sends; our own log tells it later."""
        if hello is not None:
            format_levels.require_reached_known(self._outgoing.hello, hello)
