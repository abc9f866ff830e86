"""
The judge: each rule is shown a history that breaks it and nothing else, and says so by name.

`Story` writes histories: by default everything goes well. A test tells where it does not.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trials.chaos.history import DEAD_LETTERS, GROUPED, SCHEDULED, SECOND, Event, History
from trials.chaos.verdict import Verdict, judge_history, place_of

A, B = "/queue/a", "/queue/b"
NUMBERS = {A: 1, B: 2, DEAD_LETTERS: 3, GROUPED: 4, SCHEDULED: 5}
KINDS = (
    *("lost", "vanished", "unexpected", "stored_twice", "unflagged", "resurrected"),
    *("reordered", "torn_transactions", "shown_twice", "gave_up", "undrained"),
    *("in_two_hands", "out_of_group_order", "early"),
)
STEP = SECOND // 1000


class Story:
    """A history being made up; each line is a millisecond after the one before."""

    def __init__(self) -> None:
        self.clock = count(SECOND, STEP)
        self.workers: dict[str, list[Event]] = {}
        self.places = {queue: count(1) for queue in NUMBERS}
        self.line("h", "begin", numbered=True)
        self.line("s", "begin", numbered=False)
        self.line("c", "begin", numbered=True)
        for consumer in ("c1", "c2"):
            self.link(consumer)

    def line(self, worker: str, kind: str, **fields: Any) -> None:
        event = {"t": next(self.clock), "e": kind, **fields}
        if kind == "begin":
            event["w"] = worker
        self.workers.setdefault(worker, []).append(event)

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds * 1000)):
            next(self.clock)

    def link(self, consumer: str) -> None:
        self.line("c", "link", c=consumer)

    def identity(self, queue: str = A) -> str:
        return f"ID:x-{NUMBERS[queue]}-{next(self.places[queue])}"

    def send(
        self,
        sequence: int,
        outcome: str | None = "stored",
        *,
        worker: str = "h",
        queue: str = A,
        unit: str | None = None,
        **more: Any,
    ) -> None:
        more |= {"u": unit} if unit else {}
        self.line(worker, "send", p=f"{worker}.p", n=sequence, q=queue, **more)
        if outcome and not unit:
            self.line(worker, outcome, p=f"{worker}.p", n=sequence)

    def deliver(
        self,
        sequence: int,
        identity: str | None = None,
        *,
        flagged: bool = False,
        to: str = "c1",
        worker: str = "h",
        queue: str = A,
        settle: str | None = "acknowledge",
        settled: bool = True,
    ) -> str:
        identity = identity or self.identity(queue)
        what = {"q": queue, "id": identity, "p": f"{worker}.p", "n": sequence}
        self.line("c", "delivery", c=to, r=flagged, **what)
        if settle:
            self.line("c", "settle", c=to, v=settle, x=[identity])
            if settled:
                self.line("c", "settled", c=to, v=settle, x=[identity])
        return identity

    def transaction(self, unit: str, sequences: range, outcome: str | None) -> None:
        for sequence in sequences:
            self.send(sequence, unit=unit)
        if outcome in ("committed", "commit-unknown", "commit-refused"):
            self.line("h", "commit", u=unit)
        if outcome:
            self.line("h", outcome, u=unit)

    def judge(self, *, is_drained: bool = True) -> Verdict:
        for worker in ("h", "s", "c"):
            self.line(worker, "end")
        if is_drained:
            self.line("sweeper", "begin", numbered=True)
            for queue in NUMBERS:
                self.line("sweeper", "drained", c="x", q=queue)
            self.line("sweeper", "end")
        return judge_history(History.of(self.workers.values()), is_drained=is_drained)


@pytest.fixture
def story() -> Story:
    """
    A history in which ten messages went well.
    """
    made = Story()
    for sequence in range(1, 11):
        made.send(sequence)
        made.deliver(sequence)
    return made


def assert_only(verdict: Verdict, kind: str, times: int = 1) -> None:
    """This rule was broken so often, and no other one at all."""
    found = {name: getattr(verdict, name) for name in KINDS if getattr(verdict, name)}

    assert found == {kind: times}, verdict.problems
    assert any(kind.replace("_", " ") in problem for problem in verdict.problems)
    assert not verdict.is_good


def test_a_good_history_is_good(story):
    """Everything sent, confirmed, delivered and settled once: not a word."""
    verdict = story.judge()

    assert verdict.is_good, verdict.problems
    assert (verdict.attempts, verdict.confirmed, verdict.delivered) == (10, 10, 10)
    assert verdict.recovered == verdict.redelivered == verdict.duplicated == 0


# Groups and schedules ---------------------------------------------------------------------------


def test_a_group_at_two_consumers_is_told(story):
    """Each of them settles what it has over the link that it came by."""
    story.send(11, queue=GROUPED, g="x")
    story.send(12, queue=GROUPED, g="x")
    first = story.deliver(11, queue=GROUPED, settle=None)
    second = story.deliver(12, queue=GROUPED, to="c2", settle=None)
    for consumer, identity in (("c1", first), ("c2", second)):
        story.line("c", "settle", c=consumer, v="acknowledge", x=[identity])
        story.line("c", "settled", c=consumer, v="acknowledge", x=[identity])

    verdict = story.judge()

    assert_only(verdict, "in_two_hands")
    assert verdict.grouped == 2


def test_a_group_that_comes_in_another_order_is_told(story):
    """Though each message comes over another link, where nothing else is out of order."""
    story.send(11, queue=GROUPED, g="x")
    story.send(12, queue=GROUPED, g="x")
    first, second = story.identity(GROUPED), story.identity(GROUPED)
    story.deliver(12, second, queue=GROUPED)
    story.deliver(11, first, queue=GROUPED, to="c2")

    assert_only(story.judge(), "out_of_group_order")


def test_of_two_groups_a_link_may_have_the_older_one_later(story):
    """A consumer that gets a group later gets what has waited of it."""
    story.send(11, queue=GROUPED, g="x")
    story.send(12, queue=GROUPED, g="y")
    first, second = story.identity(GROUPED), story.identity(GROUPED)
    story.deliver(12, second, queue=GROUPED)
    story.deliver(11, first, queue=GROUPED)

    assert story.judge().is_good


def test_what_comes_before_its_time_is_early(story):
    """By the clock of the machine on which all of them run."""
    story.send(11, queue=SCHEDULED, d=50)
    story.wait(0.02)
    story.deliver(11, queue=SCHEDULED)

    assert_only(story.judge(), "early")


def test_by_a_wrong_clock_nothing_is_early(story):
    """A broker whose clock is an hour ahead does what is right by it."""
    story.send(11, queue=SCHEDULED, d=50)
    story.line("c", "mark", text="clock jump")
    story.deliver(11, queue=SCHEDULED)

    assert story.judge().is_good


def test_what_is_scheduled_may_come_in_any_order_once(story):
    """It comes when it is due; a second time under another id is once too often."""
    story.send(11, queue=SCHEDULED, d=60)
    story.send(12, queue=SCHEDULED, d=10)
    story.wait(0.1)
    story.deliver(12, queue=SCHEDULED)
    story.deliver(11, queue=SCHEDULED)
    story.deliver(11, queue=SCHEDULED)

    verdict = story.judge()

    assert_only(verdict, "stored_twice")
    assert verdict.scheduled == 2


def repeated(story: Story, *times: float) -> None:
    """Something is to come after 50 ms and twice again, 30 ms apart; it comes after these waits."""
    story.send(11, queue=SCHEDULED, d=50, dp=30, dr=2)
    for seconds in times:
        story.wait(seconds)
        story.deliver(11, queue=SCHEDULED)


def test_what_is_to_come_again_comes_so_often(story):
    """Each time under an id of its own; what could not be sent in time comes later, and counts."""
    repeated(story, 0.06, 0.2, 0.001)
    verdict = story.judge()

    assert verdict.is_good, verdict.problems
    assert (verdict.scheduled, verdict.repeated, verdict.duplicated) == (1, 1, 0)


def test_a_time_that_was_never_fired_is_lost(story):
    """It came twice of three times."""
    repeated(story, 0.06, 0.03)
    verdict = story.judge()

    assert_only(verdict, "lost")
    assert "came 2 times of 3" in verdict.problems[0]


def test_what_came_once_comes_each_time_though_nobody_confirmed_it(story):
    """It was stored, or it would not have come."""
    story.send(11, None, queue=SCHEDULED, d=50, dp=30, dr=2)
    story.wait(0.06)
    story.deliver(11, queue=SCHEDULED)

    assert_only(story.judge(), "lost")


def test_a_time_that_was_fired_twice_is_stored_twice(story):
    """It came four times of three."""
    repeated(story, 0.06, 0.03, 0.03, 0.03)

    assert_only(story.judge(), "stored_twice")


def test_each_time_may_be_early(story):
    """The second one came before its period was over."""
    repeated(story, 0.06, 0.01, 0.07)

    assert_only(story.judge(), "early")


def test_before_all_is_drained_no_time_is_missed(story):
    """It may still come, or lie there."""
    repeated(story, 0.06)

    assert story.judge(is_drained=False).lost == 0


# Lost -----------------------------------------------------------------------------------------


def test_a_confirmed_message_that_never_comes_is_lost(story):
    """The receipt came, the message did not."""
    story.send(11)
    verdict = story.judge()

    assert_only(verdict, "lost")
    assert "h.p 11" in verdict.problems[0]


def test_an_unconfirmed_message_may_come_or_not(story):
    """Without a receipt both are right; one that comes is counted as recovered."""
    story.send(11, None)
    story.send(12, "unknown")
    story.deliver(12)
    story.send(13, None)
    verdict = story.judge()

    assert verdict.is_good, verdict.problems
    assert (verdict.recovered, verdict.unknown) == (1, 3)


def test_lost_messages_are_told_by_their_place():
    """Before, between and behind what arrived of the same producer."""
    story = Story()
    for sequence in range(1, 11):
        story.send(sequence)
        if sequence in (3, 4, 7):
            story.deliver(sequence)
    verdict = story.judge()

    assert (verdict.lost_prefix, verdict.lost_middle, verdict.lost_suffix) == (2, 2, 3)
    assert_only(verdict, "lost", 7)


def test_nothing_is_lost_before_it_was_drained(story):
    """What may still lie in a queue is not called lost."""
    story.send(11)
    story.deliver(12, settle=None)

    assert story.judge(is_drained=False).lost == 0


def test_an_undrained_queue_is_a_problem(story):
    """If the sweeper never saw a queue empty, that nothing is lost proves nothing."""
    verdict = judge_history(History.of(story.workers.values()))

    assert verdict.undrained == 2
    assert not verdict.is_good


def test_a_delivery_that_nobody_settled_must_come_again(story):
    """A consumer died with it: if nobody else ever gets it, it has vanished."""
    story.send(11)
    story.deliver(11, settle=None)

    assert_only(story.judge(), "vanished")


def test_a_delivery_that_came_again_has_not_vanished(story):
    """The next one settles it."""
    story.send(11)
    identity = story.deliver(11, settle=None)
    story.deliver(11, identity, flagged=True, to="c2")
    verdict = story.judge()

    assert verdict.is_good, verdict.problems
    assert (verdict.redelivered, verdict.flagged) == (1, 1)


@pytest.mark.parametrize(("outcome", "is_over"), [("commit-refused", False), ("committed", True)])
def test_what_a_refused_transaction_acknowledged_must_come_again(story, outcome, is_over):
    """Nothing of it was done: asking alone is no excuse."""
    story.send(11)
    identity = story.deliver(11, settle=None)
    story.line("c", "commit", u="r", c="c1", x=[identity])
    story.line("c", outcome, u="r")

    if is_over:
        assert story.judge().is_good
    else:
        assert_only(story.judge(), "vanished")


# Unexpected -----------------------------------------------------------------------------------


def test_a_message_that_nobody_sent_is_unexpected(story):
    """A body of ours that is in no history."""
    story.deliver(99)

    assert_only(story.judge(), "unexpected")


def test_a_damaged_body_is_unexpected(story):
    """What was sent was something else."""
    story.line("c", "damaged", c="c1", q=A, id="ID:x-1-77", text="HC1 ?")

    assert_only(story.judge(), "unexpected")


def test_a_refused_message_must_not_come(story):
    """The broker said that it is not stored, and delivered it."""
    story.send(11, "refused")
    story.deliver(11)

    assert_only(story.judge(), "unexpected")


def test_a_message_of_another_queue_is_unexpected(story):
    """It was sent to one queue and came from another."""
    story.send(11)
    story.deliver(11, queue=B)

    assert_only(story.judge(), "unexpected")


def test_one_id_stands_for_one_message(story):
    """A message id that was given to two messages."""
    story.send(11)
    story.send(12)
    identity = story.deliver(11)
    story.deliver(12, identity, flagged=True)
    verdict = story.judge()

    assert verdict.unexpected == 1


# Twice ----------------------------------------------------------------------------------------


def test_a_numbered_message_under_two_ids_was_stored_twice(story):
    """The product's own client numbers its messages: a retry must be recognised."""
    story.send(11)
    story.deliver(11)
    story.deliver(11)

    assert_only(story.judge(), "stored_twice")


