"""
Whose handshake goes on: few at once, each address in turn, and who only fills the line goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from random import Random

import pytest

from holdfast.transport import handshakes
from holdfast.transport.handshakes import (
    AT_ONCE_SECONDS,
    FAR_SECONDS,
    HASTE_SECONDS,
    NO_ROOM,
    Handshakes,
)
from holdfast.transport.settings import PortSettings

GIVEN_UP = "others came, and it took its time or its site had more than they"


class Line:
    """A node's line of strangers, with a clock that is advanced by hand."""

    def __init__(self, *, has_door: bool = True, lent: int = 0, **given: float) -> None:
        values = {"stranger_count_max": 16, "handshake_count_max": 2, **given}
        settings = PortSettings(**values)  # type: ignore[arg-type]
        self.lent = lent
        self.handshakes = Handshakes(settings, has_door=has_door, lent=lambda: self.lent)
        self.now = 100.0
        self.handshakes.clock = lambda: self.now
        self.proceeded: list[str] = []
        self.ended: list[tuple[str, str]] = []
        self.resumed = 0

    def come(self, name: str, source: str = "s") -> Fake:
        assert self.handshakes.expect(self.resume)
        stranger = Fake(self, name, source)
        assert self.handshakes.enter(stranger)
        return stranger

    def ready(self, name: str, source: str = "s") -> Fake:
        stranger = self.come(name, source)
        self.handshakes.wait(stranger)
        return stranger

    def knock(self, name: str, source: str = "s", *, has_spoken: bool = True) -> Fake:
        """Come, and wait for a place where there is none."""
        assert self.handshakes.expect(self.resume)
        comer = Fake(self, name, source, has_spoken=has_spoken)
        self.handshakes.let_in(comer)
        return comer

    def resume(self) -> None:
        self.resumed += 1


class Fake:
    """Somebody at the door."""

    def __init__(self, line: Line, name: str, source: str, *, has_spoken: bool = True) -> None:
        self.line = line
        self.name = name
        self.source = source
        self.has_spoken = has_spoken
        self.has_begun = False
        self.seconds = 0.0

    def begin(self) -> None:
        self.has_begun = True
        if self.has_spoken:
            self.line.handshakes.wait(self)

    def proceed(self) -> None:
        self.line.proceeded.append(self.name)
        self.line.now += self.seconds

    def give_up(self, reason: str) -> None:
        self.line.ended.append((self.name, reason))
        self.line.handshakes.leave(self)


async def turns(count: int = 1) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(work())  # type: ignore[arg-type]


def test_few_are_under_way_and_each_address_has_its_turn() -> None:
    """A hundred from one machine do not keep one from another waiting for all of them."""

    async def work() -> None:
        line = Line()
        crowd = [line.ready(f"a{number}", "10.0.0.1") for number in range(5)]
        line.ready("b", "10.0.0.2")
        await turns()
        assert line.proceeded == ["a0", "b"], "the second is another's, though it came last"
        line.handshakes.leave(crowd[0])
        await turns()
        assert line.proceeded == ["a0", "b", "a1"]

    run(work)


def test_a_turn_works_no_longer_than_its_slice() -> None:
    """What is left goes on in the next turn: all that waits would be a stop of seconds."""

    async def work() -> None:
        line = Line(handshake_count_max=10, handshake_slice_seconds=0.003)
        for number in range(5):
            line.ready(f"{number}").seconds = 0.002
        await turns()
        assert line.proceeded == ["0", "1"]
        await turns()
        assert line.proceeded == ["0", "1", "2", "3"]

    run(work)


def test_who_goes_on_is_before_who_begins() -> None:
    """Its end makes room; it has had the dear part already."""

    async def work() -> None:
        line = Line()
        first = line.ready("first")
        await turns()
        line.ready("second")
        line.handshakes.go_on(first)
        await turns()
        assert line.proceeded == ["first", "first", "second"]
        line.handshakes.leave(first)
        line.handshakes.go_on(first)
        await turns()
        assert line.proceeded == ["first", "first", "second"], "it is gone"

    run(work)


