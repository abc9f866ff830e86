"""
The failover plan and the term fence, with plain values: no socket, no clock.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.client.failover import (
    TERM_DOUBT_SECONDS,
    Attempt,
    Exhausted,
    FailoverOptions,
    FailoverPlan,
    Find,
    Pause,
    TermFence,
)


def plan_for(addresses: str, **options: object) -> FailoverPlan[str]:
    settings = FailoverOptions(**{"is_randomized": False, **options})
    return FailoverPlan(list(addresses), settings, lambda low, high: low)


def story(plan: FailoverPlan[str], steps: int, *, now: float = 0.0) -> Iterator[str | float]:
    """What the plan says if every attempt fails: addresses and pauses."""
    for _ in range(steps):
        step = plan.next_step(now)
        if isinstance(step, Attempt):
            plan.attempt_failed(step.address)
            yield step.address
        elif isinstance(step, Pause):
            yield step.seconds
        else:
            yield "exhausted"


def test_a_pause_follows_only_a_whole_failed_pass() -> None:
    """Every address is tried at once, then the pause, which doubles from pass to pass."""
    expected = ["a", "b", "c", 0.01, "a", "b", "c", 0.02, "a", "b", "c", 0.04]
    assert list(story(plan_for("abc"), 12)) == expected


def test_pauses_grow_to_their_limit() -> None:
    """maxReconnectDelay is never exceeded, whatever the exponent."""
    plan = plan_for("a", initial_reconnect_seconds=1.0, reconnect_seconds_max=5.0)
    assert list(story(plan, 10))[1::2] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_pauses_stay_without_exponential_back_off() -> None:
    """useExponentialBackOff=false waits the same every time."""
    plan = plan_for("a", initial_reconnect_seconds=1.0, is_exponential=False)
    assert list(story(plan, 6))[1::2] == [1.0, 1.0, 1.0]


def test_the_lost_address_goes_to_the_end_after_the_first_pause() -> None:
    """A dead leader is tried last, and the first reconnect waits initialReconnectDelay."""
    plan = plan_for("abc")
    plan.connected("a")
    plan.link_lost("a", 0.0)
    assert list(story(plan, 4)) == [0.01, "b", "c", "a"]


def test_a_success_resets_the_pauses() -> None:
    """After a link that was of use the next outage begins with the shortest pause."""
    plan = plan_for("ab")
    list(story(plan, 9))
    plan.connected("a")
    assert plan.failed_passes == 0
    plan.link_lost("a", 0.0)
    assert list(story(plan, 4)) == [0.01, "b", "a", 0.01]


def test_a_broker_that_hangs_up_at_once_is_called_less_and_less() -> None:
    """A link that brought nothing is no success: the pause goes on growing."""
    plan = plan_for("a")
    pauses = []
    for useful in (True, False, False, False):
        step = plan.next_step(0.0)
        assert step == Attempt("a")
        plan.connected("a")
        plan.link_lost("a", 0.0, was_useful=useful)
        pauses.append(plan.next_step(0.0))
    assert pauses == [Pause(0.01), Pause(0.01), Pause(0.02), Pause(0.04)]


def test_attempts_are_counted_in_passes() -> None:
    """maxReconnectAttempts=2 allows two passes over the list."""
    plan = plan_for("ab", reconnect_attempts_max=2)
    assert list(story(plan, 6)) == ["a", "b", 0.01, "a", "b", "exhausted"]
    assert plan.next_step(0.0) == Exhausted(2)


def test_startup_has_a_limit_of_its_own() -> None:
    """startupMaxReconnectAttempts counts until the first success, then the other limit rules."""
    plan = plan_for("a", startup_attempts_max=1)
    plan.attempt_failed("a")
    assert plan.next_step(0.0) == Exhausted(1)
    plan = plan_for("a", startup_attempts_max=1, reconnect_attempts_max=-1)
    plan.connected("a")
    plan.link_lost("a", 0.0)
    assert list(story(plan, 4)) == [0.01, "a", 0.01, "a"]


def test_zero_attempts_connect_once_and_never_reconnect() -> None:
    """maxReconnectAttempts=0: one pass at the start, nothing after a loss."""
    plan = plan_for("ab", reconnect_attempts_max=0)
    assert plan.next_step(0.0) == Attempt("a")
    plan.connected("a")
    plan.link_lost("a", 0.0)
    assert plan.next_step(0.0) == Exhausted(0)
    plan = plan_for("a", reconnect_attempts_max=0)
    plan.attempt_failed("a")
    assert plan.next_step(0.0) == Exhausted(1)


def test_pauses_stay_short_while_eager() -> None:
    """Soon after an interruption the pauses are capped; later they are as long as configured."""
    plan: FailoverPlan[str] = FailoverPlan(
        ["a"],
        FailoverOptions(is_randomized=False),
        lambda low, high: low,
        eager_seconds=30,
        eager_pause_seconds_max=0.1,
    )
    plan.connected("a")
    plan.link_lost("a", 100.0)
    eager = [pause for pause in story(plan, 20, now=129.0) if pause != "a"]
    assert max(float(pause) for pause in eager) == 0.1
    late = [pause for pause in story(plan, 4, now=130.0) if pause != "a"]
    assert float(late[-1]) > 5


def test_the_order_is_random_by_the_randomness_given() -> None:
    """Clients spread over the addresses, and a simulation can repeat it."""
    numbers = iter([0.0, 1.5])
    plan = FailoverPlan(["a", "b", "c"], FailoverOptions(), lambda low, high: next(numbers))
    assert list(story(plan, 3)) == ["c", "b", "a"]


def test_warnings_are_due_every_so_many_passes() -> None:
    """warnAfterReconnectAttempts=2: after the second and the fourth."""
    plan = plan_for("a", warn_after_attempts=2)
    due = []
    for _ in range(4):
        plan.attempt_failed("a")
        due.append(plan.is_warning_due)
    assert due == [False, True, False, True]
    silent = plan_for("a", warn_after_attempts=-1)
    silent.attempt_failed("a")
    assert not silent.is_warning_due


@pytest.mark.promise("F34")
def test_the_fence_refuses_lower_terms_and_other_clusters() -> None:
    """The highest term seen never falls; who tells nothing counts as another cluster, then."""
    assert TermFence().refusal(None, None) is None
    fence = TermFence()
    assert fence.refusal("c1", 5) is None
    assert "term 4" in (fence.refusal("c1", 4) or "")
    assert "cluster c2" in (fence.refusal("c2", 9) or "")
    assert fence.refusal("c1", 5) is None
    assert "no Holdfast" in (fence.refusal(None, None) or "")
    assert (fence.cluster, fence.term) == ("c1", 5)
    assert fence.refusal("c1", 6) is None
    assert fence.term == 6


def test_the_fence_compares_terms_within_one_promotion() -> None:
    """
    A copy that lagged knows nothing of elections since, and is all that is left: whoever has seen
    a higher term must not wait for one for ever.
    """
    fence = TermFence()
    assert fence.refusal("c1", 1010, (1, 500)) is None
    assert fence.refusal("c1", 1007, (1, 900)) is None
    assert (fence.term, fence.promotion) == (1007, (1, 900))
    assert "term 1006" in (fence.refusal("c1", 1006, (1, 900)) or "")
    assert "before a promotion" in (fence.refusal("c1", 1011, (1, 500)) or "")
    assert "before a promotion" in (fence.refusal("c1", 9000) or "")
    assert fence.refusal("c1", 5, (2, 100)) is None


def test_a_deposed_leader_is_refused_for_as_long_as_it_may_go_on() -> None:
    """
    It stops within that time; the next leader is believed at once, and the old one never again.
    """
    fence = TermFence()
    assert fence.refusal("c1", 6, now=0.0) is None
    for now in (10.0, 30.0, 10.0 + TERM_DOUBT_SECONDS - 0.1):
        assert "term 5" in (fence.refusal("c1", 5, now=now) or "")
    assert fence.refusal("c1", 7, now=71.0) is None
    assert fence.dropped_term is None
    for now in (72.0, 71.0 + TERM_DOUBT_SECONDS):
        assert fence.refusal("c1", 5, now=now) is not None, "what was told before 7 is no sign"


def test_who_is_told_of_again_is_no_lie_however_long_a_lower_term_was_told_before() -> None:
    """One that is slow to stop, and the leader, take turns: each time the highest is told anew."""
    fence = TermFence()
    assert fence.refusal("c1", 6, now=0.0) is None
    for now in range(30, 600, 50):
        assert fence.refusal("c1", 5, now=float(now)) is not None
        assert fence.refusal("c1", 6, now=now + 1.0) is None
    assert fence.term == 6


@pytest.mark.parametrize("forged", [3, 10**17])
def test_a_term_that_nobody_leads_keeps_nobody_from_its_broker_for_ever(forged: int) -> None:
    """One word of a stranger, in clear, would be for as long as the program runs."""
    fence = TermFence()
    assert fence.refusal("c1", 2, now=0.0) is None
    assert fence.refusal("c1", forged, now=1.0) is None
    told = [fence.refusal("c1", 2, now=2.0 + it * 5) for it in range(13)]
    assert [it is None for it in told] == [False] * 12 + [True]
    assert (fence.term, fence.dropped_term) == (2, forged)
    assert fence.refusal("c1", 1, now=70.0) is not None
    assert fence.refusal("c1", 3, now=71.0) is None
    assert fence.dropped_term is None


def test_a_real_failover_meanwhile_is_waited_for_anew() -> None:
    """The next leader leads a term of its own: each is judged by how long it was led itself."""
    fence = TermFence()
    assert fence.refusal("c1", 10**17, now=0.0) is None
    for now, term in ((1.0, 2), (50.0, 3), (62.0, 3), (109.0, 3)):
        assert fence.refusal("c1", term, now=now) is not None
    assert fence.refusal("c1", 3, now=110.0) is None
    assert fence.term == 3


def test_neither_another_cluster_nor_an_older_promotion_is_believed_by_lasting() -> None:
    """Of a promotion by force the old leader goes on with a quorum of its own, for hours."""
    fence = TermFence()
    assert fence.refusal("c1", 5, (1, 9), now=0.0) is None
    for now in (1.0, 1_000.0, 10_000.0):
        assert fence.refusal("c1", 9, now=now) is not None
        assert fence.refusal("c2", 9, (1, 9), now=now) is not None


def test_there_is_a_limit_to_the_lower_terms_that_are_kept() -> None:
    """Whoever tells ever others is remembered no more than any."""
    fence = TermFence()
    assert fence.refusal("c1", 10**6, now=0.0) is None
    for term in range(1_000):
        assert fence.refusal("c1", term, now=1.0) is not None
    assert len(fence._lower) == 8


def test_a_plan_needs_an_address() -> None:
    """An empty list is a mistake of ours: the URI parser refuses it."""
    with pytest.raises(AssertionError):
        plan_for("")


# Addresses that are found ---------------------------------------------------------------------


def finding_plan(**options: object) -> FailoverPlan[str]:
    settings = FailoverOptions(**{"is_randomized": False, **options})
    return FailoverPlan([], settings, lambda low, high: low, finds=True)


def test_addresses_are_found_before_each_pass() -> None:
    """And tried as they are told: whoever is left out is not tried, who is new is."""
    plan = finding_plan()
    assert Find() == plan.next_step(0.0)
    plan.found(["a", "b"])
    assert ["a", "b", 0.01] == list(story(plan, 3))
    assert Find() == plan.next_step(0.0)
    plan.found(["c", "b"])
    assert ["c", "b", 0.02] == list(story(plan, 3))


def test_where_nothing_is_found_a_pass_has_failed() -> None:
    """It is paused and counted as any other, so that attempts come to an end."""
    plan = finding_plan(reconnect_attempts_max=2)
    for pause in (0.01, 0.02):
        assert Find() == plan.next_step(0.0)
        plan.found([])
        if plan.failed_passes < 2:
            assert Pause(pause) == plan.next_step(0.0)
    assert Exhausted(2) == plan.next_step(0.0)


def test_of_what_is_found_the_lost_one_comes_last() -> None:
    """Whatever its place in the list; after it has answered it is as the others again."""
    plan = finding_plan()
    plan.next_step(0.0)
    plan.found(["a", "b", "c"])
    plan.connected("a")
    plan.link_lost("a", 0.0)
    assert Pause(0.01) == plan.next_step(0.0)
    for _ in range(2):
        assert Find() == plan.next_step(0.0)
        plan.found(["a", "b", "c"])
        assert ["b", "c", "a"] == list(story(plan, 3))
        plan.next_step(0.0)
    plan.found(["a", "b", "c"])
    plan.connected("b")
    plan.link_lost("b", 0.0)
    plan.next_step(0.0)
    plan.found(["a", "b", "c"])
    assert ["a", "c", "b"] == list(story(plan, 3))


def test_the_lost_one_may_be_left_out() -> None:
    """It is connected until it is lost, and then no more tried."""
    plan = finding_plan()
    plan.next_step(0.0)
    plan.found(["a"])
    plan.connected("a")
    plan.link_lost("a", 0.0)
    plan.next_step(0.0)
    plan.found(["b"])
    assert ["b", 0.01] == list(story(plan, 2))