def test_a_strangers_retry_may_be_stored_twice(story):
    """Without numbers nobody can know: counted, not blamed."""
    story.send(1, None, worker="s")
    story.line("s", "again", p="s.p", n=1)
    story.line("s", "stored", p="s.p", n=1)
    story.deliver(1, worker="s")
    story.deliver(1, worker="s")
    verdict = story.judge()

    assert verdict.is_good, verdict.problems
    assert verdict.duplicated == 1


def test_a_second_delivery_must_say_so(story):
    """The same id twice, the second not flagged."""
    story.send(11)
    identity = story.deliver(11, settle=None)
    story.deliver(11, identity, to="c2")

    assert_only(story.judge(), "unflagged")


def test_the_first_delivery_may_be_flagged(story):
    """After a failover the broker rather says too often that it may be so."""
    story.send(11)
    story.deliver(11, flagged=True)
    verdict = story.judge()

    assert verdict.is_good, verdict.problems
    assert (verdict.flagged, verdict.redelivered) == (1, 0)


def test_a_first_delivery_may_arrive_after_the_second(story):
    """Its consumer was paused: what was sent to it before is read after the flagged one."""
    story.send(11)
    identity = story.deliver(11, flagged=True, to="c2")
    story.deliver(11, identity, to="c1", settle=None)
    verdict = story.judge()

    assert verdict.is_good, verdict.problems


