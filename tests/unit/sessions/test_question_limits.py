"""
How many long questions one client may have.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from holdfast.errors import LimitReachedError
from holdfast.sessions.question_limits import QUESTIONS_MAX, counted, require_few_questions


@pytest.fixture
def session():
    return SimpleNamespace(holdings=SimpleNamespace(sending=SimpleNamespace(question_count=0)))


def test_a_question_counts_until_its_last_step_is_done(session) -> None:
    """
    Also before its first: there it waits.
    """
    steps = counted(session, iter((None, None)))
    assert session.holdings.sending.question_count == 1
    assert [*steps] == [None, None]
    assert session.holdings.sending.question_count == 0


def test_one_that_is_dropped_or_fails_counts_no_more(session) -> None:
    """
    Whoever asked may ask again.
    """

    def failing():
        yield None
        raise KeyError

    dropped, failed = counted(session, iter((None, None))), counted(session, failing())
    next(dropped)
    dropped.close()
    with pytest.raises(KeyError):
        _ = [*failed]
    assert session.holdings.sending.question_count == 0


def test_of_one_more_than_there_may_be_the_error_says_what_to_do(session) -> None:
    """
    And names what was asked.
    """
    session.holdings.sending.question_count = QUESTIONS_MAX - 1
    require_few_questions(session, "this")
    session.holdings.sending.question_count = QUESTIONS_MAX
    with pytest.raises(LimitReachedError, match=r"^this looks through many.* ask again"):
        require_few_questions(session, "this")
