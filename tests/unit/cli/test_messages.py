"""
`holdfast send` and `holdfast receive` as a shell sees them: arguments, streams, exit codes.

Against the scripted broker of the client's tests, which runs in a thread.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

sys.path.insert(0, str(Path(__file__).parent.parent / "client"))
from scripted_broker import Served
from threaded_broker import Threaded

from holdfast.cli import message_patience, message_receiving, message_sending, messages
from holdfast.errors import (
    ConfigError,
    HoldfastError,
    LinkLostError,
    RefusedError,
    SelectorError,
)
from holdfast.protocols.stomp.frames import Frame


@dataclass
class Outcome:
    code: int
    out: str
    err: str
    error: BaseException | None


class Shell(Threaded):
    """Runs commands against a broker in another thread."""

    def __init__(self, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._capsys = capsys
        self._patch = patch

    def run(self, *arguments: str, stdin: bytes = b"", uri: str | None = None) -> Outcome:
        app = typer.Typer()
        messages.register(app)
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code, error = 0, None
        try:
            app([*arguments, "--uri", uri or self.broker.uri])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except HoldfastError as failure:
            error = failure
        captured = self._capsys.readouterr()
        return Outcome(code, captured.out, captured.err, error)

    def fill(self, *bodies: str | bytes) -> None:
        for body in bodies:
            encoded = body.encode() if isinstance(body, str) else body
            self.broker.store.put("q", {"persistent": "true", "colour": "red"}, encoded)

    @property
    def bodies(self) -> list[bytes]:
        return self.broker.store.bodies("q")


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    served = Shell(capsys, monkeypatch)
    yield served
    served.close()


def test_a_body_from_the_command_line_is_sent(shell: Shell) -> None:
    """With its headers, persistent unless said otherwise; the summary goes to standard error."""
    outcome = shell.run("send", "q", "hello", "--header", "colour:red:ish")
    assert (outcome.code, outcome.out) == (0, "")
    assert "sent 1 message in" in outcome.err
    assert shell.bodies == [b"hello"]
    headers = shell.broker.sends[0].block.headers
    assert (headers["colour"], headers["persistent"]) == ("red:ish", "true")
    shell.run("send", "q", "hello", "--non-persistent")
    assert shell.broker.sends[1].block.headers["persistent"] == "false"


def test_a_message_is_sent_in_a_group(shell: Shell) -> None:
    """As the header that everybody knows it by."""
    shell.run("send", "q", "hello", "--group", "orders of ann")
    assert shell.broker.sends[0].block.headers["JMSXGroupID"] == "orders of ann"
    shell.run("send", "q", "hello")
    assert "JMSXGroupID" not in shell.broker.sends[1].block.headers


def test_standard_input_is_one_body_or_one_per_line(shell: Shell) -> None:
    """Whole, with its line ends; or --lines, without them, the last may lack its own."""
    shell.run("send", "q", stdin=b"one\ntwo\n")
    shell.run("send", "q", "--lines", stdin=b"a\r\nb\n\nc")
    assert shell.bodies == [b"one\ntwo\n", b"a", b"b", b"", b"c"]


def test_files_are_bodies_or_lines(shell: Shell, tmp_path: Path) -> None:
    """Each file a message; with --lines each of their lines, at most --count."""
    one, two = tmp_path / "1", tmp_path / "2"
    one.write_bytes(b"x\ny\n")
    two.write_bytes(b"\0z")
    shell.run("send", "q", "-f", str(one), "-f", str(two))
    shell.run("send", "q", "-f", str(one), "-f", str(two), "--lines", "--count", "3")
    assert shell.bodies == [b"x\ny\n", b"\0z", b"x", b"y", b"\0z"]


def test_count_repeats_and_json_tells(shell: Shell) -> None:
    """--json puts the account on standard output, for programs."""
    outcome = shell.run("send", "q", "x", "--count", "5", "--rate", "1000", "--json")
    assert shell.bodies == [b"x"] * 5
    told = json.loads(outcome.out)
    assert (told["destination"], told["confirmed"]) == ("q", 5)
    assert outcome.err == ""


def test_a_refusal_is_an_error_with_the_account_so_far(shell: Shell) -> None:
    """What was confirmed before is told; the error goes to `main`."""
    broker = shell.broker
    broker.refuse = lambda event: (
        ("store-full", "no room") if event in broker.sends and len(broker.sends) > 2 else None
    )
    outcome = shell.run("send", "q", "x", "--count", "5")
    assert isinstance(outcome.error, RefusedError)
    assert "sent 2 messages" in outcome.err


def test_no_broker_is_an_error_without_a_summary(shell: Shell) -> None:
    """Nothing was sent, so there is nothing to tell of."""
    shell.do(shell.broker.kill)
    outcome = shell.run("send", "q", "x")
    assert isinstance(outcome.error, LinkLostError)
    assert outcome.err == ""


def test_wrong_arguments_are_configuration_mistakes(shell: Shell, tmp_path: Path) -> None:
    """Contradictions and missing files are told before anything is sent."""
    for arguments in (
        ("send", "q", "x", "--lines"),
        ("send", "q", "x", "--header", "nocolon"),
        ("send", "q", "-f", str(tmp_path / "missing")),
        ("receive", "q", "--follow", "--count", "1"),
    ):
        assert isinstance(shell.run(*arguments).error, ConfigError)
    assert not shell.broker.events
    assert shell.run("receive", "q", "--acknowledge", "never").code == 2


def test_received_bodies_are_lines_on_standard_output(shell: Shell) -> None:
    """Nothing else is there; each was acknowledged before the command ended."""
    shell.fill("1", "2", "3")
    outcome = shell.run("receive", "q", "--count", "2")
    assert (outcome.code, outcome.out) == (0, "1\n2\n")
    assert "received 2 messages in" in outcome.err
    assert shell.bodies == [b"3"]


@pytest.mark.parametrize("mode", ["client", "client-individual", "auto"])
def test_every_mode_acknowledges_what_was_written(shell: Shell, mode: str) -> None:
    """And ends after the silence asked for."""
    shell.fill("1", "2", "3")
    outcome = shell.run("receive", "q", "--timeout", "0.02", "--acknowledge", mode, "-q")
    assert (outcome.code, outcome.out, outcome.err) == (0, "1\n2\n3\n", "")
    assert shell.bodies == []


def test_looking_leaves_everything_there(shell: Shell) -> None:
    """--acknowledge none shows messages and takes none."""
    shell.fill("1", "2")
    outcome = shell.run("receive", "q", "--timeout", "0.02", "--acknowledge", "none")
    assert outcome.out == "1\n2\n"
    assert shell.bodies == [b"1", b"2"]


def test_too_few_messages_is_a_failure_for_scripts(shell: Shell) -> None:
    """--count 2 with one message there: what came was taken, and the code is 1."""
    shell.fill("1")
    outcome = shell.run("receive", "q", "--count", "2", "--timeout", "0.02")
    assert (outcome.code, outcome.out) == (1, "1\n")
    assert shell.bodies == []


def test_json_lines_carry_everything(shell: Shell) -> None:
    """Text as text, other bytes in base64, the application's headers."""
    shell.fill("ü", b"\xff\0")
    outcome = shell.run("receive", "q", "--count", "2", "--json")
    one, two = map(json.loads, outcome.out.splitlines())
    assert (one["body"], one["destination"], one["redelivered"]) == ("ü", "q", False)
    assert one["headers"]["colour"] == "red"
    assert "ack" not in one["headers"]
    assert two["body_base64"] == "/wA="


