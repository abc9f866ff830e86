"""
The judge of durable subscriptions: each rule is shown what breaks it and nothing else.

`Told` writes histories of one topic: by default everything goes well. A test tells where it does
not.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trials.chaos.history import DEAD_LETTERS, SECOND, Event, History
from trials.chaos.subscriptions import SUBSCRIPTIONS, TOPIC, part_of
from trials.chaos.verdict import Verdict, judge_history

READER, BATCHES, CHOOSER = (SUBSCRIPTIONS[it].place for it in ("reader", "batches", "chooser"))
NUMBERS = {READER: 7, BATCHES: 8, CHOOSER: 9, DEAD_LETTERS: 3, "/queue/a": 1}
PART = SUBSCRIPTIONS["chooser"].part
KINDS = (
    *("lost", "uneven", "vanished", "unexpected", "stored_twice", "unflagged", "resurrected"),
    *("reordered", "torn_transactions", "undrained", "in_two_hands", "out_of_group_order"),
)


class Told:
    """A history being made up; each line is a millisecond after the one before."""

    def __init__(self) -> None:
        self.clock = count(SECOND, SECOND // 1000)
        self.workers: dict[str, list[Event]] = {}
        self.places = count(1)
        self.made: list[str] = []
        self.line("h", "begin", numbered=True)
        self.line("s", "begin", numbered=False)
        self.line("c", "begin", numbered=True)

    def line(self, worker: str, kind: str, **fields: Any) -> None:
        event = {"t": next(self.clock), "e": kind, **fields}
        if kind == "begin":
            event["w"] = worker
        self.workers.setdefault(worker, []).append(event)

    def make(self, *subscriptions: str) -> None:
        for each in subscriptions:
            part = {"k": PART} if each == CHOOSER else {}
            self.line("c", "link", c=each)
            self.line("c", "subscribe", c=each, s=each, **part)
            self.line("c", "subscribed", c=each, s=each)
            self.made.append(each)

    def wanting(self, sequence: int) -> list[str]:
        return [each for each in self.made if each != CHOOSER or part_of(sequence) == PART]

    def send(
        self,
        sequence: int,
        outcome: str | None = "stored",
        *,
        worker: str = "h",
        unit: str | None = None,
        queue: str = TOPIC,
    ) -> None:
        more = {"u": unit} if unit else {}
        self.line(worker, "send", p=f"{worker}.p", n=sequence, q=queue, **more)
        if outcome and not unit:
            self.line(worker, outcome, p=f"{worker}.p", n=sequence)

    def arrive(
        self,
        sequence: int,
        *,
        to: Iterable[str] | None = None,
        worker: str = "h",
        place: int | None = None,
        settle: str = "acknowledge",
    ) -> list[str]:
        """Let one copy come to who wants it, and be settled; gives the ids."""
        place = next(self.places) if place is None else place
        identities = []
        for each in self.wanting(sequence) if to is None else to:
            identity = f"ID:x-{NUMBERS[each]}-{place}"
            whose = {"p": f"{worker}.p", "n": sequence}
            self.line("c", "delivery", c=each, q=each, id=identity, r=False, **whose)
            self.line("c", "settle", c=each, v=settle, x=[identity])
            self.line("c", "settled", c=each, v=settle, x=[identity])
            identities.append(identity)
        return identities

    def publish(self, sequence: int, **more: Any) -> None:
        self.send(sequence, **more)
        self.arrive(sequence, worker=more.get("worker", "h"))

    def bury(self, sequence: int, before: str) -> None:
        """A dead letter comes, of what was delivered under this id."""
        identity = f"ID:x-{NUMBERS[DEAD_LETTERS]}-{next(self.places)}"
        what = {"q": DEAD_LETTERS, "id": identity, "o": before}
        self.line("c", "delivery", c="dead", r=False, p="h.p", n=sequence, **what)
        self.line("c", "settle", c="dead", v="acknowledge", x=[identity])
        self.line("c", "settled", c="dead", v="acknowledge", x=[identity])

    def commit(self, unit: str, sequences: Iterable[int], outcome: str = "committed") -> None:
        for sequence in sequences:
            self.send(sequence, unit=unit)
        self.line("h", "commit", u=unit)
        self.line("h", outcome, u=unit)

    def lose_link(self, worker: str = "h", consumers: tuple[str, ...] = ()) -> None:
        self.line(worker, "interrupted", c=list(consumers), text="lost")

    def judge(self, *, swept: Iterable[str] = (*NUMBERS,)) -> Verdict:
        for worker in ("h", "s", "c"):
            self.line(worker, "end")
        self.line("sweeper", "begin", numbered=True)
        for queue in swept:
            self.line("sweeper", "drained", c="x", q=queue)
        self.line("sweeper", "end")
        return judge_history(History.of(self.workers.values()))


@pytest.fixture
def told() -> Told:
    """
    Three subscriptions, one of which selects, and six messages that went well.
    """
    made = Told()
    made.make(READER, BATCHES, CHOOSER)
    for sequence in range(1, 7):
        made.publish(sequence)
    return made


def assert_only(verdict: Verdict, kind: str, times: int = 1) -> None:
    """This rule was broken so often, and no other one at all."""
    found = {name: getattr(verdict, name) for name in KINDS if getattr(verdict, name)}

    assert found == {kind: times}, verdict.problems
    assert not verdict.is_good


def test_a_good_history_is_good_and_counted(told):
    """Two subscriptions got all six, one the two of its part."""
    verdict = told.judge()

    assert verdict.is_good, verdict.problems
    assert (verdict.published, verdict.subscriptions, verdict.owed) == (6, 3, 14)
    assert (verdict.sent_again, verdict.delivered) == (0, 6)


# Missed -------------------------------------------------------------------------------------------


def test_what_was_confirmed_and_never_came_to_one_of_them_is_lost(told):
    """That all others had it is no comfort."""
    told.send(7)
    told.arrive(7, to=[READER, CHOOSER])
    verdict = told.judge()

    assert_only(verdict, "lost")
    assert f"h.p 7 to {TOPIC}" in verdict.problems[0]
    assert BATCHES in verdict.problems[0]


def test_what_nobody_got_is_lost_to_each(told):
    """It is counted once for each that should have got it; 8 is not of the chooser's part."""
    told.send(8)

    assert_only(told.judge(), "lost", 2)


