"""
Requests and their answers: each answer finds its request, and whoever waits hears how it ends.
"""

from __future__ import annotations

import asyncio

import pytest
from scripted_broker import ScriptedBroker, Store
from threaded_broker import Threaded

from holdfast.client import Connection, Message, blocking, connect
from holdfast.client.answers import Answers
from holdfast.errors import LinkLostError, LocalProtocolError, RefusedError, UnansweredError

QUESTIONS = "/queue/questions"
ANSWERS = "/temp-queue/answers"


async def echo(message: Message) -> str:
    return f"{message.text}!"


async def test_each_answer_finds_its_request() -> None:
    """However many ask at once, and in whatever order they are answered; over one subscription."""
    async with (
        ScriptedBroker() as broker,
        connect(broker.uri) as asker,
        connect(broker.uri) as server,
        server.subscribe(QUESTIONS) as questions,
    ):
        answering = asyncio.create_task(questions.answer(echo, concurrency=5))
        asked = [asker.request(QUESTIONS, str(n), correlation_id=f"c{n}") for n in range(20)]
        answers = await asyncio.gather(*asked, asker.request(QUESTIONS, "x", group="ann"))
        assert [it.text for it in answers] == [*(f"{n}!" for n in range(20)), "x!"]
        assert (
            len([it for it in broker.frames("SUBSCRIBE") if it.headers["destination"] == ANSWERS])
            == 1
        )
        await questions.close()
        await answering
        assert broker.store.bodies(QUESTIONS) == broker.store.bodies(ANSWERS) == []


async def test_no_answer_in_time_is_an_error_and_a_late_one_is_dropped() -> None:
    """It is also a TimeoutError; the next request is none the wiser."""
    async with (
        ScriptedBroker() as broker,
        connect(broker.uri) as connection,
        connection.subscribe(QUESTIONS) as questions,
    ):
        with pytest.raises(UnansweredError, match=r"no answer within 0\.01 s") as raised:
            await connection.request(QUESTIONS, "?", seconds=0.01)
        assert isinstance(raised.value, TimeoutError)
        late = await anext(questions)
        await late.reply("too late")
        asking = asyncio.create_task(connection.request(QUESTIONS, "?"))
        await (await anext(questions)).reply("in time")
        assert (await asking).text == "in time"
        await broker.saw(lambda: broker.store.bodies(ANSWERS) == [])


async def test_who_waits_hears_that_the_connection_has_ended() -> None:
    """By the application, or as its link is lost for good."""
    async with ScriptedBroker() as broker:
        for ends in (
            lambda it: it.close(is_graceful=False),
            lambda _: asyncio.sleep(0, broker.hang_up()),
        ):
            connection = await connect(broker.uri)
            asking = asyncio.create_task(connection.request(QUESTIONS, "?", seconds=None))
            await broker.saw(lambda: broker.store.bodies(QUESTIONS))
            await ends(connection)
            with pytest.raises(LinkLostError):
                await asking
            await connection.close(is_graceful=False)


async def test_a_request_that_is_refused_or_cancelled_is_over() -> None:
    """Its correlation id is free again."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.refuse = lambda event: ("refused", "no") if event in broker.sends else None
        with pytest.raises(RefusedError, match="no"):
            await connection.request(QUESTIONS, "?", correlation_id="c")
        broker.refuse = lambda event: None
        asking = asyncio.create_task(connection.request(QUESTIONS, "?", correlation_id="c"))
        await broker.saw(lambda: broker.store.bodies(QUESTIONS))
        with pytest.raises(LocalProtocolError, match="'c' is awaited already"):
            await connection.request(QUESTIONS, "?", correlation_id="c")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        with pytest.raises(UnansweredError):
            await connection.request(QUESTIONS, "?", correlation_id="c", seconds=0.001)
        with pytest.raises(LocalProtocolError, match="'reply_to'"):
            await connection.request(QUESTIONS, "?", reply_to="/queue/mine")


async def test_over_a_failover_only_what_may_be_repeated_is_sent_again() -> None:
    """The other one stays one request, whatever became of its answer."""
    store = Store()
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with connect(first.failover(second)) as connection:
            asking = [
                asyncio.create_task(connection.request(QUESTIONS, text, is_repeatable=again))
                for text, again in (("once", False), ("again", True))
            ]
            await first.saw(lambda: len(store.bodies(QUESTIONS)) == 2)
            await connection.wait_confirmed()
            first.kill()
            await second.saw(lambda: len(store.bodies(QUESTIONS)) == 3)
            assert sorted(store.bodies(QUESTIONS)) == [b"again", b"again", b"once"]
            async with connection.subscribe(QUESTIONS) as questions:
                answering = asyncio.create_task(questions.answer(echo))
                assert [(await it).text for it in asking] == ["once!", "again!"]
                answering.cancel()


def test_so_it_is_without_asyncio(threaded: Threaded) -> None:
    """A function that is called in threads answers; whoever asks just waits."""
    with blocking.connect(threaded.broker.uri) as server:

        async def serve(connection: Connection) -> None:
            async with connection.subscribe(QUESTIONS) as questions:
                await questions.answer(echo)

        async def begin() -> asyncio.Task[None]:
            other = await connect(threaded.broker.uri)
            return asyncio.create_task(serve(other))

        serving = threaded.wait(begin())
        assert server.request(QUESTIONS, "?", seconds=20).text == "?!"
        with pytest.raises(UnansweredError):
            server.request("/queue/nobody", "?", seconds=0.01)
        threaded.do(serving.cancel)
        with server.subscribe(QUESTIONS) as questions:
            server.send(QUESTIONS, "mine", reply_to="/queue/r", correlation_id="c")
            message = next(questions)
            message.reply("by hand")
            message.acknowledge(confirm=True)
    assert threaded.broker.store.bodies("/queue/r") == [b"by hand"]


async def test_whoever_waits_is_told_that_answers_cannot_be_read() -> None:
    """And no answer comes to the subscription that nobody reads any more."""

    class Unreadable:
        is_abandoned = False

        async def open(self) -> Unreadable:
            return self

        def abandon(self) -> None:
            self.is_abandoned = True

        def __aiter__(self) -> Unreadable:
            return self

        async def __anext__(self) -> Message:
            await asked.wait()
            raise OSError("no such file")

    async def send() -> None:
        asked.set()

    asked = asyncio.Event()
    subscription = Unreadable()
    answers = Answers(lambda _: subscription)  # type: ignore[arg-type, return-value]
    async with asyncio.timeout(10):
        with pytest.raises(LinkLostError, match="no such file"):
            await answers.ask("c", send, seconds=None, is_repeatable=False)
    assert subscription.is_abandoned