def test_a_file_each_in_a_directory(shell: Shell, tmp_path: Path) -> None:
    """Numbered in order, named after the message, made safe for a file system."""
    shell.fill("1", b"\0\n")
    shell.run("receive", "q", "--count", "2", "-o", str(tmp_path / "out"))
    found = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in found] == ["00000001-ID_c1-1-1", "00000002-ID_c1-1-2"]
    assert [path.read_bytes() for path in found] == [b"1", b"\0\n"]


def test_what_cannot_be_written_is_not_acknowledged(shell: Shell, tmp_path: Path) -> None:
    """A full disk or a broken pipe loses nothing."""
    shell.fill("1")
    (tmp_path / "out").write_text("no directory")
    with pytest.raises(OSError, match="out"):
        shell.run("receive", "q", "--count", "1", "-o", str(tmp_path / "out"))
    assert shell.bodies == [b"1"]


def test_subscription_options_reach_the_broker(shell: Shell) -> None:
    """Prefetch, headers, a selector, and what is claimed before others."""
    shell.fill("1")
    options = ("--prefetch", "7", "-H", "a.b:c", "--selector", "n > 1", "--exclusive")
    shell.run("receive", "q", "-n", "1", *options, "--priority", "-3")
    headers = shell.broker.frames("SUBSCRIBE")[0].headers
    assert "browser" not in headers
    assert (headers["activemq.exclusive"], headers["activemq.priority"]) == ("true", "-3")
    assert (headers["activemq.prefetchSize"], headers["a.b"]) == ("7", "c")
    assert headers["selector"] == "n > 1"
    assert "activemq.noLocal" not in headers
    shell.run("receive", "/topic/t", "--client-id", "c", "--durable", "d", "--no-local")
    assert "activemq.retroactive" not in shell.broker.frames("SUBSCRIBE")[-1].headers
    assert shell.broker.frames("SUBSCRIBE")[-1].headers["activemq.noLocal"] == "true"
    shell.run("receive", "/topic/t", "--retroactive")
    assert shell.broker.frames("SUBSCRIBE")[-1].headers["activemq.retroactive"] == "true"