def test_what_was_not_confirmed_may_be_nowhere(told):
    """Then it was not stored, for anybody."""
    told.send(7, None)
    told.send(8, "unknown")

    assert told.judge().is_good


def test_what_one_got_all_get_though_nobody_confirmed_it(told):
    """The topic has it once, for all of them."""
    told.send(7, "unknown")
    told.arrive(7, to=[READER, CHOOSER])
    verdict = told.judge()

    assert_only(verdict, "uneven")
    assert BATCHES in verdict.problems[0]


def test_each_copy_comes_to_all(told):
    """One that came to one of them only is missed, though an earlier copy came to the other."""
    told.send(8, None)
    told.lose_link()
    told.line("h", "stored", p="h.p", n=8)
    told.arrive(8)
    told.arrive(8, to=[READER])

    assert_only(told.judge(), "uneven")


def test_what_was_sent_before_it_was_made_need_not_come():
    """Only the receipt says that it is there; what was sent while it was awaited may come."""
    told = Told()
    told.make(READER)
    told.publish(1)
    told.line("c", "subscribe", c=BATCHES, s=BATCHES)
    told.send(2)
    told.arrive(2, to=[READER])
    told.send(3)
    told.line("c", "subscribed", c=BATCHES, s=BATCHES)
    told.arrive(3, to=[READER, BATCHES])
    told.made.append(BATCHES)
    told.publish(4)
    verdict = told.judge()

    assert verdict.is_good, verdict.problems
    assert verdict.owed == 5


def test_what_came_before_all_subscriptions_was_for_nobody():
    """It is neither lost nor delivered, and counted, so that the account comes out even."""
    told = Told()
    told.send(1)
    told.send(2, None)
    told.make(READER)
    told.publish(3)
    verdict = told.judge()

    assert verdict.is_good, verdict.problems
    assert (verdict.confirmed, verdict.delivered, verdict.for_nobody) == (2, 1, 1)


def test_one_that_nobody_saw_empty_is_undrained(told):
    """Else that nothing is lost would prove nothing."""
    swept = [each for each in NUMBERS if each != BATCHES]

    assert_only(told.judge(swept=swept), "undrained")


