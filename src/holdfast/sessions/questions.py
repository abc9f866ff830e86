"""
Questions that a SEND asks the broker, and that it answers by messages to a reply-to.

What is sent to the names of ActiveMQ's statistics plugin is kept nowhere. Its answers are maps, in
memory only, with the question's correlation-id. What is asked of one destination, or of the broker,
is answered at once; to look through many is an errand.

Invariants:
    Who asks gets no more than so many answers for one question, and none where there is no room.
    Of each client only so many questions wait that look through many, and none once it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.errors import (
    DestinationError,
    NotServedError,
    RefusedError,
)
from holdfast.model.destination import Destination, Kind, parse_destination, parse_sources
from holdfast.model.map_messages import MAP_JSON, MAP_XML, MapValue, map_body
from holdfast.protocols.stomp.codec import escape
from holdfast.sessions.answering import say
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.permissions import require_granted
from holdfast.sessions.question_limits import counted, require_few_questions
from holdfast.sessions.schedule_management import MANAGEMENT, management_of
from holdfast.sessions.statistics import (
    ANSWERS_MAX,
    of_broker,
    of_destinations,
    of_subscriptions,
)
from holdfast.sessions.target import Action, Question, Target

STATISTICS: Final = "ActiveMQ.Statistics."
_BROKER: Final = f"{STATISTICS}Broker"
_DESTINATION: Final = f"{STATISTICS}Destination"
_SUBSCRIPTION: Final = f"{STATISTICS}Subscription"
_RESET: Final = f"{_BROKER}.Reset"
_ENDED: Final = f"{_DESTINATION}.List.End.With.Null"

Values = Mapping[str, MapValue]


def question_of(session: ClientSession, headers: Mapping[str, str]) -> Target | None:
    """
    Give where a question goes; None: what these headers send is none.

    Raises:
        RefusedError: It asks for what is not known, or not where its answer goes.
    """
    named = headers["destination"]
    if STATISTICS not in named and MANAGEMENT not in named:
        return None
    sources = parse_sources(headers["destination"])  # It may have wildcards.
    written = sources[0]
    is_one = len(sources) == 1 and written.kind in (Kind.QUEUE, Kind.TOPIC)
    if is_one and written.name == MANAGEMENT:
        require_granted(session, session.holdings.broker, (written,), Action.MANAGE)
        return management_of(session, headers)
    if not is_one or not written.name.startswith(STATISTICS):
        return None
    return _asked(session, headers, written)


def _asked(session: ClientSession, headers: Mapping[str, str], written: Destination) -> Target:
    if "transaction" in headers:
        raise NotServedError(f"'{written}' is asked at once, not in a transaction")
    reply_to = headers.get("reply-to", "").strip()
    if not reply_to:
        raise RefusedError(f"'{written}' answers to a reply-to, and there is none")
    form = headers.get("transformation", MAP_JSON)
    if form not in (MAP_JSON, MAP_XML):
        raise RefusedError(
            f"header transformation: {form[:40]!r}; expected {MAP_JSON} or {MAP_XML}"
        )
    require_granted(session, session.holdings.broker, (written,), Action.ASK)
    answers = _answers_to(session, headers, written)
    is_long = written.is_wildcard or written.name == _SUBSCRIPTION
    if is_long:
        require_few_questions(session, f"'{written}'")
    place = session.holdings.target(session, parse_destination(reply_to), Action.SEND)
    broker = session.holdings.broker
    lines = _lines(headers, form)
    answering = _Answering(session, place, lines, is_xml=form == MAP_XML)

    def answer(_receipt: bytes | None) -> bool:
        if is_long:
            asked = counted(session, answering.steps(answers()))
            broker.errands.tell(asked, session)
            return False
        for values in answers():
            if values is not None and not answering.say(values):
                break
        return False

    return Target(Question(written.name, answer), b"", persistent=False)


def _answers_to(
    session: ClientSession, headers: Mapping[str, str], written: Destination
) -> Callable[[], Iterator[Values | None]]:
    broker, context, name = session.holdings.broker, session.context, written.name
    if name == _BROKER:
        if _RESET in headers:
            raise NotServedError(f"counters are not reset (header {_RESET!r})")
        return lambda: iter([of_broker(broker, context)])
    if name == _SUBSCRIPTION:
        return lambda: of_subscriptions(broker, context)
    if not name.startswith(_DESTINATION):
        known = ", ".join((_BROKER, f"{_DESTINATION}.NAME", _SUBSCRIPTION))
        raise DestinationError(f"'{written}' answers nothing; there are {known}")
    wanted = name.removeprefix(_DESTINATION).replace(_ENDED, "").removeprefix(".")
    is_ended = _ENDED in headers or _ENDED in name.removeprefix(_DESTINATION)
    if not wanted:
        raise DestinationError(f"'{written}' does not say which destination is meant")
    found = of_destinations(broker, context, Destination(written.kind, wanted))

    def answers() -> Iterator[Values | None]:
        yield from found
        if is_ended:
            yield {}

    return answers


def _lines(headers: Mapping[str, str], form: str) -> bytes:
    lines = [f"type:Advisory\ntransformation:{form}\n"]
    if "correlation-id" in headers:
        lines.append(f"correlation-id:{escape(headers['correlation-id'], '1.2')}\n")
    return "".join(lines).encode()


class _Answering:
    """Sends answers where they are wanted."""

    def __init__(
        self, session: ClientSession, place: Queue | Topic, lines: bytes, *, is_xml: bool
    ) -> None:
        self._session = session
        self._place = place
        self._lines = lines
        self._is_xml = is_xml

    def steps(self, answers: Iterator[Values | None]) -> Iterator[None]:
        """Send them, one at each step; None among them is a step of a long look."""
        count = 0
        for values in answers:
            if values is not None:
                if not self.say(values):
                    return
                count += 1
            if count >= ANSWERS_MAX:
                return
            yield

    def say(self, values: Values) -> bool:
        """Send one of them, if there is room; whether there was."""
        body = map_body(values, is_xml=self._is_xml)
        return say(self._session.holdings.broker, self._place, self._lines, body, self._session)
