"""
`holdfast request` and `holdfast reply`: a question and its answer, for people and scripts.

The answer goes to standard output and nothing else does. Exit codes as in `main`; 1 also if nobody
answered in time.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.cli.message_properties import with_properties
from holdfast.cli.messages import (
    URI_DEFAULT,
    Destination,
    Header,
    Json,
    Login,
    Quiet,
    Uri,
    check_destination,
    parse_headers,
    run,
)
from holdfast.cli.passcodes import Passcode
from holdfast.errors import ConfigError

ANSWER_SECONDS_DEFAULT = 30.0


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("request")(request)
    app.command("reply")(reply)


@with_properties
def request(
    destination: Destination,
    body: Annotated[str | None, typer.Argument(help="Otherwise standard input.")] = None,
    uri: Uri = URI_DEFAULT,
    login: Login = None,
    passcode: Passcode = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", min=0.01, metavar="SECONDS", help="So long for the answer."),
    ] = ANSWER_SECONDS_DEFAULT,
    again: Annotated[
        bool,
        typer.Option("--again", help="May be done twice: sent again if the broker fails over."),
    ] = False,
    header: Header = None,
    json: Json = False,
    *,
    properties: dict[str, Any],
) -> None:
    """Send a request, wait for the answer and write it."""
    check_destination(destination)
    if properties.get("reply_to") is not None:
        raise ConfigError(["--reply-to: the answer to a request comes here; send has the option"])
    from holdfast.cli.message_questions import ask

    asked = ask(
        destination,
        body,
        properties | {"headers": parse_headers(header), "is_repeatable": again},
        seconds=timeout,
        is_json=json,
    )
    run(asked(uri, login, passcode))


def reply(
    destination: Destination,
    body: Annotated[str | None, typer.Argument(help="The answer to all requests.")] = None,
    uri: Uri = URI_DEFAULT,
    login: Login = None,
    passcode: Passcode = None,
    command: Annotated[
        str | None,
        typer.Option(
            "--command",
            "-c",
            metavar="COMMAND",
            help="What gets each request on its standard input, and writes the answer.",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many.")
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, max=1000, help="So many at once.")
    ] = 1,
    quiet: Quiet = False,
) -> None:
    """Answer requests, with a text or what a command makes of each; until Ctrl-C."""
    check_destination(destination)
    if (body is None) == (command is None):
        raise ConfigError(["give the answer, or a --command that makes it; one of them"])
    from holdfast.cli.message_questions import Answerer

    answerer = Answerer(
        destination, body, command, count=count, concurrency=concurrency, is_quiet=quiet
    )
    run(answerer.run(uri, login, passcode))
