"""
What leaves a member for its peers: messages when they may, and what it says of itself.

The rules decide in memory and put what they want sent into the outbox; here it leaves, once per
turn and peer, or waits for the ballot that it depends on.

Invariants:
    While a ballot is on its way to the disk nothing is sent: no vote, no reply of a new term; but
    news of this process, which claim nothing: a durable edition, a disk that hangs, the end.
    Who is shut out sends nothing any more, not even what it had decided before.
    A generation is told only once it is durable.
    News that went ahead are not taken back by a hello that waited.

Owned by the driver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from holdfast.replication import editions, formation, promotion
from holdfast.replication.ballot_keeping import BallotKeeper
from holdfast.replication.messages import AppendResponse, Hello, Message
from holdfast.replication.outlets import Links
from holdfast.replication.state import NEVER, State

HELD_MAX: Final = 1000
"""Messages that wait for a ballot; the oldest are lost first, as on a link that breaks."""


class Outgoing:
    """What one member says, to all who are linked."""

    __slots__ = ("_ballot", "_links", "_state", "hello", "held", "tell_again_at")

    def __init__(self, state: State, hello: Hello, links: Links, ballot: BallotKeeper) -> None:
        self._state = state
        self._links = links
        self._ballot = ballot
        self.hello = hello
        """What this node says of itself when a link is made; kept up to date."""
        self.held: list[tuple[str, Message]] = []
        """What waits for a ballot."""
        self.tell_again_at = NEVER
        """When the own edition is repeated."""

    def note_edition(self) -> None:
        """Take up how far the ballot on disk has come; now and then have it told again."""
        state = self._state
        ballot = self._ballot.noted = self._ballot.kept
        if ballot.edition != state.editions.own:
            state.editions.rise(ballot.edition)
        if state.now >= self.tell_again_at:
            self.tell_again_at = state.now + state.settings.edition_repeat_seconds
            state.editions.tell_again()
            if state.awaited or promotion.is_cut_short(state):
                self.say_at_once(self.hello)  # Should it be lost, a promotion would wait for ever.

    def share_editions(self) -> None:
        """Tell the peers, whoever will be linked, and the next ballot."""
        state = self._state
        table = state.editions
        table.is_news = False
        settled = state.settled_membership()
        retired = settled.retired if settled else ()
        others = table.others(retired).items()
        self._ballot.file.seen = tuple((bytes.fromhex(it), edition) for it, edition in others)
        self.hello = replace(self.hello, edition=table.own, seen=table.known)
        if not state.fenced_reason:
            for peer, message in editions.take_news(state):
                self._links.send(peer, [message])

    def say_at_once(self, hello: Hello) -> None:
        """Tell the peers news of this process, also while a ballot waits for the disk."""
        state = self._state
        self.hello = hello
        ballot = self._ballot.kept
        # All else that it says has been kept: a cluster that is not yet waits for its ballot.
        kept = ballot.cluster_id.hex(), ballot.generation
        if kept == (state.cluster_id, state.generation) and not state.fenced_reason:
            for peer in state.connected:
                self._links.send(peer, [hello])

    def renew_hello(self) -> bool:
        """Say what changed of what this node is; false where it must not be said yet."""
        state = self._state
        renewed = formation.renewed(state, self.hello)
        if renewed is self.hello:
            return True
        # Who hears of a later generation ends, or relies on us for it: so only of one that is kept.
        if not self._ballot.is_generation_kept:
            return False
        self.hello = renewed
        news: list[tuple[str, Message]] = [(peer, self.hello) for peer in state.connected]
        # Before all that waited for the same ballot: it is judged by what the hello says.
        waiting = self.held or state.outbox
        waiting[:0] = news
        return True

    def send(self) -> None:
        """Send the outbox, one call per peer, unless a ballot has to become durable first."""
        state = self._state
        outbox = state.outbox
        if state.fenced_reason:
            # A vote that waits for the ballot must not leave any more.
            outbox.clear()
            self.held.clear()
            return
        if self._ballot.job is not None:
            self._hold(outbox)
            return
        if self.held:
            # News that could not wait went ahead: a hello that waited must not take it back.
            outbox[:0] = [
                (peer, self.hello if type(message) is Hello else message)
                for peer, message in self.held
            ]
            self.held.clear()
        if not outbox:
            return
        by_peer: dict[str, list[Message]] = {}
        for peer, message in outbox:
            by_peer.setdefault(peer, []).append(message)
        outbox.clear()
        send = self._links.send
        for peer, messages in by_peer.items():
            if peer in state.connected:
                send(peer, messages)

    def _hold(self, outbox: list[tuple[str, Message]]) -> None:
        """Keep what waits for the ballot; how far the log goes is said anew when it can be said."""
        for peer, message in outbox:
            if type(message) is AppendResponse and not message.rejected:
                self._state.is_reply_due = True  # Damage may be found meanwhile.
            else:
                self.held.append((peer, message))
        del self.held[:-HELD_MAX]
        outbox.clear()