@given(st.data())
def test_any_single_loss_is_found(data):
    """From a good history one copy for one subscription is taken away: it is missed."""
    told = Told()
    told.make(READER, BATCHES, CHOOSER)
    total = data.draw(st.integers(1, 20))
    missing = data.draw(st.integers(1, total))
    whose = data.draw(st.sampled_from(told.wanting(missing)))
    for sequence in range(1, total + 1):
        told.send(sequence)
        wanting = told.wanting(sequence)
        told.arrive(sequence, to=[it for it in wanting if (sequence, it) != (missing, whose)])

    assert_only(told.judge(), "lost")


# Unexpected ---------------------------------------------------------------------------------------


def test_what_its_selector_leaves_out_must_not_come(told):
    """It selects another part."""
    told.send(8)
    told.arrive(8, to=[READER, BATCHES, CHOOSER])

    assert_only(told.judge(), "unexpected")


def test_what_was_confirmed_before_it_was_asked_for_must_not_come():
    """A durable subscription gets what is sent since."""
    told = Told()
    told.make(READER)
    told.send(1)
    told.arrive(1, to=[READER], place=1)
    told.make(BATCHES)
    told.arrive(1, to=[BATCHES], place=1)

    assert_only(told.judge(), "unexpected")


@pytest.mark.parametrize("outcome", ["rolled-back", "commit-refused"])
def test_what_was_not_committed_must_not_come(told, outcome):
    """Rolled back, or refused."""
    told.commit("u", [7], outcome)
    told.arrive(7)

    assert_only(told.judge(), "unexpected")


# Twice --------------------------------------------------------------------------------------------


def test_a_second_copy_without_a_lost_link_was_stored_twice(told):
    """Nobody can have sent it again."""
    told.publish(8)
    told.arrive(8)

    assert_only(told.judge(), "stored_twice")


def test_who_lost_the_link_may_have_sent_it_twice(told):
    """Producer numbers do not count on topics: it is counted, not blamed."""
    told.send(8, None)
    told.lose_link()
    told.line("h", "stored", p="h.p", n=8)
    told.arrive(8)
    told.arrive(8)
    verdict = told.judge()

    assert verdict.is_good, verdict.problems
    assert (verdict.sent_again, verdict.duplicated) == (1, 0)


def test_a_lost_link_excuses_one_copy(told):
    """Not two."""
    told.send(8, None)
    told.lose_link()
    told.line("h", "stored", p="h.p", n=8)
    for _ in range(3):
        told.arrive(8)

    assert_only(told.judge(), "stored_twice")


def test_a_link_lost_at_another_time_excuses_nothing(told):
    """Before it was sent, and after it was confirmed."""
    told.lose_link()
    told.publish(8)
    told.lose_link()
    told.arrive(8)

    assert_only(told.judge(), "stored_twice")


@pytest.mark.parametrize(("worker", "consumers"), [("h", (READER,)), ("c", ())])
def test_a_link_of_others_excuses_nothing(told, worker, consumers):
    """Of a consumer, or of another worker."""
    told.send(8, None)
    told.lose_link(worker, consumers)
    told.line("h", "stored", p="h.p", n=8)
    told.arrive(8)
    told.arrive(8)

    assert_only(told.judge(), "stored_twice")


@pytest.mark.parametrize("times", [0, 1])
def test_a_stranger_says_itself_when_it_sends_again(told, times):
    """As often as that it may be there once more."""
    told.send(8, None, worker="s")
    for _ in range(times):
        told.line("s", "again", p="s.p", n=8)
    told.line("s", "stored", p="s.p", n=8)
    told.arrive(8, worker="s")
    told.arrive(8, worker="s")
    verdict = told.judge()

    if times:
        assert verdict.is_good, verdict.problems
        assert verdict.sent_again == 1
    else:
        assert_only(verdict, "stored_twice")


def test_what_a_transaction_sent_is_there_once(told):
    """Its COMMIT has a number, or is never said again: a lost link is no excuse."""
    told.send(8, unit="u")
    told.line("h", "commit", u="u")
    told.lose_link()
    told.line("h", "committed", u="u")
    told.arrive(8)
    told.arrive(8)

    assert_only(told.judge(), "stored_twice")


# Transactions -------------------------------------------------------------------------------------