def test_a_selector_that_is_refused_is_shown_with_a_mark(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the character that the broker names; `main` writes the sentence below."""
    sentence = "selector, column 7: unexpected 'AN'; expected AND, OR or the end"

    def refuse(served: Served, frame: Frame) -> None:
        served.error(frame.receipt, "invalid-selector", sentence)

    monkeypatch.setattr(Served, "serve_subscribe", refuse)
    outcome = shell.run("receive", "/topic/t", "--selector", "a = 1 AN\tb = 2")
    assert isinstance(outcome.error, SelectorError)
    assert (str(outcome.error), outcome.error.column) == (sentence, 7)
    assert outcome.err.splitlines() == ["  a = 1 AN b = 2", "        ^"]


@pytest.mark.parametrize("kind", ["queue", "topic", "temp-queue", "temp-topic"])
def test_a_destination_without_its_slash_is_an_error(shell: Shell, kind: str) -> None:
    """
    The broker takes `queue/x` for a queue of that name, as ActiveMQ does: whoever reads `/queue/x`
    would never see it. A queue whose name has a slash is served under its name.
    """
    for command in ("send", "receive"):
        error = shell.run(command, f"{kind}/x").error
        assert isinstance(error, ConfigError)
        assert error.problems == [
            f"{kind}/x: a slash is missing before it; write /{kind}/x",
        ]
    assert not shell.broker.events
    for destination in ("orders/new", "queue", f"/{kind}/x"):
        messages.check_destination(destination)


def test_without_a_broker_every_time_limit_holds(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Behind a failover URI, which the client library waits for without end: with a limit of their
    own and without one, `send` and `receive` end with an error that says where nobody was.
    """
    monkeypatch.setattr(message_patience, "FIRST_SECONDS_DEFAULT", 0.06)
    monkeypatch.setattr(message_sending, "FIRST_SECONDS_DEFAULT", 0.06)
    monkeypatch.setattr(message_receiving, "FIRST_SECONDS_DEFAULT", 0.06)
    monkeypatch.setattr(message_receiving, "PATIENCE_SECONDS_MIN", 0.05)
    shell.do(shell.broker.kill)
    uri = f"failover:({shell.broker.uri})"
    for seconds, arguments in (
        ("0.06", ("send", "q", "x")),
        ("0.07", ("send", "q", "x", "--timeout", "0.07")),
        ("0.06", ("receive", "q")),
        ("0.06", ("receive", "q", "--count", "1")),
        ("0.07", ("receive", "q", "--timeout", "0.07")),
        ("0.05", ("receive", "q", "--timeout", "0", "--count", "1")),
    ):
        error = shell.run(*arguments, uri=uri).error
        assert isinstance(error, LinkLostError)
        assert str(error) == f"no broker answered at {uri} within {seconds} s"


def test_an_outage_is_no_silence(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A broker that goes while `receive` waits has not said that the queue is empty: code 0 would.
    """
    monkeypatch.setattr(message_receiving, "PATIENCE_SECONDS_MIN", 1.5)
    broker = shell.broker
    broker.refuse = lambda event: broker.kill() if event in broker.frames("SUBSCRIBE") else None
    outcome = shell.run("receive", "q", "--timeout", "0.02", uri=f"failover:({broker.uri})")
    assert isinstance(outcome.error, LinkLostError)
    assert "there was no broker for 1.5 s: gave up" in str(outcome.error)


def test_a_send_is_given_up_when_its_broker_stays_away(shell: Shell) -> None:
    """What was confirmed is counted, what was not is told."""
    broker = shell.broker
    broker.refuse = lambda event: (
        broker.kill() if event in broker.sends and len(broker.sends) > 1 else None
    )
    uri = f"failover:({broker.uri})"
    outcome = shell.run(
        *("send", "q", "x", "--count", "2", "--window", "1", "--timeout", "1.5"), uri=uri
    )
    assert isinstance(outcome.error, LinkLostError)
    assert str(outcome.error) == "there was no broker for 1.5 s: gave up; 1 unconfirmed"
    assert "sent 1 message in" in outcome.err


def test_ctrl_c_ends_with_its_own_code() -> None:
    """130, as shells have it."""

    async def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as end:
        messages.run(interrupted())
    assert end.value.exit_code == 130


def test_what_is_said_of_a_message_has_an_option_each(shell: Shell) -> None:
    """By the names of the client library's properties."""
    said = {
        "--correlation-id": ("correlation-id", "c1"),
        "--reply-to": ("reply-to", "/queue/answers"),
        "--type": ("type", "order"),
        "--group": ("JMSXGroupID", "ann"),
    }
    options = [word for option, (_, value) in said.items() for word in (option, value)]
    shell.run("send", "q", "x", *options, "--ttl", "1.5")
    shell.run("send", "q", "x", "--expires", "2023-11-14T22:13:20")
    shell.run("send", "q", "x", "--expires", "2023-11-14T23:13:20.5+01:00")
    first, second, third = (frame.block.headers for frame in shell.broker.sends)
    assert {name: first[name] for name, _ in said.values()} == dict(said.values())
    assert first["expiration"] == "1500"
    assert (second["expires"], third["expires"]) == ("1700000000000", "1700000000500")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--expires", "soon"), "--expires soon: no time"),
        (("--expires", "2030-01-01", "--ttl", "5"), "say one of them"),
    ],
)
def test_a_life_that_is_none_is_refused(shell: Shell, options: tuple[str, ...], why: str) -> None:
    """Before anything is sent."""
    outcome = shell.run("send", "q", "x", *options)
    assert isinstance(outcome.error, ConfigError)
    assert why in str(outcome.error)
    assert shell.broker.sends == []
