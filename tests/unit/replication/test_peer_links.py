"""
Tests of replication/peer_links.py without sockets: who is let in, told, refused, counted.

tests/integration/test_peer_links.py has the same on loopback, with real drivers.
"""

from __future__ import annotations

from linked_sides import Side, dangling, join, run

from holdfast.replication.formation import Refusal
from holdfast.replication.messages import Hello, TransferRequest
from holdfast.replication.peer_link import PeerLink


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


def test_the_dialer_judges_too() -> None:
    """An address that leads to somebody else makes no link."""

    def scenario() -> None:
        a, b = Side("a"), Side("b")
        a.owner.refusal = Refusal("not one of us")
        here, _ = join(a, b)

        assert [] == a.owner.told
        assert here._transport.is_lost

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


def test_strangers_that_fail_fill_no_log(caplog) -> None:
    """However many connections one source makes, there is one line of it."""

    def scenario() -> None:
        a = Side("a")
        for length in range(50):
            pipe = dangling(PeerLink(a.links, ""))
            pipe.protocol.data_received(b"GET /" + bytes([65 + length]) * 9)

    run(scenario)
    assert 1 == len(caplog.records)


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