def test_what_a_transaction_sent_to_the_topic_belongs_to_it(told):
    """Nobody knows whether it was committed; that a part of it came says that all of it has to."""
    told.send(7, unit="u", queue="/queue/a")
    told.commit("u", [8], "commit-unknown")
    identity = "ID:x-1-1"
    told.line("c", "delivery", c="q", q="/queue/a", id=identity, r=False, p="h.p", n=7)
    told.line("c", "settle", c="q", v="acknowledge", x=[identity])

    assert_only(told.judge(), "torn_transactions")


def test_what_a_transaction_sent_to_nobody_is_not_missed():
    """The topic had no subscription yet."""
    told = Told()
    told.send(1, unit="u", queue="/queue/a")
    told.commit("u", [2])
    identity = "ID:x-1-1"
    told.line("c", "delivery", c="q", q="/queue/a", id=identity, r=False, p="h.p", n=1)
    told.line("c", "settle", c="q", v="acknowledge", x=[identity])
    told.make(READER)
    told.publish(3)

    assert told.judge().is_good


# Order and hands ----------------------------------------------------------------------------------


def test_a_producers_order_is_the_topics(told):
    """The later one stands before the earlier one, for each of the two that want both."""
    told.send(7)
    told.send(8)
    told.arrive(8, to=[READER, BATCHES])
    told.arrive(7, to=[READER, BATCHES, CHOOSER])

    assert_only(told.judge(), "reordered", 2)


def test_what_was_sent_again_stands_where_it_stood_first(told):
    """Both copies of the first come before those of the second, or between them."""
    told.send(8, None)
    told.send(9, None)
    told.lose_link()
    for sequence in (8, 9, 8, 9):
        told.arrive(sequence)
    told.line("h", "stored", p="h.p", n=8)
    told.line("h", "stored", p="h.p", n=9)
    verdict = told.judge()

    assert verdict.is_good, verdict.problems
    assert verdict.sent_again == 2


def test_a_subscriptions_messages_come_in_the_topics_order(told):
    """Also where another link brings the one that was passed over."""
    told.send(8)
    told.send(8, worker="s")
    told.arrive(8, place=100, to=[BATCHES])
    told.arrive(8, place=101, to=[BATCHES, READER], worker="s")
    told.line("c", "link", c=READER)
    told.arrive(8, place=100, to=[READER])

    assert_only(told.judge(), "reordered")


def test_a_subscription_has_one_consumer_at_a_time(told):
    """Two of them settle what they have over the links that they have."""
    told.send(8)
    told.send(9)
    told.arrive(8, to=[BATCHES], place=100)
    told.arrive(9, to=[BATCHES], place=101)
    told.line("c", "link", c="other")
    held = {READER: (8, "ID:x-7-100"), "other": (9, "ID:x-7-101")}
    for who, (sequence, identity) in held.items():
        whose = {"p": "h.p", "n": sequence}
        told.line("c", "delivery", c=who, q=READER, id=identity, r=False, **whose)
    for who, (_, identity) in held.items():
        told.line("c", "settle", c=who, v="acknowledge", x=[identity])
        told.line("c", "settled", c=who, v="acknowledge", x=[identity])
    verdict = told.judge()

    assert_only(verdict, "in_two_hands")
    assert f"subscription {READER}" in verdict.problems[0]


# Dead letters -------------------------------------------------------------------------------------


def test_each_that_rejects_has_a_dead_letter_of_its_own(told):
    """Two rejected it, and there are two."""
    told.send(8)
    for identity in told.arrive(8, settle="reject"):
        told.bury(8, identity)
    verdict = told.judge()

    assert verdict.is_good, verdict.problems


def test_a_rejection_without_a_dead_letter_is_lost(told):
    """That another subscription's is there does not make up for it."""
    told.send(8)
    first, _ = told.arrive(8, settle="reject")
    told.bury(8, first)

    assert_only(told.judge(), "lost")


def test_a_dead_letter_that_nobody_rejected_is_unexpected(told):
    """It was acknowledged."""
    told.send(8)
    first, _ = told.arrive(8)
    told.bury(8, first)

    assert_only(told.judge(), "unexpected")


def test_one_rejection_is_one_dead_letter(told):
    """The same one twice on the dead-letter queue."""
    told.send(8)
    (first,) = told.arrive(8, to=[READER], place=100, settle="reject")
    told.arrive(8, to=[BATCHES], place=100)
    told.bury(8, first)
    told.bury(8, first)

    assert_only(told.judge(), "stored_twice")
