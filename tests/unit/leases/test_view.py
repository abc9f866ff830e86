"""What a broker over a shared log says of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import AppendRefusedError
from holdfast.leases import tenure
from holdfast.leases.contract import Claimant, TakeGoesOnError, Waiter
from holdfast.leases.orders import Take
from holdfast.leases.state import ALWAYS
from holdfast.model.format_level import FIRST_LEVEL
from trials.leased.model_medium import ModelMedium


@pytest.fixture
def pair(broker: Callable[..., Any]) -> tuple[Any, Any]:
    """One that serves, and one that waits and knows it."""
    holder = broker("a").serve()
    standby = broker("b")
    standby.until(lambda: standby.driver.leader == "a" and "b" in standby.medium.waiters)
    return holder, standby


def test_roles_and_names(pair: tuple[Any, Any]) -> None:
    """Who holds it is known to both, by name and address."""
    holder, standby = pair

    assert ("leader", "standby") == (holder.driver.role, standby.driver.role)
    assert (True, False) == (holder.driver.is_leader, standby.driver.is_leader)
    assert holder.driver.claimant == holder.driver.holder == standby.driver.holder
    assert ("a", 1) == (standby.driver.leader, standby.driver.term)
    assert holder.medium.identity == standby.driver.identity()
    assert "model" == standby.driver.facts().kind
    assert 5.0 == standby.driver.lease_seconds == standby.driver.holder.lease_seconds


def test_it_is_told_how_long_ago_all_of_the_log_was_read(
    pair: tuple[Any, Any], broker: Callable[..., Any]
) -> None:
    """
    Whether a user may still what he could is known as of then; its holder knows it always.
    """
    holder, standby = pair
    holder.store(b"one")
    standby.until(lambda: standby.driver.told_commit_index == 1)
    assert standby.driver.unheard_seconds is not None
    assert standby.driver.unheard_seconds < 5.0
    assert 0.0 == holder.driver.unheard_seconds
    assert None is broker("c").driver.unheard_seconds


def test_who_has_not_reached_the_log_yet_says_so(broker: Callable[..., Any]) -> None:
    """Nobody can count on such a one to follow: it is not ready."""
    late = broker("c")
    assert late.driver.trouble == "the log has not been reached yet"
    late.until(lambda: late.driver.leader or late.driver.identity())
    assert late.driver.trouble == ""


def test_the_length_of_the_lease_is_the_holders(pair: tuple[Any, Any]) -> None:
    """What is shown is what is waited for; each one's own counts once it holds it."""
    holder, standby = pair
    standby.state.lease_seconds = 7.0

    assert (5.0, 5.0) == (holder.driver.lease_seconds, standby.driver.lease_seconds)


def test_nothing_is_known_before_the_medium_was_reached(broker: Callable[..., Any]) -> None:
    """No identity, no holder, and nobody it could be handed to."""
    fresh = broker("a")

    driver = fresh.driver
    assert ("joining", "", None) == (driver.role, driver.identity(), driver.leader)
    assert not fresh.driver.is_serving
    assert [] == fresh.driver.others()


def test_how_long_it_is_held_and_silent(pair: tuple[Any, Any]) -> None:
    """The holder says how long it has it and how long it is sure of it; the other waits."""
    holder, standby = pair
    now = holder.passage.now
    left = holder.driver.lease_left_seconds
    holder.passage.now += 2.0

    assert pytest.approx(holder.passage.now - holder.state.held_since) == holder.driver.held_seconds
    assert pytest.approx(left - 2.0) == holder.driver.lease_left_seconds
    assert holder.state.valid_until > now
    assert 0.0 == holder.driver.silent_seconds
    standby.until(lambda: standby.driver.silent_seconds > 3.0)
    assert standby.driver.held_seconds is None
    assert 0.0 == standby.driver.lease_left_seconds


