"""
Telling a disk from an older copy of itself: a VM snapshot restored, a backup put back.

Such a node has forgotten votes it gave and entries it acknowledged. With its vote, a member that
lacks those entries too could be elected, and what was confirmed would be lost.

Every ballot has an *edition*, a number that rises with each vote, each term and each durable floor,
which follows within `floor_busy_seconds` after entries became durable (journal/ballot.py). Members
tell each other their editions, and those they heard of, when a link is made and when one rises; so
each knows the newest edition that every identity has shown, in memory and, as of the last ballot
that was written anyway, on disk.

The rule: *who is told of a newer edition of itself than its ballot holds is on an older copy of its
disk.* It stops taking part and says what to do: start with an empty directory, and be taken in as a
new identity, like any node that lost its disk.

Why nobody is wronged: an edition is told only when it is durable, and no later ballot of an honest
disk has a lower one. A restart, a power cut, a log that was cut, begun anew or reclaimed, an entry
that is damaged, rot in one slot of the ballot: none of them lowers it. Only the node itself judges,
by what it holds at that moment, so it does not matter how late and on which ways news come.

Why it is enough: whoever knows better says so first when a link is made, so the copy never answers
it. And who votes, or counts a vote, believes nobody of whom it has heard a newer edition than the
node itself has shown on their link; that may be news on its way, and costs another round then.
So an older copy takes part in no majority of which any other member knows an edition newer than
the copy's. While it writes, that is every member whom, by any way of links, it reached half a
second after the copy was made, or later. A member that was cut off or down from before that time
knows nothing, and a majority of the copy and such members is not recognised: nothing tells it from
a majority after an ordinary restart but a third member, which is not there.

Acknowledgements need no such care: what a copy says it holds now, it holds.

Invariants:
    The edition known of an identity never falls, nor passes what that identity's disk once held.
    Nothing is sent where nothing is new, but for a repetition now and then. What a peer knows of
    our own edition it must have from us.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.replication.messages import Editions, Hello
from holdfast.replication.state import State


def heed_hello(state: State, peer: str, hello: Hello) -> str:
    """Take what a peer says as its link is made; why this node must end, empty if it need not."""
    state.editions.link_up(peer)
    return _heed(state, peer, {**hello.seen, hello.node_id: hello.edition})


def heed(state: State, peer: str, message: Editions) -> str:
    """Take news from a peer; why this node must end, empty if it need not."""
    hello = state.connected.get(peer)
    if hello is None:
        return ""
    shown = message.editions.get(hello.node_id, -1)
    if shown > hello.edition:
        hello.edition = shown
    return _heed(state, peer, message.editions)


def _heed(state: State, peer: str, shown: Mapping[str, int]) -> str:
    table = state.editions
    table.hear(peer, shown)
    told = shown.get(state.node_id, -1)
    if told <= table.own:
        return ""
    return (
        f"the data directory is an older copy of itself: {peer} knows edition {told:,} of this"
        f" node's ballot, here is {table.own:,}, so votes and entries are missing that others"
        f" rely on; keep the directory for inspection and start with an empty one"
    )


def is_doubted(state: State, peer: str) -> bool:
    """Whether others know a newer edition of the peer than it has shown itself."""
    hello = state.connected.get(peer)
    return hello is not None and hello.edition < state.editions.newest(hello.node_id)


def take_news(state: State) -> list[tuple[str, Editions]]:
    """What each peer does not know yet; to be sent before anything else, waiting for nothing."""
    news = []
    for peer, hello in state.connected.items():
        # A node of an earlier version says no edition, and would not understand.
        if hello.edition >= 0 and (editions := state.editions.unknown_to(peer)):
            news.append((peer, Editions(editions)))
    return news
