"""
`holdfast send` and `holdfast receive`: messages for people and pipes.

What is sent comes from the command line, files or standard input; what is received goes to standard
output or into files, and nothing else does: progress, interruptions and the summary go to standard
error. A message is acknowledged after it has been written, so a broken pipe or a full disk loses
nothing. Exit codes as in `main`; 1 also if fewer than --count came in time or no broker answered,
130 after Ctrl-C.
"""

from __future__ import annotations

import asyncio
import enum
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from holdfast.cli.message_properties import with_properties
from holdfast.cli.output import write_error, write_json
from holdfast.cli.passcodes import Passcode
from holdfast.errors import ConfigError
from holdfast.model.destination import Kind
from holdfast.model.limits import CONSUMER_PRIORITY_MAX, CONSUMER_PRIORITY_MIN

URI_DEFAULT = "stomp://127.0.0.1:61613"
SILENCE_SECONDS_DEFAULT = 2.0
EXIT_SHORT = 1
EXIT_INTERRUPTED = 130

Destination = Annotated[str, typer.Argument(help="/queue/NAME, /topic/NAME, or a queue's name.")]
Destinations = Annotated[
    str,
    typer.Argument(
        help="/queue/NAME, /topic/NAME, or a queue's name; or several, with commas between."
    ),
]
Uri = Annotated[
    str,
    typer.Option(
        "--uri",
        envvar="HOLDFAST_URI",
        help="stomp://, stomp+ssl://, failover:(...) or discovery:(...)",
    ),
]
Login = Annotated[str | None, typer.Option("--login", envvar="HOLDFAST_LOGIN", help="User name.")]
Header = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME:VALUE", help="May be repeated.")
]
Rate = Annotated[
    float | None, typer.Option("--rate", min=0.001, help="At most so many per second.")
]
Selector = Annotated[
    str | None,
    typer.Option(
        "--selector",
        metavar="CONDITION",
        help="Only messages that are so: \"price > 2 AND region = 'north'\".",
    ),
]
Exclusive = Annotated[
    bool, typer.Option("--exclusive", help="Be the only one that gets any, or wait to be the next.")
]
Priority = Annotated[
    int,
    typer.Option(
        "--priority",
        min=CONSUMER_PRIORITY_MIN,
        max=CONSUMER_PRIORITY_MAX,
        help="Before consumers of a lower one, as long as there is room.",
    ),
]
Browse = Annotated[
    bool, typer.Option("--browse", help="Only look through what is on the queue now, to its end.")
]
Durable = Annotated[
    str | None,
    typer.Option(
        "--durable",
        metavar="NAME",
        help="Of a topic: also what was sent while nobody received under this name.",
    ),
]
ClientId = Annotated[
    str | None,
    typer.Option(
        "--client-id", envvar="HOLDFAST_CLIENT_ID", help="Whose it is; needed for --durable."
    ),
]
NoLocal = Annotated[
    bool,
    typer.Option(
        "--no-local", help="With --durable: not what is sent under its --client-id itself."
    ),
]
Retroactive = Annotated[
    bool,
    typer.Option(
        "--retroactive", help="Of a topic: first what its policy keeps of what was sent before."
    ),
]
CountAtMost = Annotated[
    int | None, typer.Option("--count", "-n", min=1, help="Stop after so many.")
]
Prefetch = Annotated[int | None, typer.Option("--prefetch", min=1, help="Most messages under way.")]
Silence = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0,
        metavar="SECONDS",
        help="Stop after so long without a message; 2 unless --count or --follow. Without a"
        " broker fail after as long, at least 3; not given, after 30.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0.01,
        metavar="SECONDS",
        help="Fail after so long without a broker or its confirmation. Not given: 30 for the"
        " first connection, then as --uri says.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="For programs, on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]


class Acknowledge(enum.StrEnum):
    """When `receive` tells the broker that a message is done."""

    CLIENT = "client"
    INDIVIDUAL = "client-individual"
    AUTO = "auto"
    NONE = "none"


WhenDone = Annotated[
    Acknowledge, typer.Option("--acknowledge", help="none: look, and leave them there.")
]

KINDS = frozenset(kind.value for kind in Kind)

WIRE_MODES: dict[Acknowledge, Literal["client", "client-individual"] | None] = {
    Acknowledge.CLIENT: "client",
    Acknowledge.INDIVIDUAL: "client-individual",
    # Done is what has been written, so "auto" is one by one.
    Acknowledge.AUTO: "client-individual",
    Acknowledge.NONE: None,
}


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("send")(send)
    app.command("receive")(receive)