def test_it_dispatches_by_the_clock_of_the_moment(pair: tuple[Any, Any]) -> None:
    """A process that was stopped within a turn asks the clock again, not the turn (L2, L11)."""
    driver, passage = pair[0].driver, pair[0].passage
    assert driver.may_dispatch(0.0)
    assert driver.holds_lease(0.0)
    passage.now = pair[0].state.valid_until - 1.0
    assert driver.may_dispatch(0.0)
    assert not driver.holds_lease(0.0)
    passage.now = pair[0].state.valid_until
    assert not driver.may_dispatch(0.0)
    assert not pair[1].driver.may_dispatch(0.0)


def test_what_is_being_given_back_is_not_dispatched_from(pair: tuple[Any, Any]) -> None:
    """Another one may hold it before the reply is here."""
    holder, standby = pair
    holder.until(lambda: holder.driver.is_there("b"))
    holder.driver.transfer()

    assert holder.driver.is_leader
    assert holder.driver.is_handing_over
    assert not holder.driver.is_serving
    assert not holder.driver.may_dispatch(0.0)
    assert not holder.driver.holds_lease(0.0)
    assert not standby.driver.is_handing_over


def test_others_are_those_that_told_lately(pair: tuple[Any, Any], medium: ModelMedium) -> None:
    """By name; one whose line does not change is away, however often it is read."""
    holder, _ = pair
    holder.until(lambda: holder.driver.is_there("b"))
    assert ["b"] == [it.claimant.name for it in holder.driver.others()]
    told = holder.passage.now
    holder.until(lambda: not holder.driver.is_there("b"))
    assert holder.passage.now - told >= 3 * holder.state.settings.tell_seconds
    assert ["b"] == [it.claimant.name for it in holder.driver.others()]
    del medium.waiters["b"]
    holder.until(lambda: not holder.driver.others())
    assert ALWAYS == holder.driver.seen_seconds("b")


def test_the_level_of_all_is_the_lowest_known(pair: tuple[Any, Any], medium: ModelMedium) -> None:
    """Whoever told of itself counts, also while it is away: it comes back with what it knows."""
    holder, standby = pair
    holder.until(lambda: holder.driver.format_level_of_all == 7)
    medium.waiters["old"] = old_one()
    holder.until(lambda: holder.driver.format_level_of_all == 3)
    assert standby.driver.format_level_of_all == FIRST_LEVEL  # It does not lead.


def test_who_takes_the_lease_hears_who_waits_before_it_speaks_for_all(
    broker: Callable[..., Any], medium: ModelMedium
) -> None:
    """At its start, and where it held the lease before: one that waits may be held up just then."""
    holder = broker("a")
    medium.waiters["old"] = old_one()
    told = set()

    def is_asked() -> bool:
        told.add(holder.driver.format_level_of_all)
        return holder.driver.is_serving and holder.driver.format_level_of_all > FIRST_LEVEL

    for _ in range(2):
        holder.until(lambda: holder.take() is not None and is_asked())
        assert told == {FIRST_LEVEL, 3}
        told.clear()
        holder.driver.transfer()
        holder.until(lambda: not holder.driver.is_leader)


def test_what_cannot_be_heard_is_not_known(broker: Callable[..., Any], medium: ModelMedium) -> None:
    """The medium refuses what is told of brokers, and keeps the log: the level stays."""
    holder = broker("a")
    medium.waiters["old"] = old_one()
    holder.log.tell = refuse
    holder.serve()
    holder.until(lambda: holder.state.left_undone)
    assert holder.driver.format_level_of_all == FIRST_LEVEL


def old_one() -> Waiter:
    """The line of a broker of an earlier version."""
    old = Claimant(holder="o" * 32, name="old", admin="", stomp="")
    return Waiter(claimant=old, known_level=3, beat=1, applied_index=0)


def refuse(*_arguments: object) -> None:
    raise AppendRefusedError("no right to write there")


