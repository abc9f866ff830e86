"""
The newest edition known of each identity, and what each linked peer knows of them.

What an edition is, and what follows from one that is newer than a ballot's, stands in `editions`.

Invariants:
    The edition known of an identity never falls, nor passes what that identity's disk once held.
    What a peer knows of our own edition it must have from us.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

EDITIONS_MAX = 64
"""Identities of which the newest edition is known; a ballot has room for as many."""


class EditionTable:
    """The newest edition known of each identity, and what each linked peer knows of them."""

    __slots__ = ("_known", "_own_id", "_theirs", "is_news")

    def __init__(
        self, own_id: str, edition: int = 0, seen: Mapping[str, int] | None = None
    ) -> None:
        self._own_id = own_id
        self._known = {**(seen or {}), own_id: edition}
        self._theirs: dict[str, dict[str, int]] = {}
        self.is_news = True
        """Something is to be told and noted."""

    @property
    def own(self) -> int:
        """The edition of this node's ballot, durable."""
        return self._known[self._own_id]

    @property
    def known(self) -> dict[str, int]:
        """A copy of what is known, by node identity."""
        return dict(self._known)

    def rise(self, edition: int) -> None:
        """This node's ballot has become durable in this edition."""
        assert edition >= self.own, f"edition {edition} after {self.own}"
        self._known[self._own_id] = edition
        self.is_news = True

    def newest(self, node_id: str) -> int:
        """The newest edition known of an identity; -1 if none."""
        return self._known.get(node_id, -1)

    def link_up(self, peer: str) -> None:
        """A link was made: nothing is known of what the peer knows."""
        self._theirs[peer] = {}
        self.is_news = True

    def tell_again(self) -> None:
        """Forget what the peers know: a message may have been lost."""
        self._theirs.clear()
        self.is_news = True

    def hear(self, peer: str, shown: Mapping[str, int]) -> None:
        """A peer knows these."""
        theirs = self._theirs.setdefault(peer, {})
        for node_id, edition in shown.items():
            if node_id == self._own_id:
                # Whoever knows it from others waits for us to show it, and doubts us until then.
                continue
            theirs[node_id] = max(theirs.get(node_id, -1), edition)
            if edition <= self.newest(node_id):
                continue
            if node_id in self._known or len(self._known) <= EDITIONS_MAX:
                self._known[node_id] = edition
                self.is_news = True

    def unknown_to(self, peer: str) -> dict[str, int]:
        """What the peer does not know yet; from now on it does."""
        theirs = self._theirs.setdefault(peer, {})
        news = {
            node_id: edition
            for node_id, edition in self._known.items()
            if edition > theirs.get(node_id, -1)
        }
        theirs.update(news)
        return news

    def others(self, retired: Collection[str]) -> dict[str, int]:
        """What is to be noted of the others; who can never come back is forgotten."""
        for node_id in [each for each in self._known if each in retired and each != self._own_id]:
            del self._known[node_id]
        return {it: edition for it, edition in self._known.items() if it != self._own_id}
