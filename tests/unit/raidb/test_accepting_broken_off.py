"""
`mirror accept` that is broken off between any two statements, or does not hear of one.

It can be done again, or brokers start with what it came to; nothing that was left is lost by it.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.leases.contract import Outcome
from holdfast.mirrors.mirror_set import MirrorSet, accept
from holdfast.raidb import accepting
from holdfast.raidb.accepting import FoundDatabases, look_at
from holdfast.raidb.member import ActOf, Member
from tests.stores.leased_log_suite import SECONDS, Writer, read_all
from tests.unit.raidb.several import Killed, Several, fill

HOLDERS = ["d" * 32, "e" * 32, "f" * 32]
STATEMENTS_MAX = 60


def few_left(left: int, count: int, *, is_held: bool = False) -> Several:
    """So many of these databases are left, too few to start with; all have one entry."""
    several = Several(count)
    writer = several.writer()
    writer.append(b"one")
    if not is_held:
        writer.log.release(SECONDS)
    for it in several.databases[left:]:
        it.is_away = True
    return several


def accepted(several: Several, number: int) -> None:
    """What the command does: nothing where nothing is missing."""
    found = look_at(several.reached())
    if found.trouble():
        found.accept(f"mark {number}", HOLDERS[number], lambda _: None)


def require_served(several: Several) -> None:
    """A broker takes what is left, and has all of it."""
    writer = Writer(several.log(), "b")
    assert writer.take().end.index == 1
    writer.append(b"two")
    assert [bytes(it.body) for it in read_all(writer.log)] == [b"one", b"two"]


def walk_each_cut(left: int, count: int, *, is_held: bool = False) -> int:
    """Break it off before each of its statements, and then the second one as well."""
    cuts = 0
    for first in range(STATEMENTS_MAX):
        several = few_left(left, count, is_held=is_held)
        several.statements_left = first
        with suppress(Killed):
            accepted(several, 0)
            break
        cuts += 1
        several.statements_left = -1
        # Brokers that are there wait for an operator's word, or start: nothing else is said.
        try:
            several.log().close()
        except UnreachableError as error:
            assert "'holdfast mirror accept' goes on without them" in str(error)  # noqa: PT017
        several.statements_left = 2 * first % 23
        with suppress(Killed):
            accepted(several, 1)
        several.statements_left = -1
        accepted(several, 2)
        require_served(several)
    else:
        pytest.fail("it did not end")
    return cuts


@pytest.mark.parametrize(("left", "count"), [(1, 2), (1, 3), (2, 4), (2, 5)])
@pytest.mark.parametrize("is_held", [False, True], ids=["given back", "held by who is gone"])
def test_broken_off_anywhere_it_is_done_again(left: int, count: int, is_held: bool) -> None:
    """Killed before each statement: the next one goes on, and brokers start."""
    assert walk_each_cut(left, count, is_held=is_held) >= 7 * left  # All that it asks of each.


@pytest.mark.parametrize("statement", ["observe", "take", "write", "release"])
@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("place", [0, 1])
def test_what_is_not_heard_of_is_asked_again(statement: str, lost: str, place: int) -> None:
    """A connection breaks: the operator asks once more."""
    several = few_left(2, 4)
    ways = several.ways()[:2]
    found = look_at(several.reached(ways))
    ways[place].lost[statement] = lost
    with suppress(StoreError):
        found.accept("mark", HOLDERS[0], lambda _: None)
    accepted(several, 1)
    require_served(several)


def test_what_was_taken_is_given_back_where_another_one_cannot_be() -> None:
    """A broker wrote in the second one: the first one waits for no lease of nobody's."""
    several = few_left(2, 4)
    found = look_at(several.reached())
    several.databases[1].beat += 1
    with pytest.raises(UnreachableError, match="b-member is being written by a broker"):
        found.accept("mark", HOLDERS[0], lambda _: None)
    assert several.databases[0].is_released
    assert several.databases[0].written == several.databases[1].written


def test_the_walk_notices_a_set_that_is_written_before_all_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the safeguard: broken off between two, each says of the other that it is foreign."""

    def one_after_the_other(
        self: FoundDatabases, mark: str, holder: str, _sleep: object
    ) -> MirrorSet:
        chosen = accept(self.copies, mark)
        token = accepting.Token(chosen.number.start, holder)
        claimant = accepting.Claimant(holder=holder, name="accept", admin="", stomp="")
        for it in sorted(chosen.active):
            acts: list[ActOf] = [
                accepting._seize(self.rows[it], token, claimant),
                accepting._write(token, accepting.KnownSet(chosen)),
                lambda member, seconds: _given_back(member, token, seconds),
            ]
            for act in acts:
                assert self.databases.ask(it, act, SECONDS) is Outcome.STORED
        return chosen

    monkeypatch.setattr(FoundDatabases, "accept", one_after_the_other)
    with pytest.raises((AssertionError, StoreError), match="never let begin"):
        walk_each_cut(2, 4)


def test_what_an_earlier_version_left_half_done_is_gone_on_with() -> None:
    """It wrote in the first before it took the second: the first one alone is accepted anew."""
    several = few_left(2, 4)
    first = several.databases[0]
    chosen = accept(look_at(several.reached()).copies, "half")
    token = accepting.Token(chosen.number.start, HOLDERS[0])
    claimant = accepting.Claimant(holder=HOLDERS[0], name="accept", admin="", stomp="")
    assert first.seize(first.row(), token, claimant)
    first.write_set(first.row(), token, accepting.KnownSet(chosen))
    with pytest.raises(UnreachableError, match="name what is right to 'holdfast mirror accept'"):
        several.reached()

    look_at(several.reached(several.ways()[:1])).accept("whole", HOLDERS[1], lambda _: None)
    writer = Writer(several.log(), "b")
    assert writer.take().end.index == 1
    fill(writer)
    assert several.states() == "active active failed failed"


def _given_back(member: Member, token: accepting.Token, seconds: float) -> Outcome:
    member.give_back(token, seconds)
    return Outcome.STORED
