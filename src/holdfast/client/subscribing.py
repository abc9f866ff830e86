"""
What a subscription wishes, checked and in the words of a SUBSCRIBE; and the end of a durable one.

A durable subscription is known by its name and the connection's `client_id`. It goes on when its
consumer leaves, and gets what is sent meanwhile; it ends when somebody says so.
"""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.client.requests import Question
from holdfast.client.session import ClientSession
from holdfast.client.wire import (
    VERSION,
    WIRE_MODES,
    Headers,
    encode_text,
    subscribe_headers,
)
from holdfast.errors import ConfigError, LocalProtocolError
from holdfast.model.limits import CONSUMER_PRIORITY_MAX, CONSUMER_PRIORITY_MIN
from holdfast.protocols.stomp.codec import encode_frame

_NAMES: Final = ("activemq.subscriptionName", "durable-subscription-name")
"""ActiveMQ's word, which is ours, and Artemis's."""


def subscription_lines(
    session: ClientSession,
    destination: str,
    *,
    acknowledge: str,
    prefetch: int,
    selector: str | None,
    exclusive: bool,
    priority: int,
    browse: bool,
    durable: str | None,
    no_local: bool,
    retroactive: bool,
    headers: Headers | None,
) -> dict[str, str]:
    """
    Give the headers of a SUBSCRIBE that stay the same on every link; see `Connection.subscribe`.

    Raises:
        ConfigError: Wishes that there are not, or that do not go together.
        LocalProtocolError: Something is no text, or no UTF-8, or a header is set by the client.
    """
    problems = []
    texts = {"destination": destination, "selector": selector or "", "durable": durable or ""}
    for name, text in texts.items():
        encode_text(text, f"the {name}")
    if acknowledge not in WIRE_MODES:
        problems.append(f"acknowledge is {acknowledge!r}; known are {', '.join(WIRE_MODES)}")
    if prefetch < 1:
        problems.append(f"prefetch is {prefetch}; it must be 1 or more")
    if not CONSUMER_PRIORITY_MIN <= priority <= CONSUMER_PRIORITY_MAX:
        problems.append(
            f"priority is {priority}; it must be"
            f" from {CONSUMER_PRIORITY_MIN} to {CONSUMER_PRIORITY_MAX}"
        )
    if durable is not None:
        problems += _problems_of_name(session, durable)
    if problems:
        raise ConfigError(problems)
    lines = subscribe_headers(
        headers,
        prefetch,
        selector,
        is_holdfast=session.is_holdfast,
        exclusive=exclusive,
        priority=priority,
        browse=browse,
        no_local=no_local,
        retroactive=retroactive,
    )
    if durable is not None:
        _refuse_other_names(lines)
        lines |= _named(session, durable)
    return lines


def _problems_of_name(session: ClientSession, name: str) -> list[str]:
    problems = []
    if not name:
        problems.append("durable is empty; it must be a name")
    if not session.settings.client_id:
        problems.append(
            f"durable subscription {name!r} needs a client_id, by which it is known again"
        )
    return problems


def _refuse_other_names(lines: dict[str, str]) -> None:
    for header in _NAMES:
        if header in lines:
            raise LocalProtocolError(
                f"header {header!r} of a subscription is set by the client itself;"
                " use the arguments instead",
                code="reserved-header",
            )


def _named(session: ClientSession, name: str) -> dict[str, str]:
    """Say a durable subscription's name as the broker knows it; another one's word may be ours."""
    return dict.fromkeys(_NAMES[:1] if session.is_holdfast else _NAMES, name)


def is_durable(lines: dict[str, str]) -> bool:
    """Whether the headers of a SUBSCRIBE name a durable subscription."""
    return any(lines.get(header) for header in _NAMES)


class EndRequest(Question):
    """UNSUBSCRIBE of a durable subscription by its name: it does no harm where there is none."""

    __slots__ = ("lines",)

    is_limited_by_timeout = True

    def __init__(self, outcome: asyncio.Future[None], lines: dict[str, str]) -> None:
        super().__init__(outcome)
        self.lines = lines

    def frame(self, receipt: str) -> bytes:
        return encode_frame("UNSUBSCRIBE", {**self.lines, "receipt": receipt}.items(), b"", VERSION)


async def end_durable(session: ClientSession, name: str) -> None:
    """End a durable subscription; see `Connection.end_durable`."""
    encode_text(name, "the name")
    problems = _problems_of_name(session, name)
    if problems:
        raise ConfigError(problems)
    session.check_open()
    lines = {"id": session.next_subscription_id(), **_named(session, name)}
    request = EndRequest(session.loop.create_future(), lines)
    receipt = session.next_receipt()
    session.request(request, receipt, request.frame(receipt))
    await request.outcome
