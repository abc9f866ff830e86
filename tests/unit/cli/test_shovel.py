"""
`holdfast shovel` as a shell sees it: arguments, streams, exit codes.

From the scripted broker of the client's tests to another queue of its own, in a thread.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

sys.path.insert(0, str(Path(__file__).parent.parent / "client"))
from threaded_broker import Threaded

from holdfast.cli import shovel
from holdfast.errors import ConfigError, HoldfastError


class Shell(Threaded):
    """Runs the command against a broker in another thread."""

    error: HoldfastError | None = None

    def run(self, *arguments: str) -> int:
        app = typer.Typer()
        shovel.register(app)
        uri = self.broker.uri
        try:
            app(["--from", uri, "--to", uri, "--timeout", "0.3", *arguments])
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
        except HoldfastError as error:
            self.error = error
        return 0

    def bodies(self, queue: str) -> list[bytes]:
        return self.broker.store.bodies(queue)


@pytest.fixture
def shell() -> Iterator[Shell]:
    served = Shell()
    yield served
    served.close()


def test_messages_are_carried_and_told_of(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    """A table for people, which names both ends."""
    for body in (b"one", b"two"):
        shell.broker.store.put("/queue/a", {"persistent": "true", "colour": "red"}, body)
    assert shell.run("a=b") == 0
    assert shell.error is None
    assert (shell.bodies("/queue/a"), shell.bodies("/queue/b")) == ([], [b"one", b"two"])
    headers = shell.broker.sends[0].block.headers
    assert (headers["colour"], headers["shovel-hops"], headers["persistent"]) == (
        "red",
        "1",
        "true",
    )
    told = capsys.readouterr()
    assert "carried 2 messages in" in told.err
    assert "/queue/a   /queue/b        2" in told.out


def test_programs_are_told_in_json(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard output, and nothing else there."""
    shell.broker.store.put("/queue/a", {"persistent": "true"}, b"one")
    assert shell.run("a=b", "--json", "--quiet") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["carried"], told["routes"][0]["target"]) == (1, "/queue/b")


def test_what_has_to_stay_is_an_exit_code(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    """And a sentence with the first one."""
    shell.broker.store.put("/queue/a", {"persistent": "true", "shovel-hops": "9"}, b"one")
    assert shell.run("a=b") == 1
    assert shell.bodies("/queue/a") == [b"one"]
    assert "1 of /queue/a stay there (hops), first" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("a",), "--from and --to are the same place"),
        (("/topic/t=b",), "give --durable NAME"),
        (("a=b", "--durable", "d"), "--durable is of a topic"),
        (("/topic/t=b", "/topic/u=c", "--durable", "d"), "one topic at a time"),
        (("a=b", "--follow"), "--follow goes on for ever"),
    ],
)
def test_what_would_lose_or_turn_for_ever_is_refused(
    shell: Shell, arguments: tuple[str, ...], told: str
) -> None:
    """Before anything is asked of anybody."""
    shell.run(*arguments)
    assert isinstance(shell.error, ConfigError)
    assert told in " ".join(shell.error.problems)
    assert shell.broker.connections == []


def test_rabbitmq_is_told_its_virtual_host(shell: Shell) -> None:
    """Both ends may be one."""
    assert shell.run("a=b", "--from-host", "/there", "--host", "/here") == 0
    said = [it.headers["host"] for it in shell.broker.frames("CONNECT")]
    assert said == ["/here", "/there"]
