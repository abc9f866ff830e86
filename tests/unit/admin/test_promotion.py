"""
What an operator is told before some nodes go on by force.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.admin.promotion import furthest, promotion_report, require_strangers_dead
from holdfast.admin.status import DamageStatus, MemberStatus, NodeStatus, StoreStatus
from holdfast.errors import MembershipError
from holdfast.replication.promotion import LogEnd

MEMBERS = (
    MemberStatus(name="a"),
    MemberStatus(name="b"),
    MemberStatus(name="l", kind="learner"),
    MemberStatus(name="m", kind="learner"),
)
SECOND = 1_000_000


def status(name: str, *, index: int = 10, term: int = 3, **fields: object) -> NodeStatus:
    end = LogEnd(
        name=name,
        node_id=name * 32,
        index=index,
        term=term,
        record=10 * index + 1,
        timestamp=1_800_000_000 * SECOND + index * SECOND,
    )
    made = NodeStatus(
        name=name,
        role="learner",
        cluster_id="c",
        term=term,
        leader_contact_seconds=2.5,
        members=MEMBERS,
        store=StoreStatus(last_index=index),
        log_end=end,
    )
    return replace(made, **fields)


def test_the_lack_is_told_in_messages_and_time() -> None:
    """
    Of the one that decides, and of each that follows it.
    """
    chief, other = status("l", index=30), status("m", index=10)
    report = promotion_report(chief, [other.log_end])
    assert "l holds the log to entry 30 of term 3, with 300 records" in report.may_lack
    assert "the last of 2027-01-15 08:00:30 UTC" in report.may_lack
    assert "confirmed in the 2.5 s since it last heard of a leader" in report.may_lack
    (sentence,) = report.behind
    assert sentence == (
        "m is behind l by 200 messages and acknowledgements of 20.0 s, and is sent them"
    )
    assert (report.shut_out, report.companions) == (("a", "b"), ("m",))


def test_an_equal_log_is_told_as_one() -> None:
    """
    Nothing is to be sent.
    """
    chief = status("l")
    assert promotion_report(chief, [status("m").log_end]).behind == ("m has the same log",)


def test_those_shut_out_before_have_no_say_in_what_is_complete() -> None:
    """
    Nor learners: a quorum is one of those that vote.
    """
    members = (*MEMBERS[:1], replace(MEMBERS[1], kind="fenced"))
    report = promotion_report(replace(status("a"), members=members))
    assert report.complete
    assert "the voting members were a" in report.may_lack


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ({"l": (10, 3), "m": (11, 3)}, "m"),
        ({"l": (10, 4), "m": (11, 3)}, "l"),
        ({"l": (10, 3), "m": (10, 3)}, "l"),
    ],
)
def test_the_furthest_decides(ends: dict[str, tuple[int, int]], expected: str) -> None:
    """
    By term, then by index, as in an election; the first of equals.
    """
    found = [status(name, index=index, term=term) for name, (index, term) in ends.items()]
    assert furthest(found).name == expected


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"cluster_id": "other"}, "m and l are of different clusters"),
        ({"leader": "a"}, "a leads; use force only"),
        ({"log_end": None}, "m does not say how far its log goes"),
        ({"store": StoreStatus(incomplete="half of it")}, "m cannot go on with others: half of it"),
    ],
)
def test_who_cannot_go_on_with_others_is_told(fields: dict[str, object], sentence: str) -> None:
    """
    Before the operator is asked for a word.
    """
    with pytest.raises(MembershipError, match=sentence):
        furthest([status("l"), status("m", **fields)])


def test_who_answers_and_is_not_named_stops_it() -> None:
    """
    A learner that was forgotten would be shut out by mistake.
    """
    require_strangers_dead({"l", "m"}, status("m"), "h:1")
    with pytest.raises(MembershipError, match=r"m answers at h:1 as learner .* or name it as one"):
        require_strangers_dead({"l"}, status("m"), "h:1")
    with pytest.raises(MembershipError, match=r"stop it first$"):
        require_strangers_dead({"l"}, status("a", role="leader"), "h:1")


def test_a_node_whose_log_is_damaged_never_has_all_that_was_confirmed() -> None:
    """
    One of two needed both for each confirmation, and yet what it has lost since is not there.
    """
    pair = tuple(replace(it, kind="voter") for it in MEMBERS[:2])
    lost = DamageStatus(segment="1.segment", byte=6936, index=11, reason="entries 11 to 15 missing")
    whole = status("a", role="candidate", members=pair)
    damaged = replace(whole, store=StoreStatus(last_index=10, damage=(lost,)))

    report = promotion_report(damaged)

    assert not report.complete
    assert (
        "its log is damaged: entries 11 to 15 missing (entry 11, 1.segment byte" in report.may_lack
    )
    spoilt = replace(
        whole, store=StoreStatus(damage=(lost, replace(lost, index=9)), damage_count=150)
    )
    assert "(entry 11, 1.segment byte 6,936), here and at 149 places before it" in (
        promotion_report(spoilt).may_lack
    )
    mended = replace(whole, store=StoreStatus(damage=(replace(lost, repaired=True),)))
    for each in (whole, mended):
        assert promotion_report(each).complete
        assert "nothing confirmed is missing" in promotion_report(each).may_lack


def test_a_node_that_was_shut_out_lacks_what_was_confirmed_since() -> None:
    """
    Its old membership says that nothing could be confirmed without it; a later generation did.
    """
    pair = tuple(replace(it, kind="voter") for it in MEMBERS[:2])
    report = promotion_report(status("a", role="candidate", members=pair, is_cut_short=True))
    assert not report.complete
    assert "all that was confirmed in that one is missing" in report.may_lack
