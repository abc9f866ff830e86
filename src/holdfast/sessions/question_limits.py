"""
How many long questions one client may have that are not answered yet.

To look through many destinations or jobs is an errand, in steps as there is time. Each that waits
takes memory and time, so they have a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.errors import LimitReachedError
from holdfast.sessions.client_session import ClientSession

QUESTIONS_MAX: Final = 16
"""So many questions of one client may wait that look through many."""


def require_few_questions(session: ClientSession, what: str) -> None:
    """
    Let a client ask one more that looks through many.

    Raises:
        LimitReachedError: Too many wait.
    """
    if session.holdings.sending.question_count >= QUESTIONS_MAX:
        raise LimitReachedError(
            f"{what} looks through many, and {QUESTIONS_MAX} questions of this connection are being"
            f" answered; ask again when one of them is"
        )


def counted(session: ClientSession, steps: Iterator[None]) -> Iterator[None]:
    """Count a question from now on, until its last step is done or it is dropped."""
    session.holdings.sending.question_count += 1
    return _until_done(session, steps)


def _until_done(session: ClientSession, steps: Iterator[None]) -> Iterator[None]:
    try:
        yield from steps
    finally:
        session.holdings.sending.question_count -= 1
