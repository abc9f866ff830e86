"""
Tests of replication/peer_link.py without sockets: two ends joined by a pipe in memory.

tests/integration/test_peer_links.py has the same on loopback, with real drivers.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from linked_sides import Pipe, Side, dangling, join, run

from holdfast.replication.formation import Refusal
from holdfast.replication.handshake import NONCE_BYTES, PROOF, frame
from holdfast.replication.message_codec import encode_message
from holdfast.replication.messages import TransferRequest
from holdfast.replication.peer_link import PeerLink


def test_the_peers_end_is_told_apart_from_our_own() -> None:
    """A link that the other side closed may mean its death; one that we closed does not."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        here, _ = join(a, b)

        here.close()

        assert ("down", "b", False) == a.owner.told[-1]
        assert ("down", "a", True) == b.owner.told[-1]

    run(scenario)


def test_a_timed_out_connection_is_not_a_death() -> None:
    """Only a close or a reset says that the process ended."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        here, _ = join(a, b)

        here._transport.lose(TimeoutError())

        assert ("down", "b", False) == a.owner.told[-1]

    run(scenario)


@pytest.mark.parametrize(
    ("news", "is_fenced"),
    [
        ({"generation": 2}, False),
        ({"generation": 1, "lineage": (5, 5)}, False),
        ({"edition": 7, "disk_hangs": True}, True),
    ],
)
def test_a_refusal_binds_who_is_still_what_was_refused(news, is_fenced) -> None:
    """Promoted or taken along while the answer was on its way, it would have ended over it."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        a.owner.hello = replace(a.owner.hello, generation=1, lineage=(4, 4))

        def judge(_hello) -> Refusal:
            a.owner.hello = replace(a.owner.hello, **news)
            return Refusal("of one before", is_fenced=True, generation=1)

        b.owner.judge = judge
        join(a, b)

        assert [("refused", "b", "of one before", is_fenced)] == a.owner.told

    run(scenario)


@pytest.mark.parametrize("is_dialer", [True, False])
def test_what_is_new_since_the_handshake_began_is_told_at_once(is_dialer) -> None:
    """It went to those that were linked by then: a node that was shut out was taken in again."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        ends = Pipe(), Pipe()
        here, there = PeerLink(a.links, "b"), PeerLink(b.links, "")
        for end, other, link in ((ends[0], ends[1], here), (ends[1], ends[0], there)):
            end.protocol, end.other = link, other
        ends[1].is_reading = True
        here.connection_made(ends[0])
        there.connection_made(ends[1])
        ends[0].is_reading = is_dialer
        if is_dialer:
            here.data_received(ends[0].arriving.pop(0))
        teller, other = (a, b) if is_dialer else (b, a)
        teller.owner.hello = replace(teller.owner.hello, shut_out=True)
        ends[0].is_reading = ends[1].is_reading = False
        ends[0].read()

        name = teller.owner.hello.name
        assert [("up", name), (name, teller.owner.hello)] == other.owner.told
        assert [("up", other.owner.hello.name)] == teller.owner.told

    run(scenario)


def test_nonsense_closes_the_link() -> None:
    """From a stranger and from a member alike; nothing is raised into the loop."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        here, there = join(a, b)
        there.data_received(b"\x00\x00\x00\x00\x01")
        stranger = PeerLink(a.links, "")
        pipe = dangling(stranger)
        stranger.data_received(b"GET / HTTP/1.1\r\n\r\n")

        assert here._transport.is_lost and pipe.is_lost
        assert ("down", "a", False) == b.owner.told[-1]

    run(scenario)


def test_a_stranger_is_sent_nothing_to_try_secrets_against() -> None:
    """Two nodes that differ in nothing but the secret answer a wrong proof with equal bytes."""

    def scenario() -> None:
        answers = []
        for secret in (b"one", b"other"):
            pipe = dangling(PeerLink(Side("a", secret).links, ""))
            proof = frame(PROOF, bytes(NONCE_BYTES + 32) + b"{}")
            pipe.protocol.data_received(proof)
            challenge, refusal = pipe.written
            answers.append((len(challenge), refusal))
            assert pipe.is_lost

        assert answers[0] == answers[1]

    run(scenario)


def test_silence_and_deafness_end_a_link() -> None:
    """An idle link says that it lives; one that says nothing, or takes nothing, is given up."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        here, there = join(a, b)
        now = asyncio.get_running_loop().time()
        heard = there._received_at
        here.watch(now + 2)
        assert there._received_at >= heard

        here.watch(now + 60)
        assert ("down", "b", False) == a.owner.told[-1]

        here, _ = join(a, b)
        here._transport.unsent = 1 << 40
        a.links.send("b", [TransferRequest(1)])
        here.watch(now)
        here._received_at = now + 7
        here.watch(now + 7)
        assert here._transport.is_lost

    run(scenario)


def test_a_link_is_given_up_when_no_byte_moves() -> None:
    """However much waits, and however long: as long as the other side takes some, it stays."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        here, _ = join(a, b)
        pipe = here._transport
        pipe.unsent = 1 << 30
        a.links.send("b", [TransferRequest(1)])
        now = asyncio.get_running_loop().time()
        for _ in range(100):
            now += 5
            pipe.unsent -= 1
            here._received_at = now
            here.watch(now)
        assert not pipe.is_lost
        assert a.owner.moved == ["b"] * 100
        here._received_at = now + 7
        here.watch(now + 7)
        assert pipe.is_lost

    run(scenario)


def test_a_part_of_a_message_is_a_sign_of_life() -> None:
    """While a large entry comes, nothing whole is heard; the link and the driver know better."""

    def scenario() -> None:
        a, b = Side("a"), Side("b", watch_seconds=0.0)
        _, there = join(a, b)
        there._received_at = 0.0
        there.data_received((1000).to_bytes(4, "little") + b"\5")
        assert there._received_at > 0
        assert b.owner.moved == [("a", "entries")]
        assert there._transport is not None
        there.data_received(b"x" * 10)
        assert b.owner.moved == [("a", "entries"), ("a", "entries")]

    run(scenario)


def test_one_link_does_not_keep_the_loop_to_itself() -> None:
    """What waits in a socket may be many megabytes; in between, everybody else has a turn."""

    async def main() -> None:
        a, b = Side("a"), Side("b", read_bytes_max=1200)
        _, there = join(a, b)
        end = there._transport
        assert isinstance(end, Pipe)
        wire = b"".join(encode_message(TransferRequest(1))) * 50
        there.data_received(wire)
        assert end.is_flowing
        there.data_received(wire)
        assert not end.is_flowing
        assert 100 == len(b.owner.told[1:])
        await asyncio.sleep(0)
        assert end.is_flowing
        there.data_received(wire)
        assert end.is_flowing
        there.data_received(wire)
        end.is_ending = True
        await asyncio.sleep(0)
        assert not end.is_flowing

    asyncio.run(main())
