"""
Answering a request: to where its sender awaits it, with what tells which request it answers.

JMS's way, which every broker's clients share: the answer goes to the request's `reply-to`, with the
request's `correlation-id`, or its message-id if it has none.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from holdfast.client.message import Message
from holdfast.client.producer import send_single
from holdfast.client.sent_properties import Properties, headers_with
from holdfast.client.sequence import is_lasting
from holdfast.client.session import ClientSession
from holdfast.client.wire import Body, Headers
from holdfast.errors import DestinationError, LocalProtocolError, QueueFullError

logger = logging.getLogger("holdfast.client")

Answering: TypeAlias = Callable[[Message], Awaitable[Body]]


async def send_reply(
    session: ClientSession,
    message: Message,
    body: Body,
    headers: Headers | None,
    *,
    persistent: bool | None,
    properties: Properties,
) -> None:
    """Answer a request and wait for the receipt; see `Message.reply`."""
    destination = message.reply_to
    if not destination:
        raise LocalProtocolError(
            f"{message} awaits no answer: it has no reply-to", code="no-reply-to"
        )
    said: Properties = {"correlation_id": message.correlation_id or message.id, **properties}
    await send_single(
        session,
        destination,
        body,
        headers_with(headers, said),
        persistent=is_lasting(destination) if persistent is None else persistent,
    )


async def reply_if_awaited(message: Message, body: Body) -> None:
    """
    Answer a request if somebody still waits; what nobody waits for, or takes, is done nevertheless.
    """
    if not message.reply_to:
        logger.debug("%s awaits no answer", message)
        return
    try:
        await message.reply(body)
    except DestinationError as error:
        logger.info("%s: whoever asked has gone: %s", message, error)
    except QueueFullError as error:
        if is_lasting(message.reply_to):
            raise
        # Others have asked, too: who asks and takes no answers is told none.
        logger.warning("%s: whoever asked takes no answers: %s", message, error)
