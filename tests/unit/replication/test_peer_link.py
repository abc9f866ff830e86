"""
Tests of replication/peer_link.py without sockets: two ends joined by a pipe in memory.

tests/integration/test_peer_links.py has the same on loopback, with real drivers.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from holdfast.replication.formation import Refusal
from holdfast.replication.handshake import NONCE_BYTES, PROOF, frame
from holdfast.replication.message_codec import encode_message
from holdfast.replication.messages import Hello, TransferRequest
from holdfast.replication.peer_link import PeerLink, PeerLinks, split_address
from holdfast.replication.settings import LinkSettings
from trials.simulation.simulated_group import SeededRandomness


class Pipe(asyncio.Transport):
    """One end of a connection in memory; what is written arrives when its writer is done."""

    def __init__(self) -> None:
        super().__init__()
        self.arriving: list[bytes] = []
        self.is_reading = False
        self.protocol: PeerLink
        self.other: Pipe
        self.is_lost = False
        self.is_flowing = True
        self.is_ending = False
        self.unsent = 0
        self.host = "somewhere"
        self.written: list[bytes] = []

    def write(self, data) -> None:
        self.written.append(bytes(data))
        self.other.arriving.append(bytes(data))
        self.other.read()

    def read(self) -> None:
        if self.is_reading or self.other.is_reading:
            return
        end = self if self.arriving else self.other
        while end.arriving:
            end.is_reading = True
            if not end.is_lost:
                end.protocol.data_received(end.arriving.pop(0))
            else:
                end.arriving.clear()
            end.is_reading = False
            end = end if end.arriving else end.other

    def pause_reading(self) -> None:
        self.is_flowing = False

    def resume_reading(self) -> None:
        self.is_flowing = True

    def is_closing(self) -> bool:
        return self.is_ending

    def writelines(self, list_of_data) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name, default=None):
        return (self.host, 4711)

    def close(self) -> None:
        # What was written before is still delivered.
        while self.other.arriving and not self.other.is_lost:
            self.other.protocol.data_received(self.other.arriving.pop(0))
        self.lose(None)

    def abort(self) -> None:
        self.lose(None)

    def lose(self, error) -> None:
        for end in (self, self.other):
            if not end.is_lost:
                end.is_lost = True
                end.protocol.connection_lost(error)


class Owner:
    """What the driver would be told."""

    def __init__(self, name: str, instance: str = "1") -> None:
        self.hello = Hello(name, name.encode().hex().ljust(32, "0"), instance=instance)
        self.told = []
        self.moved = []
        self.refusal: Refusal | None = None

    def judge(self, hello):
        return self.refusal

    def link_up(self, peer, hello):
        self.told.append(("up", peer))

    def link_down(self, peer, *, closed):
        self.told.append(("down", peer, closed))

    def refused(self, peer, refusal):
        self.told.append(("refused", peer, refusal.reason, refusal.is_fenced))

    def moving(self, peer, *, has_entries):
        self.moved.append((peer, "entries") if has_entries else peer)

    def receive(self, peer, message):
        self.told.append((peer, message))


class Side:
    """One node's links and whom they serve."""

    def __init__(self, name: str, secret: bytes = b"s", **settings) -> None:
        self.owner = Owner(name)
        self.turns = 0
        self.links = PeerLinks(
            secret=secret,
            randomness=SeededRandomness(ord(name)),
            settings=LinkSettings(**settings),
        )
        self.links.attach(self.owner, self.wake)
        self.links._is_started = True

    def wake(self) -> None:
        self.turns += 1


def dangling(link: PeerLink, host: str = "somewhere") -> Pipe:
    """Connect a link to nobody."""
    pipe, nobody = Pipe(), Pipe()
    pipe.host = host
    pipe.protocol, pipe.other, nobody.other = link, nobody, pipe
    nobody.is_lost = True
    link.connection_made(pipe)
    return pipe