def test_who_leaves_its_handshake_lying_makes_room_after_a_while() -> None:
    """Two that never go on would keep the port closed for everybody else."""

    async def work() -> None:
        line = Line(handshake_patience_seconds=0.02)
        for name in ("x", "y", "z"):
            line.ready(name)
        await turns()
        assert (line.proceeded, line.ended) == (["x", "y"], [])
        line.now += 0.021
        while not line.ended:
            await turns()
        assert [name for name, _ in line.ended] == ["x"]
        assert line.proceeded == ["x", "y", "z"]

    run(work)


def test_as_long_as_some_come_to_their_end_nobody_is_given_up() -> None:
    """A crowd of clients on a busy machine takes seconds; each of them is worth waiting for."""

    async def work() -> None:
        line = Line(handshake_patience_seconds=5)
        crowd = [line.ready(name) for name in "vwxyz"]
        await turns()
        for stranger in crowd[1:4]:
            line.now += 4
            line.handshakes.done(stranger)
            await turns()
        assert (line.proceeded, line.ended) == (list("vwxyz"), [])

    run(work)


def test_silent_strangers_make_room_and_those_who_spoke_do_not() -> None:
    """Sockets that say nothing, however many, keep nobody out; a real crowd waits at the door."""

    async def work() -> None:
        line = Line(handshake_count_max=1, handshake_patience_seconds=0.02)
        for number in range(16):
            line.come(f"silent{number}")
        assert not line.handshakes.expect(line.resume), "each may have been about to speak"
        line.now += 0.02
        while not line.resumed:
            await turns()
        for number in range(16, 20):
            line.come(f"silent{number}")
        assert len(line.handshakes) == 16
        assert [name for name, _ in line.ended] == ["silent0", "silent1", "silent2", "silent3"]
        line = Line(handshake_count_max=1)
        crowd = [line.ready(f"{number}") for number in range(16)]
        assert not line.handshakes.expect(line.resume)
        assert (len(line.handshakes), line.resumed, line.ended) == (16, 0, [])
        line.handshakes.leave(crowd[3])
        line.handshakes.leave(crowd[4])
        assert line.resumed == 1, "asked once, called once"

    run(work)


def test_who_fills_the_room_from_one_address_keeps_nobody_else_out() -> None:
    """
    It is its own that go: first who said nothing, then who came last; and no more of it come in.
    """

    async def work() -> None:
        line = Line(stranger_count_max=20, handshake_count_max=1, handshake_patience_seconds=3)
        line.come("there", "10.0.0.3")
        for number in range(2):
            line.come(f"silent{number}", "10.0.0.1")
        for number in range(17):
            line.ready(f"half{number}", "10.0.0.1")
        assert len(line.handshakes) == 20
        for source in ("10.0.0.2", "10.0.0.3", "10.0.0.4"):
            assert line.handshakes.expect(line.resume)
            assert line.handshakes.admit(Fake(line, "other", source))
            assert len(line.handshakes) == 20
        assert [name for name, _ in line.ended] == ["silent0", "silent1", "half16"]
        assert not line.handshakes.expect(line.resume), "each has its share at most now"
        line.now += 4
        assert line.handshakes.expect(line.resume), "one that has said nothing has had its time"
        assert line.handshakes.admit(Fake(line, "nine", "10.0.0.9"))

    run(work)


