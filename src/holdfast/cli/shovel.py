"""
`holdfast shovel`: messages from one broker to another one, for a while or for ever.

Either of them may be ActiveMQ, RabbitMQ or Artemis, by STOMP: the way from there to here, and back.
Exit codes as in `main`; 1 also if messages had to stay where they were, 130 after a second Ctrl-C.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.messages import (
    EXIT_SHORT,
    SILENCE_SECONDS_DEFAULT,
    URI_DEFAULT,
    CountAtMost,
    Json,
    Login,
    Quiet,
    Selector,
    run,
)
from holdfast.cli.output import write_error, write_json, write_table
from holdfast.cli.passcodes import Passcode, read_passcode
from holdfast.cli.shovel_rules import Route, routes_of
from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.cli.shovelling import RouteTally


Routes = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE[=TARGET]...",
        help="A queue there, and its name here if that is another one; /queue/A.> for several;"
        " /topic/NAME with --durable.",
    ),
]
From = Annotated[str, typer.Option("--from", metavar="URI", help="Where messages are taken.")]
To = Annotated[
    str,
    typer.Option("--to", metavar="URI", envvar="HOLDFAST_URI", help="Where they are sent on to."),
]
FromLogin = Annotated[
    str | None, typer.Option("--from-login", metavar="NAME", help="User name there.")
]
FromPasscodeFile = Annotated[
    Path | None,
    typer.Option(
        "--from-passcode-file",
        metavar="FILE",
        envvar="HOLDFAST_FROM_PASSCODE_FILE",
        help="A file with the password there. With --from-login alone it is asked for.",
    ),
]
FromHost = Annotated[
    str | None,
    typer.Option("--from-host", metavar="NAME", help="The virtual host of a RabbitMQ there."),
]
Host = Annotated[
    str | None,
    typer.Option("--host", metavar="NAME", help="The virtual host of a RabbitMQ that is sent to."),
]
Silence = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0.01,
        metavar="SECONDS",
        help="Stop after so long without a message; 2 unless --count or --follow.",
    ),
]
Durable = Annotated[
    str | None,
    typer.Option(
        "--durable",
        metavar="NAME",
        help="Of topics: under this name nothing is missed while the shovel is away.",
    ),
]
Transformation = Annotated[
    str | None,
    typer.Option(
        "--transformation",
        metavar="NAME",
        help="As what ActiveMQ tells objects and maps, if it has what that takes: jms-json.",
    ),
]
WithEmpty = Annotated[
    bool,
    typer.Option(
        "--with-empty", help="Also what ActiveMQ tells without a body: it was sent empty."
    ),
]


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("shovel")(shovel)


def shovel(
    routes: Routes,
    source: From,
    target: To = URI_DEFAULT,
    from_login: FromLogin = None,
    from_passcode_file: FromPasscodeFile = None,
    login: Login = None,
    passcode: Passcode = None,
    from_host: FromHost = None,
    host: Host = None,
    count: CountAtMost = None,
    timeout: Silence = None,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Go on for ever.")] = False,
    selector: Selector = None,
    durable: Durable = None,
    client_id: Annotated[
        str, typer.Option("--client-id", help="Whose durable subscription it is.")
    ] = "holdfast-shovel",
    transformation: Transformation = None,
    with_empty: WithEmpty = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Carry messages from one broker to another one, each acknowledged once it is stored there."""
    ways = routes_of(routes)
    _check(ways, source, target, durable, follow=follow, has_end=bool(count or timeout))
    from holdfast.cli.shovel_ends import End, Ends
    from holdfast.cli.shovelling import Shovelling

    silence = timeout if timeout or count or follow else SILENCE_SECONDS_DEFAULT
    ends = Ends(
        End(source, from_login, _from_passcode(from_login, from_passcode_file), from_host),
        End(target, login, passcode, host),
        client_id=client_id if durable else None,
        is_endless=follow,
        is_quiet=quiet,
    )
    work = Shovelling(
        ways,
        count=count,
        silence_seconds=silence,
        durable=durable,
        selector=selector,
        transformation=transformation,
        takes_empty=with_empty,
    )

    try:
        run(ends.joined(work))
    finally:
        if json:
            write_json(work.fields())
        elif work.tally.has_started and not quiet:
            write_error(work.tally.line("carried"))
            _write_routes(work.routes)
    if work.staying_count:
        raise typer.Exit(EXIT_SHORT)


def _write_routes(routes: list[RouteTally]) -> None:
    write_table(
        ("source", "target", "stored#", "possible duplicates#", "known#", "staying#"),
        (
            (it.route.source, it.shown_target, it.stored, it.doubtful, it.known, it.staying_count)
            for it in routes
        ),
    )
    for it in routes:
        for reason, count in it.staying.items():
            write_error(
                f"holdfast: {count:,} of {it.route.source} stay there ({reason}), first"
                f" {it.told[reason]}"
            )


def _check(
    routes: list[Route],
    source: str,
    target: str,
    durable: str | None,
    *,
    follow: bool,
    has_end: bool,
) -> None:
    problems = []
    if follow and has_end:
        problems.append("--follow goes on for ever: not together with --count or --timeout")
    for route in routes:
        if route.is_topic and durable is None:
            problems.append(
                f"{route.source}: what is published while the shovel is away would be missed;"
                f" give --durable NAME"
            )
        if source == target and route.target in {"", route.source}:
            problems.append(f"{route.source}: --from and --to are the same place")
    if durable is not None and sum(it.is_topic for it in routes) > 1:
        problems.append("--durable: one topic at a time has this name")
    if durable is not None and not any(it.is_topic for it in routes):
        problems.append("--durable is of a topic, and there is none")
    if problems:
        raise ConfigError(problems)


def _from_passcode(login: str | None, path: Path | None) -> str | None:
    if path is not None:
        return read_passcode(path)
    if login and sys.stdin.isatty():
        asked: str = typer.prompt(f"Passcode of {login} there", hide_input=True, err=True)
        return asked or None
    return None