def test_what_was_read_and_what_waits(pair: tuple[Any, Any]) -> None:
    """Committed, taken, uncommitted and being written, as the broker goes by them."""
    holder, _ = pair
    driver = holder.driver
    index = holder.propose(b"one")

    assert driver.is_writing(index)
    assert driver.uncommitted_bytes > 0
    assert not driver.has_committed
    holder.until(lambda: driver.commit_index == index)
    assert not driver.is_writing(index)
    assert 0 == driver.uncommitted_bytes
    assert driver.has_committed
    assert index == driver.reclaim_limit
    assert [index] == holder.take()
    assert index == driver.taken_index


def test_what_a_lease_does_not_have(pair: tuple[Any, Any]) -> None:
    """Members in the log, learners, promotions: whoever asks finds none."""
    driver = pair[0].driver
    driver.tell_format_level(3)

    assert driver.config_index > 1 << 60
    assert ("", {}) == (driver.promotion, driver.learner_matches())
    assert not driver.is_lease_awaited(0.0)
    assert (0, driver.term) == (driver.numbering.generation, driver.numbering.term)


def test_a_medium_that_refuses_is_told_to_publishers(pair: tuple[Any, Any]) -> None:
    """In one sentence, and its reason to who runs it; nothing otherwise (L39)."""
    holder, _ = pair
    assert "" == holder.driver.refusal() == holder.driver.trouble
    tenure.refused(holder.state, AppendRefusedError("the table is full"))

    assert "publishing is refused until it does again" in holder.driver.refusal()
    assert "the table is full" == holder.driver.refusal_reason


def test_a_medium_that_is_nearly_full_is_published_to_no_more(
    pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is acknowledged is stored, and makes room."""
    holder, standby = pair
    for each in pair:
        monkeypatch.setattr(type(each.log), "low_room", "8 MiB are left")
    assert "publishing is refused" in holder.driver.refusal()
    assert "" == standby.driver.refusal()
    assert "8 MiB are left" == holder.driver.refusal_reason
    holder.store(b"an acknowledgement")
    assert not holder.driver.can_project
    monkeypatch.undo()
    assert "" == holder.driver.refusal()


def test_clients_are_told_why_only_where_the_medium_is_silent(pair: tuple[Any, Any]) -> None:
    """A lease that was given back or taken tells nothing: they go to the next one."""
    holder, _ = pair

    assert "" == holder.driver.farewell
    holder.state.trouble = "no answer from 10.0.0.7"
    assert "does not answer: nothing is confirmed" in holder.driver.farewell
    assert "10.0.0.7" not in holder.driver.farewell


def test_what_a_lost_tenure_had_proposed_holds_up_no_later_one(broker: Callable[..., Any]) -> None:
    """A broker that takes the lease again goes on with the next batch, and does not wait for it."""
    holder = broker("a").serve()
    index = [holder.propose(b"x") for _ in range(3)][-1]
    assert holder.driver.is_writing(index)
    tenure.step_down(holder.state, "lost")
    assert not holder.driver.is_writing(index)

    holder.serve()
    assert not holder.driver.is_writing(index)
    assert holder.driver.is_writing(holder.propose(b"y"))


def test_whoever_takes_it_for_long_says_so_and_asks_for_nothing_else(
    pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Nobody serves meanwhile: who held it is gone, and gives no sign of life.

    What else is asked of a slow database would be in the way of the take, and end it.
    """
    holder, standby = pair
    driver, passage = standby.driver, standby.passage
    holder.driver.end()
    takes = 0

    def take(*_: object, **_more: object) -> None:
        nonlocal takes
        takes += 1
        passage.wait(1.0)
        raise TakeGoesOnError("b.db gets entries 4 to 11 before anybody serves: 40 %")

    with monkeypatch.context() as patch:
        patch.setattr(standby.log, "take", take)
        standby.until(lambda: takes)
        for _ in range(12):
            assert driver.trouble.endswith("40 %")
            assert (driver.holder, driver.leader, driver.is_serving) == (None, None, False)
            assert isinstance(standby.orders[0], Take)
            standby.perform()
    standby.until(lambda: driver.is_serving)
    assert driver.trouble == ""