def test_who_leaves_us_waiting_goes_for_one_of_whom_there_are_fewer() -> None:
    """
    Twelve addresses with sixteen each, of which none had more than a tenth, shut a port for good:
    nobody went who had said half of what there is to say.
    """

    async def work() -> None:
        line = Line(stranger_count_max=64, handshake_count_max=100)
        for number in range(64):
            line.ready(f"{number}", f"10.0.0.{number % 4}")
        for _ in range(2):
            await turns()
        assert not line.handshakes.admit(Fake(line, "early", "10.0.0.9")), "they may be far away"
        line.now += HASTE_SECONDS
        for number in range(12):
            assert line.handshakes.admit(Fake(line, f"new{number}", "10.0.0.9")), number
        assert len(line.handshakes) == 64
        ended = [name for name, _ in line.ended]
        assert {int(name) % 4 for name in ended} == {0, 1, 2, 3}
        assert not line.handshakes.admit(Fake(line, "more", "10.0.0.9")), (
            "of each there are as many now"
        )
        assert not line.handshakes.admit(Fake(line, "more", "10.0.0.1"))

    run(work)


@pytest.mark.parametrize("sites", [1, 16])
def test_where_nobody_waits_at_the_door_idle_sockets_cost_nobody_a_place(sites: int) -> None:
    """
    Of one address, as a local user's and the operator's are, or of as many as there are places:
    thirty-two, opened anew once a second, kept whoever came after them out for good.
    """

    async def work() -> None:
        line = Line(has_door=False, handshake_count_max=16)
        for number in range(16):
            begin = line.ready if number % 2 else line.come
            begin(f"{number}", f"10.0.0.{number % sites}")
        for _ in range(3):
            await turns()
        assert not line.handshakes.admit(Fake(line, "early", "10.0.0.0")), (
            "in no time at all nobody has ended a handshake"
        )
        line.now += AT_ONCE_SECONDS
        taken = [
            line.handshakes.admit(Fake(line, f"new{number}", f"10.0.0.{number % sites}"))
            for number in range(16)
        ]
        assert taken[:12] == [True] * 12
        assert len(line.ended) == sum(taken), "the others stay for whoever is far"
        line.now += AT_ONCE_SECONDS
        assert line.handshakes.admit(Fake(line, "operator", "10.0.0.0"))
        assert len(line.handshakes) == 16

    run(work)


def test_where_nobody_waits_at_the_door_who_waits_for_us_goes_for_none_of_its_own() -> None:
    """It has brought all there is to bring: somebody who floods the port would end each of them."""

    async def work() -> None:
        line = Line(has_door=False, handshake_count_max=1)
        for number in range(16):
            line.ready(f"{number}")
        await turns()
        line.now += 60
        assert line.handshakes.admit(Fake(line, "one", "s"))
        assert [name for name, _ in line.ended] == ["0"], "the only one that we wait for"
        assert not line.handshakes.admit(Fake(line, "two", "s"))
        assert len(line.ended) == 1

    run(work)