def join(dialer: Side, acceptor: Side) -> tuple[PeerLink, PeerLink]:
    """Let one side dial the other."""
    ends = Pipe(), Pipe()
    here = PeerLink(dialer.links, acceptor.owner.hello.name)
    there = PeerLink(acceptor.links, "")
    for end, other, link in ((ends[0], ends[1], here), (ends[1], ends[0], there)):
        end.protocol, end.other = link, other
    here.connection_made(ends[0])
    there.connection_made(ends[1])
    return here, there


def run(scenario) -> None:
    """Run a scenario in an event loop whose timers nobody waits for."""

    async def main() -> None:
        scenario()

    asyncio.run(main())


def test_both_hear_of_the_link_and_messages_arrive() -> None:
    """In their order, with one wake for all that came together."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        join(a, b)
        assert ([("up", "b")], [("up", "a")]) == (a.owner.told, b.owner.told)
        turns = b.turns

        a.links.send("b", [TransferRequest(1), TransferRequest(2)])

        assert [("a", TransferRequest(1)), ("a", TransferRequest(2))] == b.owner.told[1:]
        assert turns + 1 == b.turns

    run(scenario)


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


def test_another_secret_gets_no_link(caplog) -> None:
    """Neither driver hears of a link; both sides say it, and that either may be wrong, once."""

    def scenario() -> None:
        a, b = Side("a", b"one", doubt_seconds=0), Side("b", b"other", doubt_seconds=0)
        for side, other in ((a, "b"), (b, "a")):
            side.links._addresses = {other: f"{other}:1"}
        for _ in range(50):
            join(a, b)
            join(b, a)

        assert ([], []) == (a.owner.told, b.owner.told)
        assert {"b"} == set(a.links.reasons)

    run(scenario)
    assert [
        "b and a do not have the same cluster secret: look at the secret file of both",
        "a and b do not have the same cluster secret: look at the secret file of both",
    ] == caplog.messages


def test_who_has_links_with_others_knows_the_secret(caplog) -> None:
    """So the one that has none is named, by itself too."""

    def scenario() -> None:
        a, b = Side("a", doubt_seconds=0), Side("b", doubt_seconds=0)
        wrong = Side("c", b"other", doubt_seconds=0)
        for side in (a, b, wrong):
            side.links._addresses = {it: "x:1" for it in "abc" if it != side.owner.hello.name}
        join(a, b)
        for _ in range(3):
            join(wrong, a)
            join(b, wrong)

    run(scenario)
    assert "c has the wrong cluster secret: a and b, all that answer, have another" in caplog.text
    assert "c has another cluster secret than a and b: look at" in caplog.text
    assert "c has another cluster secret than b and a: look at" in caplog.text
    assert 4 == len(caplog.messages)


def test_what_a_stranger_calls_itself_is_not_believed(caplog) -> None:
    """Nothing is said of a member that is linked, nor of who is none."""

    def scenario() -> None:
        a, b = Side("a", doubt_seconds=0), Side("b", doubt_seconds=0)
        a.links._addresses = {"b": "b:1"}
        join(a, b)
        for name in "bx":
            join(Side(name, b"other", doubt_seconds=0), a)
        assert {} == a.links.reasons

    run(scenario)
    assert any("no link with somebody at" in it for it in caplog.messages)
    assert not any("b has another" in it or "and x" in it for it in caplog.messages)


def test_a_refusal_that_lasts_is_told_once(caplog) -> None:
    """
    Whichever side decides, and however often, also where the other one had let it in; again when
    there was a link that lasted.
    """

    def scenario() -> None:
        a, b = Side("a"), Side("b")

        def refused() -> int:
            return sum(it[0] == "refused" for it in a.owner.told)

        b.owner.refusal = Refusal("no")
        for _ in range(20):
            join(a, b)
            join(b, a)
        assert 1 == refused()
        b.owner.refusal = None
        link, _ = join(a, b)
        link.made_at -= 60
        link.give_up()
        b.owner.refusal = Refusal("no")
        join(a, b)
        assert 2 == refused()

    run(scenario)
    assert 1 == sum("no link with a: no" in it for it in caplog.messages)


def test_a_refusal_reaches_the_dialer() -> None:
    """With its reason, and with the word that it is for good."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        b.owner.refusal = Refusal("removed", is_fenced=True)
        join(a, b)

        assert [("refused", "b", "removed", True)] == a.owner.told

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


