"""
Answering: to where it is awaited, and what cannot be answered keeps no request from being done.
"""

from __future__ import annotations

import asyncio

import pytest
from scripted_broker import ScriptedBroker

from holdfast.client import Message, connect
from holdfast.errors import LocalProtocolError

QUESTIONS = "/queue/questions"


async def test_what_awaits_no_answer_is_done_nevertheless(caplog) -> None:
    """
    As is what was asked by somebody who has gone, or takes no answers; a failing function answers
    nobody, nor does one whose answer is to be kept and has no room.
    """

    async def answering(message: Message) -> str:
        if message.text == "bad":
            raise ValueError("mine")
        return "!"

    async with (
        ScriptedBroker() as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUESTIONS) as questions,
    ):
        refused = {
            "/temp-queue/gone": ("destination", "gone"),
            "/remote-temp-queue/behind": ("queue-full", "behind"),
            "/queue/full": ("queue-full", "full"),
        }
        broker.refuse = lambda event: (
            refused.get(event.block.headers["destination"]) if event in broker.sends else None
        )
        await connection.send(QUESTIONS, "no reply-to")
        await connection.send(QUESTIONS, "gone", reply_to="/temp-queue/gone")
        await connection.send(QUESTIONS, "behind", reply_to="/remote-temp-queue/behind")
        await connection.send(QUESTIONS, "full", reply_to="/queue/full")
        await connection.send(QUESTIONS, "bad", reply_to="/queue/r")
        await connection.send(QUESTIONS, "good", reply_to="/queue/r", correlation_id="c")
        task = asyncio.create_task(questions.answer(answering))
        await broker.saw(lambda: len(broker.store.settled) == 4)
        assert len(broker.store.rejected) == 2
        (answer,) = broker.store.messages["/queue/r"]
        assert (answer.body, answer.headers["correlation-id"]) == (b"!", "c")
        await questions.close()
        await task


async def test_a_message_without_a_reply_to_cannot_be_answered() -> None:
    """The call says so; with one it is answered by its id if it has no correlation id."""
    async with (
        ScriptedBroker() as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUESTIONS) as questions,
    ):
        await connection.send(QUESTIONS, "1")
        await connection.send(QUESTIONS, "2", reply_to="/queue/r")
        one, two = await anext(questions), await anext(questions)
        with pytest.raises(LocalProtocolError, match="no reply-to"):
            await one.reply("!")
        await two.reply("!", type="answer")
        (answer,) = broker.store.messages["/queue/r"]
        assert answer.headers["correlation-id"] == two.id
        assert (answer.headers["type"], answer.headers["persistent"]) == ("answer", "true")