def test_a_new_link_brings_no_late_first_delivery(story):
    """What comes unflagged over a link that began after another delivery had arrived is a lie."""
    story.send(11)
    identity = story.deliver(11, flagged=True, to="c2", settle=None)
    story.link("c1")
    story.deliver(11, identity, to="c1")

    assert_only(story.judge(), "unflagged")


def test_a_link_that_brought_something_newer_brings_no_late_first_delivery(story):
    """It had delivered what was sent after the other delivery; so this was sent after it too."""
    story.send(11)
    story.send(12)
    identity = story.deliver(12, flagged=True, to="c2", settle=None)
    story.send(13)
    story.deliver(13, to="c1")
    story.deliver(12, identity, to="c1")
    story.deliver(11)
    verdict = story.judge()

    assert verdict.unflagged == 1


# Resurrected ------------------------------------------------------------------------------------


def test_an_acknowledged_message_must_not_come_again(story):
    """The acknowledgement was confirmed, a link began, and the message came over it."""
    story.send(11)
    identity = story.deliver(11)
    story.link("c2")
    story.deliver(11, identity, flagged=True, to="c2", settle=None)

    assert_only(story.judge(), "resurrected")


def test_a_delivery_may_be_overtaken_by_an_acknowledgement(story):
    """It was on its way, over an older link, when another consumer's was confirmed."""
    story.send(11)
    identity = story.deliver(11)
    story.deliver(11, identity, flagged=True, to="c2", settle=None)

    assert story.judge().is_good


