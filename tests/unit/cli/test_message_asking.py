"""
`holdfast request` and `holdfast reply` as a shell sees them: arguments, streams, exit codes.

Against the scripted broker of the client's tests, which runs in a thread.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent / "client"))
from threaded_broker import Threaded, within

from holdfast.cli import message_asking, message_questions
from holdfast.cli.message_questions import _feed
from holdfast.errors import ConfigError, UnansweredError

QUESTIONS = "/queue/questions"

assert message_questions  # Both commands import it as they run, here in two threads at once.


@pytest.fixture
def threaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Threaded]:
    # Typer sets and removes it while it reads a command line, which is done here in two threads.
    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", "1")
    served = Threaded()
    yield served
    served.close()


def run(*arguments: str) -> None:
    app = typer.Typer()
    message_asking.register(app)
    app(list(arguments), standalone_mode=False)


class Answering:
    """`holdfast reply` in a thread; leaving the block waits for its end."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._thread = threading.Thread(target=self._run)
        self.error: BaseException | None = None

    def _run(self) -> None:
        try:
            run("reply", *self._arguments)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def __enter__(self) -> Answering:
        self._thread.start()
        return self

    def __exit__(self, kind: object, raised: BaseException | None, *_: object) -> None:
        within(self._thread.join)
        if raised is not None and self.error is not None:
            raised.add_note(f"`holdfast reply` had ended with {self.error!r}")


def ask(threaded: Threaded, *arguments: str) -> None:
    run("request", QUESTIONS, *arguments, "--uri", threaded.broker.uri, "--timeout", "20")


def test_a_text_answers_all_and_standard_output_has_nothing_else(threaded, capsys) -> None:
    """Until the count; then it has ended, and said how many."""
    with Answering(QUESTIONS, "2.20", "--count", "2", "--uri", threaded.broker.uri):
        ask(threaded, "espresso")
        ask(threaded, "latte", "--json", "--correlation-id", "c1")
    out, err = capsys.readouterr()
    first, second = out.splitlines()
    told = json.loads(second)
    assert (first, told["body"], told["headers"]["correlation-id"]) == ("2.20", "2.20", "c1")
    assert err.splitlines() == ["answered 2 requests"]


def test_a_command_makes_the_answers(threaded, capsys, monkeypatch) -> None:
    """Each request on its standard input, here from ours; its last line feed is not sent."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"espresso")))
    command = f"{sys.executable} -c 'print(input().upper())'"
    with Answering(QUESTIONS, "-c", command, "-n", "1", "-q", "--uri", threaded.broker.uri):
        ask(threaded)
    assert capsys.readouterr() == ("ESPRESSO\n", "")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (f"{sys.executable} -c 'import sys; sys.exit(\"no such drink\")'", "ended with 1: no such"),
        ("/nowhere/at-all", "/nowhere/at-all cannot be run"),
    ],
)
def test_a_command_that_fails_answers_nobody(threaded, capsys, command, why) -> None:
    """Its request is rejected, and standard error says why; the next one is asked nevertheless."""
    broker = threaded.broker
    for _ in range(2):
        threaded.do(lambda: broker.store.put(QUESTIONS, {"persistent": "true"}, b"?"))
    with Answering(QUESTIONS, "--command", command, "--count", "2", "--uri", broker.uri):
        pass
    err = capsys.readouterr().err
    assert err.count(why) == 2 and "answered 0 requests" in err
    assert len(broker.store.rejected) == 2


def test_a_command_that_has_ended_before_it_is_written_to_is_judged_by_its_end() -> None:
    """The loop's own word for a pipe that is closed already ended the whole command."""

    async def feed() -> None:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec("true", stdin=pipe)
        await process.wait()
        for _ in range(2):
            await _feed(process, b"espresso")

    uvloop.run(feed())


def test_nobody_answers_in_time(threaded: Threaded) -> None:
    """An error, which `main` makes exit code 1."""
    with pytest.raises(UnansweredError, match=r"no answer within 0\.5 s"):
        run("request", QUESTIONS, "?", "--uri", threaded.broker.uri, "--timeout", "0.5")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("reply", QUESTIONS), "one of them"),
        (("reply", QUESTIONS, "x", "--command", "y"), "one of them"),
        (("reply", QUESTIONS, "--command", "'"), "No closing quotation"),
        (("reply", QUESTIONS, "--command", " "), "--command is empty"),
        (("request", QUESTIONS, "?", "--reply-to", "/queue/a"), "comes here"),
        (("request", "queue/a", "?"), "a slash is missing"),
    ],
)
def test_what_makes_no_sense_is_refused_first(arguments: tuple[Any, ...], why: str) -> None:
    """Before anybody connects."""
    with pytest.raises(ConfigError, match=why):
        run(*arguments)
