"""
Requests of operators that wait for their record.
"""

from __future__ import annotations

import asyncio

from holdfast.server.requests import OperatorReply


def test_the_reply_ends_the_waiting() -> None:
    """
    Who waits goes on when the broker says that it is stored; a second word changes nothing.
    """

    async def scenario() -> bool:
        reply = OperatorReply()
        assert not reply.done.done()
        reply.reply(b"")
        reply.reply(b"")
        await reply.done
        return reply.done.done()

    assert asyncio.run(scenario())


def test_a_reply_after_the_waiting_was_given_up_is_harmless() -> None:
    """
    Cancelling the wait does not cancel the change, so its reply may still come.
    """

    async def scenario() -> None:
        reply = OperatorReply()
        reply.done.cancel()
        reply.reply(b"")

    asyncio.run(scenario())