def test_an_unconfirmed_acknowledgement_promises_nothing(story):
    """Asked for and never answered: the message may come again, flagged."""
    story.send(11)
    identity = story.deliver(11, settled=False)
    story.link("c2")
    story.deliver(11, identity, flagged=True, to="c2")

    assert story.judge().is_good


def test_an_acknowledgement_in_a_committed_transaction_counts(story):
    """Committed: it must not come again. The relay's own sends must arrive."""
    story.send(11)
    identity = story.deliver(11, settle=None)
    story.send(12, unit="u1")
    story.line("h", "commit", u="u1", c="c1", x=[identity])
    story.line("h", "committed", u="u1")
    story.deliver(12)
    story.link("c2")
    story.deliver(11, identity, flagged=True, to="c2", settle=None)

    assert_only(story.judge(), "resurrected")


# Order ----------------------------------------------------------------------------------------


def test_a_producers_messages_stand_in_its_order(story):
    """The later message has the lower place in the queue."""
    story.send(11)
    story.send(12)
    first, second = story.identity(), story.identity()
    story.deliver(12, first)
    story.deliver(11, second)

    assert_only(story.judge(), "reordered")


def test_what_its_client_gave_up_has_no_order(story):
    """Its frame may have been under way for long, and was stored behind what was sent later."""
    story.send(11, "unknown")
    story.send(12)
    first, second = story.identity(), story.identity()
    story.deliver(12, first)
    story.deliver(11, second)

    assert story.judge().is_good