@with_properties
def send(
    destination: Destinations,
    body: Annotated[str | None, typer.Argument(help="Otherwise --file or standard input.")] = None,
    uri: Uri = URI_DEFAULT,
    login: Login = None,
    passcode: Passcode = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="A message each; - is standard input."),
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Every line is a message.")] = False,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=1, help="So many times; of --lines at most so many."),
    ] = None,
    rate: Rate = None,
    timeout: Timeout = None,
    header: Header = None,
    non_persistent: Annotated[
        bool, typer.Option("--non-persistent", help="May be lost when a broker dies.")
    ] = False,
    window: Annotated[
        int, typer.Option("--window", min=1, help="Most messages sent and not confirmed.")
    ] = 1000,
    json: Json = False,
    quiet: Quiet = False,
    *,
    properties: dict[str, Any],
) -> None:
    """Send messages and wait until the broker has stored them."""
    check_destination(destination)
    from holdfast.cli.message_sending import Bodies, Sending

    if body is not None and (file or lines):
        raise ConfigError(["give a body, or --file and --lines, not both"])
    sending = Sending(
        destination,
        Bodies(body, file or [], is_by_line=lines, count=count),
        headers=parse_headers(header),
        properties=properties,
        is_persistent=not non_persistent,
        window=window,
        rate=rate,
        seconds_max=timeout,
        is_quiet=quiet,
    )
    try:
        run(sending.run(uri, login, passcode))
    finally:
        if json:
            write_json(sending.summary())
        elif sending.tally.has_started and not quiet:
            write_error(sending.tally.line("sent"))


def receive(
    destination: Destination,
    uri: Uri = URI_DEFAULT,
    login: Login = None,
    passcode: Passcode = None,
    count: CountAtMost = None,
    timeout: Silence = None,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Go on for ever.")] = False,
    acknowledge: WhenDone = Acknowledge.CLIENT,
    prefetch: Prefetch = None,
    selector: Selector = None,
    exclusive: Exclusive = False,
    priority: Priority = 0,
    browse: Browse = False,
    durable: Durable = None,
    client_id: ClientId = None,
    no_local: NoLocal = False,
    retroactive: Retroactive = False,
    header: Header = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR|-", help="A file each, or all on stdout.")
    ] = "-",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Receive messages; each is acknowledged when it has been written."""
    check_destination(destination)
    _check_end(follow=follow, has_end=count is not None or timeout is not None)
    _check_durable(durable, client_id)
    from holdfast.cli.message_receiving import Output, Receiving

    silence, patience = _waits(timeout, has_end=count is not None or follow)
    receiving = Receiving(
        destination,
        Output(None if output == "-" else Path(output), is_json=json),
        count=count,
        silence_seconds=silence,
        patience_seconds=patience,
        is_endless=follow,
        acknowledge=WIRE_MODES[acknowledge],
        prefetch=prefetch,
        selector=selector,
        exclusive=exclusive,
        priority=priority,
        browse=browse,
        durable=durable,
        client_id=client_id,
        no_local=no_local,
        retroactive=retroactive,
        headers=parse_headers(header),
        is_quiet=quiet,
    )
    try:
        run(receiving.run(uri, login, passcode))
    finally:
        if receiving.tally.has_started and not quiet:
            write_error(receiving.tally.line("received"))
    if count is not None and receiving.tally.count < count:
        raise typer.Exit(EXIT_SHORT)


def _waits(seconds: float | None, *, has_end: bool) -> tuple[float | None, float | None]:
    """Return for how long without a message, and without a broker, `receive` goes on."""
    from holdfast.cli.message_patience import FIRST_SECONDS_DEFAULT
    from holdfast.cli.message_receiving import PATIENCE_SECONDS_MIN

    if seconds is not None:
        return seconds, max(seconds, PATIENCE_SECONDS_MIN)
    return (None, None) if has_end else (SILENCE_SECONDS_DEFAULT, FIRST_SECONDS_DEFAULT)


def _check_end(*, follow: bool, has_end: bool) -> None:
    if follow and has_end:
        raise ConfigError(["--follow goes on for ever: not together with --count or --timeout"])


def _check_durable(name: str | None, client_id: str | None) -> None:
    if name is not None and not client_id:
        raise ConfigError(["--durable needs --client-id: by both it is known again"])


def check_destination(destination: str) -> None:
    """
    Refuse a destination that has lost its first slash: the broker would take it for a queue's name.

    Raises:
        ConfigError: With what was meant.
    """
    prefix, slash, _ = destination.partition("/")
    if slash and prefix in KINDS:
        raise ConfigError([f"{destination}: a slash is missing before it; write /{destination}"])


def parse_headers(given: list[str] | None) -> dict[str, str]:
    """
    Headers from NAME:VALUE.

    Raises:
        ConfigError: With each that has no colon or no name.
    """
    pairs = [(text, text.partition(":")) for text in given or []]
    problems = [
        f"--header {text}: expected NAME:VALUE"
        for text, (name, colon, _) in pairs
        if not name or not colon
    ]
    if problems:
        raise ConfigError(problems)
    return {name: value for _, (name, _, value) in pairs}


def run(work: Coroutine[Any, Any, None]) -> None:
    """
    Run to the end on a fast loop.

    Raises:
        Exit: With 130 after Ctrl-C.
    """
    import uvloop

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work)
    except KeyboardInterrupt as error:
        sys.stderr.write("\n")
        raise typer.Exit(EXIT_INTERRUPTED) from error
