"""
What is scheduled, looked at and taken back by messages, as ActiveMQ's management topic has it.

A SEND to `ActiveMQ.Scheduler.Management` says what is to be done: each job is sent to its reply-to,
one is removed by its id, or all are, or those that are due in a time. To look at many is an errand.

Invariants:
    A receipt of what removes something is told once that is stored.
    Who looks gets no more than so many, and none where there is no room.
    What looks at many jobs is counted among the questions of who asks; what takes back many goes on
    though that is gone, and only so many of these do at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from holdfast.broker.serving.queue import Queue
from holdfast.errors import LimitReachedError, NotServedError, RefusedError, StoreError
from holdfast.model.destination import parse_destination
from holdfast.model.digits import read_digits
from holdfast.model.schedules import TIME_MS_MAX
from holdfast.protocols.stomp.codec import escape
from holdfast.sessions.answering import say
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.question_limits import counted, require_few_questions
from holdfast.sessions.stomp_delivery import read_identity
from holdfast.sessions.target import Action, Question, Target

MANAGEMENT: Final = "ActiveMQ.Scheduler.Management"
ACTION: Final = "AMQ_SCHEDULER_ACTION"
JOB: Final = "scheduledJobId"
START: Final = "ACTION_START_TIME"
END: Final = "ACTION_END_TIME"
BROWSE: Final = "BROWSE"
REMOVE: Final = "REMOVE"
REMOVE_ALL: Final = "REMOVEALL"

SHOWN_MAX: Final = 1_000
"""So many jobs one message gets to see."""
_PER_STEP: Final = 64
_REMOVALS_MAX: Final = 16
"""So many may take back what is due in some time, of all clients together."""


class _Times(NamedTuple):
    """From when to when jobs are due that are meant, in milliseconds since 1970."""

    start_ms: int
    end_ms: int

    def have(self, due_ms: int) -> bool:
        """Whether a time is among them."""
        return self.start_ms <= due_ms <= self.end_ms


def management_of(session: ClientSession, headers: Mapping[str, str]) -> Target:
    """
    Give where a message goes that says something of what is scheduled.

    Raises:
        RefusedError: It does not say what, or of which jobs, or not where they are to be shown.
    """
    if "transaction" in headers:
        raise NotServedError(f"{MANAGEMENT!r} is asked at once, not in a transaction")
    action = headers.get(ACTION, "").strip()
    times = _Times(_time(headers, START, 0), _time(headers, END, TIME_MS_MAX))
    answer: Callable[[bytes | None], bool]
    if action in (BROWSE, REMOVE_ALL):
        require_few_questions(session, f"{ACTION} {action}")
    if action == BROWSE:
        answer = _shown(session, headers, times)
    elif action == REMOVE:
        answer = _removed(session, headers.get(JOB, ""))
    elif action == REMOVE_ALL:
        answer = _all_removed(session, times)
    else:
        known = f"{BROWSE}, {REMOVE}, {REMOVE_ALL}"
        raise RefusedError(f"header {ACTION}: {action[:40]!r}; expected one of {known}")
    return Target(Question(MANAGEMENT, answer), b"", persistent=False)


def _time(headers: Mapping[str, str], name: str, otherwise: int) -> int:
    text = headers.get(name, "").strip()
    if not text:
        return otherwise
    value = read_digits(text)
    if value is None or value > TIME_MS_MAX:
        raise RefusedError(f"header {name}: {text[:40]!r}; expected milliseconds since 1970")
    return value


def _removed(session: ClientSession, job: str) -> Callable[[bytes | None], bool]:
    identity = read_identity(job.strip().encode(), session.context.cluster)
    if identity is None:
        raise RefusedError(f"header {JOB}: {job[:80]!r} is no id of a job of this cluster")
    number, sequence, _ = identity

    def answer(receipt: bytes | None) -> bool:
        broker = session.holdings.broker
        queue = broker.firing.queue
        if queue is not None and queue.number == number:
            broker.firing.take_back([sequence])
        if receipt is not None:
            session.holdings.reply_after_pending(session, receipt)
        return True

    return answer


def _all_removed(session: ClientSession, times: _Times) -> Callable[[bytes | None], bool]:
    def steps(receipt: bytes | None) -> Iterator[None]:
        broker = session.holdings.broker
        queue = broker.firing.queue
        for some in () if queue is None else _jobs(queue, times):
            broker.firing.take_back(some)
            yield
        if receipt is not None:
            session.holdings.reply_after_pending(session, receipt)

    firing = session.holdings.broker.firing
    if firing.removal_count >= _REMOVALS_MAX:
        raise LimitReachedError(
            f"{ACTION} {REMOVE_ALL}: {_REMOVALS_MAX} of these are under way; ask again when one of"
            f" them is done"
        )

    def counted_steps(receipt: bytes | None) -> Iterator[None]:
        firing.removal_count += 1
        try:
            yield from steps(receipt)
        finally:
            firing.removal_count -= 1

    def answer(receipt: bytes | None) -> bool:
        errand = counted(session, counted_steps(receipt))
        session.holdings.broker.errands.begin(errand, session)
        return True

    return answer


def _shown(
    session: ClientSession, headers: Mapping[str, str], times: _Times
) -> Callable[[bytes | None], bool]:
    reply_to = headers.get("reply-to", "").strip()
    if not reply_to:
        raise RefusedError(f"{ACTION} {BROWSE} answers to a reply-to, and there is none")
    place = session.holdings.target(session, parse_destination(reply_to), Action.SEND)
    added = ""
    if "correlation-id" in headers:
        added = f"correlation-id:{escape(headers['correlation-id'], '1.2')}\n"

    def steps() -> Iterator[None]:
        holdings = session.holdings
        queue = holdings.broker.firing.queue
        count = 0
        for some in () if queue is None else _jobs(queue, times):
            for sequence in some:
                told = _told(session, queue, sequence, added)
                if told is None:
                    continue
                if count >= SHOWN_MAX or not say(holdings.broker, place, *told, session):
                    return
                count += 1
                yield  # Its content may have been read from the log.
            yield

    def answer(_receipt: bytes | None) -> bool:
        session.holdings.broker.errands.tell(counted(session, steps()), session)
        return False

    return answer


def _jobs(queue: Queue, times: _Times) -> Iterator[list[int]]:
    """Give what is scheduled for these times, of what is so now, some at a time."""
    index = queue.index
    end = queue.lasting.next_sequence
    sequence = index.next_live(0, end)
    while sequence < end and not queue.is_deleted:
        some: list[int] = []
        for _ in range(_PER_STEP):
            if sequence >= end:
                break
            if times.have(index.expires_ms(sequence)):
                some.append(sequence)
            sequence = index.next_live(sequence + 1, end)
        yield some


def _told(
    session: ClientSession, queue: Queue | None, sequence: int, added: str
) -> tuple[bytes, bytes] | None:
    """Give a job as it is shown; None: it is not there any more, or cannot be read now."""
    if queue is None or queue.has_ended(sequence):
        return None
    message = queue.cache.find(sequence)
    if message is None:
        try:
            message = session.holdings.read_message(queue.index.record_number(sequence))
        except StoreError:
            return None
    if message.headers is None or message.body is None:
        return None
    job = f"ID:{session.context.cluster}-{queue.number}-{sequence}"
    due_ms = queue.index.expires_ms(sequence)
    lines = f"{JOB}:{escape(job, '1.2')}\nscheduledJobDue:{due_ms}\n{added}"
    return lines.encode() + message.headers, message.body