def test_what_was_never_answered_has_its_order(story):
    """Not confirmed when its worker died: if it is there, it stands where it was sent."""
    story.send(11, None)
    story.send(12, None)
    first, second = story.identity(), story.identity()
    story.deliver(12, first)
    story.deliver(11, second)

    assert_only(story.judge(), "reordered")


def test_two_producers_have_no_common_order(story):
    """Neither was promised to come before the other."""
    story.send(11)
    story.send(1, worker="s")
    first, second = story.identity(), story.identity()
    story.deliver(1, first, worker="s")
    story.deliver(11, second)

    assert story.judge().is_good


def test_one_link_delivers_in_the_order_of_the_queue(story):
    """Unflagged, over the same link, and a place behind one that came before."""
    story.send(11)
    story.send(12)
    first, second = story.identity(), story.identity()
    story.deliver(12, second)
    story.deliver(11, first)

    assert_only(story.judge(), "reordered")


def test_competing_consumers_and_redeliveries_have_no_common_order(story):
    """Over different links, or flagged: what was given back comes when it comes."""
    for sequence in (11, 12, 13):
        story.send(sequence)
    ids = [story.identity() for _ in range(3)]
    story.deliver(12, ids[1], to="c2")
    story.deliver(11, ids[0], to="c1")
    story.deliver(13, ids[2], to="c2")
    story.deliver(11, ids[0], to="c2", flagged=True, settle=None)

    assert story.judge().is_good


def test_a_new_link_begins_a_new_order(story):
    """What one link had delivered says nothing of the next one."""
    story.send(11)
    story.send(12)
    first, second = story.identity(), story.identity()
    story.deliver(12, second)
    story.link("c1")
    story.deliver(11, first)

    assert story.judge().is_good


# Transactions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["committed", "commit-unknown"])
def test_half_a_transaction_is_torn(story, outcome):
    """Two of three arrived; also if nobody knows whether it was committed."""
    story.transaction("u1", range(11, 14), outcome)
    story.deliver(11)
    story.deliver(12)
    verdict = story.judge()

    assert verdict.torn_transactions == 1
    assert verdict.lost == (1 if outcome == "committed" else 0)


@pytest.mark.parametrize("arrives", [True, False])
def test_a_transaction_of_unknown_outcome_is_whole_or_not_there(story, arrives):
    """Both are right."""
    story.transaction("u1", range(11, 14), "commit-unknown")
    for sequence in range(11, 14):
        if arrives:
            story.deliver(sequence)
    verdict = story.judge()

    assert verdict.is_good, verdict.problems
    assert verdict.recovered == (3 if arrives else 0)


@pytest.mark.parametrize("outcome", ["rolled-back", "commit-refused", None])
def test_what_was_not_committed_must_not_come(story, outcome):
    """Rolled back, refused, or never asked for: all of it arrived."""
    story.transaction("u1", range(11, 14), outcome)
    for sequence in range(11, 14):
        story.deliver(sequence)

    assert_only(story.judge(), "unexpected", 3)


def test_a_committed_transaction_counts_as_confirmed(story):
    """Its messages are lost if they do not come."""
    story.transaction("u1", range(11, 14), "committed")

    assert_only(story.judge(), "lost", 3)