@pytest.mark.parametrize("sites", [1, 64])
@pytest.mark.parametrize(("far_seconds", "a_second"), [(0.22, 500), (0.24, 400)])
def test_one_who_is_far_comes_to_his_end_while_somebody_floods_the_port(
    far_seconds: float, a_second: int, sites: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    All sixty-four places turned over before the one answer that he needs had come, however often
    he tried: some tries out of sixty are enough, as he has five seconds for a dozen. They are of
    his own address, or of as many others as there are places.
    """

    def served() -> int:
        line, chance, served = Line(has_door=False, stranger_count_max=64), Random(1), 0

        def come(name: str, source: str) -> bool:
            return line.handshakes.admit(Fake(line, name, source))

        def flood() -> None:
            line.now += chance.uniform(0.5, 1.5) * 8 / a_second
            for _ in range(8):  # They come in small crowds, as they are closed on.
                come("flood", f"10.0.0.{chance.randrange(sites)}")

        for tried in range(60):
            for _ in range(chance.randrange(1, 40)):
                flood()
            is_in, came_at = come(f"{tried}", "10.0.0.0" if sites == 1 else "10.9.9.9"), line.now
            while is_in and (f"{tried}", GIVEN_UP) not in line.ended:
                flood()
                if line.now - came_at >= far_seconds:
                    served += 1
                    break
        return served

    assert served() >= (2 if sites == 1 else 60)
    monkeypatch.setattr(handshakes, "_SPARED_PART", 1_000)
    assert sites > 1 or served() == 0, "so it was"


def test_whom_we_have_answered_is_waited_for_anew() -> None:
    """
    A client that is asked for another key answers twice: from far away each takes its time, and
    while somebody floods the port both together were too long.
    """

    async def work() -> None:
        line = Line(has_door=False, handshake_count_max=16)
        far = line.ready("far")
        for number in range(15):
            line.ready(f"{number}")
        for _ in range(3):
            await turns()
        line.now += FAR_SECONDS
        line.handshakes.sent(far)
        line.handshakes.sent(Fake(line, "gone", "s"))
        for number in range(15):
            assert line.handshakes.admit(Fake(line, f"new{number}", "s"))
        assert [name for name, _ in line.ended] == [str(number) for number in range(15)]
        assert not line.handshakes.admit(Fake(line, "early", "s"))
        line.now += FAR_SECONDS
        assert line.handshakes.admit(Fake(line, "next", "s"))
        assert line.ended[-1][0] == "far", "it has left us waiting for longest"

    run(work)


def test_one_site_is_one_among_others_however_many_networks_it_has() -> None:
    """Whoever has a site has 65,536 networks: each would be somebody else, and fill the room."""

    async def work() -> None:
        line = Line(stranger_count_max=64, handshake_count_max=8, handshake_patience_seconds=9)
        for number in range(64):
            line.ready(f"{number}", f"2001:db8:1:{number:x}::1")
        await turns()
        assert line.handshakes.expect(line.resume)
        for number in range(8):
            line.ready(f"own{number}", f"10.0.0.{number}")
        line.now += HASTE_SECONDS
        line.handshakes._look_again()
        for _ in range(8):
            await turns()
        begun = [name for name in line.proceeded if name.startswith("own")]
        assert begun == [f"own{number}" for number in range(7)], "and one is left to the site"
        assert len(line.handshakes) == 64
        assert line.handshakes.admit(Fake(line, "same site", "2001:db8:1:ffff::1")) is False

    run(work)


def test_one_who_waits_for_us_goes_for_nobody() -> None:
    """A crowd that the node is slow with: who comes waits at the door, and takes no place of it."""

    async def work() -> None:
        line = Line(stranger_count_max=64, handshake_count_max=2, handshake_patience_seconds=9)
        for number in range(64):
            line.ready(f"{number}", f"10.0.0.{number // 6}")
        await turns()
        line.now += 5
        for stranger in list(line.handshakes._under_way):
            line.handshakes.go_on(stranger)
        assert not line.handshakes.expect(line.resume)
        assert not line.handshakes.admit(Fake(line, "other", "10.1.0.1"))
        assert line.ended == []
        assert line.handshakes._door_timer is not None

    run(work)


def test_addresses_of_ipv4_are_many_also_where_a_port_takes_both_kinds() -> None:
    """All of them are spelled in one network of IPv6 there, and none is another's."""

    async def work() -> None:
        line = Line(stranger_count_max=20)
        for number in range(20):
            line.ready(f"half{number}", "::ffff:10.0.0.1")
        assert line.handshakes.admit(Fake(line, "two", "::ffff:10.0.0.2"))
        assert not line.handshakes.admit(Fake(line, "one", "10.0.0.1")), "however it is spelled"

    run(work)


def test_who_has_its_share_gets_no_more_where_there_is_no_room() -> None:
    """It is closed, and told of; what it may do is give one of its own for another."""

    async def work() -> None:
        line = Line(stranger_count_max=20)
        line.come("silent", "2001:db8::1")
        for number in range(19):
            line.ready(f"half{number}", f"2001:db8::{number:x}")
        for source in ("2001:db8::ffff", "2001:db8:0:0:5::1%eth0"):
            assert line.handshakes.expect(line.resume)
            assert not line.handshakes.admit(Fake(line, "same", source)), "64 bits are one address"
        assert line.handshakes.failed_count == 2
        assert line.handshakes.expect(line.resume)
        line.now += 4
        assert line.handshakes.admit(Fake(line, "same", "2001:db8::ffff"))
        assert [name for name, _ in line.ended] == ["silent"]
        assert line.handshakes.admit(Fake(line, "neighbour", "2001:db8:0:1::1"))
        assert len(line.ended) == 2, "of its site's other network"

    run(work)


def test_who_finishes_one_now_and_then_does_not_hold_up_another_address() -> None:
    """All under way are of one address that ends one a second: the other's turn comes at once."""

    async def work() -> None:
        line = Line(handshake_count_max=4, handshake_patience_seconds=3)
        crowd = [line.ready(f"a{number}", "10.0.0.1") for number in range(8)]
        await turns()
        line.now += 1
        line.handshakes.done(crowd[0])
        await turns()
        line.ready("b", "10.0.0.2")
        await turns()
        assert line.proceeded == ["a0", "a1", "a2", "a3", "a4", "b"]
        assert [name for name, _ in line.ended] == ["a1"]
        line.ready("c", "10.0.0.3")
        await turns()
        assert [name for name, _ in line.ended] == ["a1", "a2"]
        line.ready("d", "10.0.0.4")
        await turns()
        line.ready("e", "10.0.0.5")
        await turns()
        assert [name for name, _ in line.ended] == ["a1", "a2", "a3"]
        assert line.proceeded[-1] == "d", "each has as many as another now, or one more"

    run(work)


def test_who_has_just_begun_is_not_given_up_for_another() -> None:
    """A client far away answers after a while, of whatever address."""

    async def work() -> None:
        line = Line(handshake_count_max=4, handshake_patience_seconds=3)
        for number in range(4):
            line.ready(f"a{number}", "10.0.0.1")
        await turns()
        line.ready("b", "10.0.0.2")
        await turns()
        assert line.ended == []
        assert line.handshakes._timer is not None
        line.now += HASTE_SECONDS + 0.001
        line.handshakes._look_again()
        await turns()
        assert [name for name, _ in line.ended] == ["a0"]
        assert line.proceeded[-1] == "b"

    run(work)


def test_who_was_admitted_keeps_its_place_until_it_is_a_connection() -> None:
    """It is counted by its address meanwhile, and may have had to give way as any other."""

    async def work() -> None:
        line = Line()
        arrived = [Fake(line, f"a{number}", f"10.0.0.{number}") for number in range(16)]
        assert all(line.handshakes.admit(it) for it in arrived)
        assert not line.handshakes.expect(line.resume)
        connection = Fake(line, "c", "10.0.0.0")
        assert line.handshakes.enter(connection, arrived[0])
        assert len(line.handshakes) == 16
        line.now += 4
        assert line.handshakes.admit(Fake(line, "other", "10.0.0.99"))
        assert [name for name, _ in line.ended] == ["a1"]
        assert not line.handshakes.enter(Fake(line, "late", "10.0.0.1"), arrived[1])
        assert len(line.handshakes) == 16

    run(work)


def test_who_is_refused_stays_until_the_room_is_needed() -> None:
    """It is to read why; it is counted, and the first to go."""

    async def work() -> None:
        line = Line()
        refused = line.come("refused")
        line.handshakes.linger(refused)
        assert len(line.handshakes) == 1
        line.now += 60
        for number in range(16):
            line.come(f"{number}")
        assert [name for name, _ in line.ended] == ["refused"]

    run(work)


def test_a_fleet_of_one_site_waits_for_its_places_and_none_is_closed() -> None:
    """
    Of two thousand clients behind one address a thousand were closed, as their site had its share,
    though nobody else was there.
    """

    async def work() -> None:
        line = Line(lent=1_000)
        fleet = [line.knock(f"{number}") for number in range(200)]
        assert [it.has_begun for it in fleet] == [True] * 16 + [False] * 184
        for number in range(200):
            for _ in range(4):
                await turns()
            line.now += 1.0  # They are slow: each second one of them comes to its end.
            line.handshakes.done(fleet[number])
        assert line.proceeded == [f"{number}" for number in range(200)], "in their order"
        assert line.ended == []
        assert len(line.handshakes) == 0

    run(work)


def test_who_says_nothing_has_no_place_before_a_fleet_and_takes_none_of_it() -> None:
    """A crowd of another address, as many again: it waits, and has what nobody else wants."""

    async def work() -> None:
        line = Line(lent=1_000, handshake_count_max=8)
        fleet = [line.knock(f"{number}", "10.0.0.1") for number in range(50)]
        silent = [line.knock(f"s{it}", "10.0.0.2", has_spoken=False) for it in range(50)]
        for number in range(50):
            line.now += HASTE_SECONDS / 2
            line.handshakes.done(fleet[number])
            for _ in range(3):
                await turns()
            assert not any(it.has_begun for it in silent) or number >= 33
        assert line.ended == []
        assert [it.has_begun for it in silent].count(True) == 16, "the room is theirs now"
        other = line.knock("other", "10.0.0.3")
        await turns(2)
        assert other.has_begun
        assert [name[0] for name, _ in line.ended] == ["s"]
        one_more = line.knock("silent", "10.0.0.4", has_spoken=False)
        await turns(2)
        assert not one_more.has_begun

    run(work)


def test_as_long_as_places_come_free_nobody_goes_for_who_waits_for_one() -> None:
    """Who is of another site has the next one, before all of the fleet."""

    async def work() -> None:
        line = Line(lent=1_000, handshake_count_max=16)
        fleet = [line.knock(f"{number}", "10.0.0.1") for number in range(30)]
        for _ in range(3):
            await turns()
        line.now += 2  # All are waited for: a client's machine that is busy.
        line.handshakes.done(fleet[0])
        await turns(2)
        assert fleet[16].has_begun
        line.now += HASTE_SECONDS / 2
        other = line.knock("other", "10.0.0.2")
        await turns(2)
        assert (other.has_begun, line.ended) == (False, [])
        line.handshakes.done(fleet[1])
        await turns(2)
        assert (other.has_begun, fleet[17].has_begun, line.ended) == (True, False, [])
        line.now += HASTE_SECONDS
        third = line.knock("third", "10.0.0.3")
        await turns(2)
        assert third.has_begun, "and where they stand still one goes, of who has more"
        assert [name for name, _ in line.ended] == ["2"]
        line.now += 1
        line.handshakes.done(fleet[15])
        fourth, fifth = (line.knock(f"{it}", f"10.0.0.{it}") for it in (4, 5))
        await turns(3)
        assert fourth.has_begun
        assert fifth.has_begun, "three seconds are enough, whoever of them comes to his end"
        assert [name for name, _ in line.ended] == ["2", "3"]

    run(work)


def test_who_comes_to_his_end_keeps_no_place_for_who_says_nothing() -> None:
    """
    A crowd kept its places by a handshake of its own now and then, or by those of the fleet that
    it kept out: that came in through one place.
    """

    async def work() -> None:
        line = Line(lent=1_000, handshake_count_max=16)
        silent = [line.knock(f"s{it}", "10.0.0.2", has_spoken=False) for it in range(15)]
        dripping = line.knock("d", "10.0.0.2")
        await turns()
        line.now += HASTE_SECONDS / 2
        fleet = [line.knock(f"{number}", "10.0.0.1") for number in range(40)]
        await turns(3)
        assert not any(it.has_begun for it in fleet), "they may be about to speak"
        line.now += HASTE_SECONDS / 2
        line.handshakes.done(dripping)
        await turns(3)
        assert [it.has_begun for it in fleet].count(True) == 8, "as many as the crowd has"
        assert [name for name, _ in line.ended] == [it.name for it in silent[:7]]
        for each in fleet[:8]:
            line.handshakes.done(each)
        await turns(3)
        assert [it.has_begun for it in fleet].count(True) == 16, "each has the place of one before"
        assert len(line.ended) == 7

    run(work)


def test_of_ones_own_nobody_goes_while_they_come_to_their_ends() -> None:
    """A fleet on a busy machine says nothing for seconds; where none goes on the oldest goes."""

    async def work() -> None:
        line = Line(lent=1_000, handshake_patience_seconds=3)
        silent = [line.knock(f"s{number}", has_spoken=False) for number in range(15)]
        first, second = line.knock("first"), line.knock("second")
        line.now += 20
        line.handshakes.done(first)
        await turns(2)
        third = line.knock("third")
        line.now += 2.5
        line.handshakes._look_soon()
        await turns(2)
        assert (second.has_begun, third.has_begun, line.ended) == (True, False, [])
        line.now += 1
        line.handshakes._look_soon()
        await turns(2)
        assert third.has_begun
        assert [name for name, _ in line.ended] == [silent[0].name]

    run(work)


def test_who_waits_for_a_place_gives_it_back_to_those_inside() -> None:
    """What is lent is the clients' own: where they need it, nobody waits, and all is as without."""

    async def work() -> None:
        line = Line(lent=40)
        fleet = [line.knock(f"{number}") for number in range(56)]
        assert line.handshakes.expect(line.resume), "one of another site may come"
        line.knock("more")
        assert line.ended == [("more", NO_ROOM)]
        line.lent = 32
        line.handshakes.shrink()
        assert [name for name, _ in line.ended[1:]] == [f"{it}" for it in range(55, 47, -1)]
        line.handshakes.leave(fleet[20])
        line.lent = 0
        line.handshakes.shrink()
        assert len(line.ended) == 1 + 8 + 31
        assert not line.handshakes.expect(line.resume)
        line.handshakes.let_in(Fake(line, "closed", "s"))
        assert line.ended[-1] == ("closed", NO_ROOM)
        line.handshakes.done(fleet[0])
        assert line.resumed == 1
        assert line.knock("last").has_begun

    run(work)


def test_a_door_that_is_shut_opens_as_soon_as_one_may_wait() -> None:
    """As many sites as there is room for wait, each with one: whoever comes waits in the kernel."""

    async def work() -> None:
        line = Line(lent=32)
        crowd = [line.knock(f"{number}", f"10.0.0.{number}") for number in range(48)]
        assert not line.handshakes.expect(line.resume)
        await turns(2)
        assert line.resumed == 0
        line.handshakes.leave(crowd[3])
        await turns(2)
        assert line.resumed == 1
        assert line.handshakes.expect(line.resume)
        assert len(line.handshakes) == 16

    run(work)


def test_no_turn_gives_places_to_more_than_a_port_takes_in_one() -> None:
    """A room that stood still all at once is filled again in some turns, and soon."""

    async def work() -> None:
        line = Line(lent=1_000, stranger_count_max=100, handshake_patience_seconds=1)
        crowd = [line.knock(f"s{number}", "10.0.0.1", has_spoken=False) for number in range(100)]
        fleet = [line.knock(f"{number}", "10.0.0.2") for number in range(100)]
        line.now += HASTE_SECONDS
        began = []
        for _ in range(6):
            await turns()
            began.append(sum(it.has_begun for it in fleet))
        assert [after - before for before, after in pairwise(began)] == [16, 16, 2, 0, 0]
        assert len(line.ended) == 50, "each has as many as the other then"
        assert {name[0] for name, _ in line.ended} == {"s"}
        assert crowd[-1].name not in dict(line.ended)

    run(work)


def test_failures_are_told_now_and_then_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A stranger fails as often as it likes, and must not fill the log."""
    line = Line()
    stranger = Fake(line, "x", "10.9.9.9")
    for _ in range(50):
        line.handshakes.failed(stranger, "it said no")
    line.now += 61
    line.handshakes.failed(stranger, "it said no")
    assert [record.args for record in caplog.records] == [
        ("10.9.9.9", "it said no", 1),
        ("10.9.9.9", "it said no", 51),
    ]