def test_the_dialer_judges_too() -> None:
    """An address that leads to somebody else makes no link."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        a.owner.refusal = Refusal("not one of us")
        here, _ = join(a, b)

        assert [] == a.owner.told
        assert here._transport.is_lost

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


def test_of_two_links_the_one_dialed_by_the_earlier_name_stays() -> None:
    """Both dialed at once; both sides keep the same one."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        first, _ = join(b, a)
        second, _ = join(a, b)
        third, _ = join(b, a)

        assert first._transport.is_lost and third._transport.is_lost
        assert a.links._links["b"] is second
        assert ("up", "b") == a.owner.told[-1]

    run(scenario)


def test_a_restarted_peer_replaces_its_old_link() -> None:
    """Its old process is dead for certain, and the driver is told so."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        join(a, b)
        again = Side("b")
        again.owner.hello.instance = "2"
        join(again, a)

        assert [("down", "b", True), ("up", "b")] == a.owner.told[1:]

    run(scenario)


def test_a_second_node_of_a_connected_name_is_refused() -> None:
    """Two data directories under one name: the one that is connected stays."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        join(a, b)
        other = Side("b")
        other.owner.hello = Hello("b", "99" * 16, instance="3")
        join(other, a)

        assert [("up", "b")] == a.owner.told
        assert "another node called b" in other.owner.told[0][2]

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


def test_strangers_are_few() -> None:
    """Connections that prove nothing do not pile up: the oldest gives way."""

    def scenario() -> None:
        a = Side("a", strangers_max=1)
        first, second = [dangling(PeerLink(a.links, "")) for _ in range(2)]

        assert first.is_lost and not second.is_lost

    run(scenario)


def test_silent_strangers_keep_no_member_out() -> None:
    """Neither one that dials nor one that is dialed, wherever the silence comes from."""

    def scenario() -> None:
        a, b, c = Side("a"), Side("b"), Side("c")
        for _ in range(200):
            dangling(PeerLink(a.links, ""))
        join(a, b)
        join(c, a)

        assert [("up", "b"), ("up", "c")] == a.owner.told

    run(scenario)


def test_members_come_from_places_of_their_own() -> None:
    """Where a member was met, and where its address says, silence from elsewhere takes no place."""

    def scenario() -> None:
        a, b = Side("a", strangers_max=2), Side("b")
        a.links._is_started = False
        a.links.set_peers({"b": "10.0.0.2:7000", "c": "10.0.0.3:7000"})
        join(b, a)
        members = [dangling(PeerLink(a.links, ""), host) for host in ("somewhere", "10.0.0.3")]
        others = [dangling(PeerLink(a.links, ""), f"10.9.9.{it}") for it in range(9)]

        assert not any(pipe.is_lost for pipe in members)
        assert 2 == sum(not pipe.is_lost for pipe in others)

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


def test_strangers_that_fail_fill_no_log(caplog) -> None:
    """However many connections one source makes, there is one line of it."""

    def scenario() -> None:
        a = Side("a")
        for length in range(50):
            pipe = dangling(PeerLink(a.links, ""))
            pipe.protocol.data_received(b"GET /" + bytes([65 + length]) * 9)

    run(scenario)
    assert 1 == len(caplog.records)


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


def test_members_that_left_lose_their_links() -> None:
    """And messages to somebody without a link are dropped."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        here, _ = join(a, b)
        a.links._is_started = False

        a.links.set_peers({})
        a.links.send("x", [TransferRequest(1)])

        assert here._transport.is_lost

    run(scenario)


@pytest.mark.parametrize(
    ("text", "expected"), [("h:1", ("h", 1)), ("[::1]:22", ("::1", 22)), (":5", ("", 5))]
)
def test_addresses_are_split(text, expected) -> None:
    """Names, IPv6 in brackets, and every interface."""
    assert expected == split_address(text)