def test_a_stranger_commits_once_too(story):
    """A transaction is never said twice by the worker, so two ids are the broker's doing."""
    story.send(1, worker="s", unit="u1")
    story.line("s", "commit", u="u1")
    story.line("s", "committed", u="u1")
    story.deliver(1, worker="s")
    story.deliver(1, worker="s")

    assert_only(story.judge(), "stored_twice")


# Dead letters ---------------------------------------------------------------------------------


def test_a_rejected_message_is_a_dead_letter(story):
    """Rejected, and found on the dead-letter queue."""
    story.send(11)
    story.deliver(11, settle="reject")
    story.deliver(11, queue=DEAD_LETTERS)
    verdict = story.judge()

    assert verdict.is_good, verdict.problems
    assert verdict.dead_letters == 1


def test_a_confirmed_rejection_without_a_dead_letter_is_lost(story):
    """It was taken off its queue and is nowhere."""
    story.send(11)
    story.deliver(11, settle="reject")

    assert_only(story.judge(), "lost")


def test_a_dead_letter_that_nobody_rejected_is_unexpected(story):
    """Failovers alone make no dead letters."""
    story.send(11)
    story.deliver(11)
    story.deliver(11, queue=DEAD_LETTERS)

    assert_only(story.judge(), "unexpected")


def test_one_message_is_one_dead_letter(story):
    """Rejected once, and twice on the dead-letter queue."""
    story.send(11)
    story.deliver(11, settle="reject")
    story.deliver(11, queue=DEAD_LETTERS)
    story.deliver(11, queue=DEAD_LETTERS)

    assert_only(story.judge(), "stored_twice")


# The rest -------------------------------------------------------------------------------------


def test_a_library_that_gives_up_is_a_problem(story):
    """It was told to try for ever."""
    story.line("h", "gave-up", text="LinkLostError: tired")

    assert_only(story.judge(), "gave_up")


def test_a_library_that_shows_a_message_twice_is_a_problem(story):
    """It keeps what the program holds apart from what comes again."""
    story.line("c", "shown-twice", c="c1", id="ID:x-1-3")

    assert_only(story.judge(), "shown_twice")


def test_silence_is_measured_from_mark_to_mark(story):
    """Only while something is due, and told for the mark after which it ended."""
    story.wait(5)  # nothing is due
    story.line("m", "begin", numbered=False)
    story.line("m", "mark", text="kill the leader")
    story.line("h", "send", p="h.p", n=11, q=A)
    story.wait(0.8)
    story.line("h", "stored", p="h.p", n=11)
    story.deliver(11)
    story.line("m", "mark", text="kill nobody")
    story.send(12)
    story.deliver(12)
    verdict = story.judge()

    assert len(verdict.gaps) == 1
    assert verdict.unavailable_ms == pytest.approx((801, 0), abs=1)


def test_what_a_dead_worker_was_owed_is_no_silence(story):
    """Nobody waits for it any more."""
    story.line("h2", "begin", numbered=True)
    story.line("h2", "send", p="h2.p", n=1, q=A)
    story.wait(10)
    verdict = story.judge()

    assert verdict.gaps == ()
    assert verdict.unknown == 1


@pytest.mark.parametrize(
    ("identity", "place"),
    [("ID:x-1-17", 17), ("ID:a-b-1-0", 0), ("ID:x-1-t4.17", None), ("nonsense", None)],
)
def test_a_message_id_tells_the_place(identity, place):
    """Only of messages in the log; others have no place in it."""
    assert place_of(identity) == place


@given(st.data())
def test_any_single_loss_is_found(data):
    """From a good history one message's deliveries are taken away: exactly that one is lost."""
    story = Story()
    total = data.draw(st.integers(1, 30))
    missing = data.draw(st.integers(1, total))
    for sequence in range(1, total + 1):
        story.send(sequence, queue=data.draw(st.sampled_from([A, B])))
        queue = story.workers["h"][-2]["q"]
        if sequence != missing:
            story.deliver(sequence, queue=queue, to=data.draw(st.sampled_from(["c1", "c2"])))
    verdict = story.judge()

    assert_only(verdict, "lost")
    assert f"h.p {missing} " in verdict.problems[0]
