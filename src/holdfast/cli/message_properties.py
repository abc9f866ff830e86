"""
What is said of each message that a command sends by an option of its own: `--group ann --ttl 60`.

An option for each property of the client library (`Properties`), of the same name and meaning: a
parameter of `said_of_each`. `with_properties` gives them to a command, behind its own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from holdfast.errors import ConfigError
from holdfast.model.facts import PRIORITY_MAX

_EXAMPLE: Final = "2030-01-31T18:00"

Group = Annotated[
    str | None,
    typer.Option("--group", metavar="NAME", help="One consumer gets all of it, in order."),
]
Priority = Annotated[
    int | None,
    typer.Option(
        "--priority",
        min=0,
        max=PRIORITY_MAX,
        help="A higher one goes first, where the queue's policy has prioritizedMessages.",
    ),
]
Ttl = Annotated[
    float | None,
    typer.Option(
        "--ttl",
        min=0.001,
        metavar="SECONDS",
        help="So long each message may wait to be delivered; then it has expired.",
    ),
]
Expires = Annotated[
    str | None,
    typer.Option(
        "--expires",
        metavar="TIME",
        help="When each message has expired: ISO 8601, in UTC if it has no zone.",
    ),
]
CorrelationId = Annotated[
    str | None,
    typer.Option("--correlation-id", metavar="ID", help="The request that it belongs to."),
]
ReplyTo = Annotated[
    str | None,
    typer.Option("--reply-to", metavar="DESTINATION", help="Where an answer is awaited."),
]
Type = Annotated[
    str | None, typer.Option("--type", metavar="NAME", help="Your own kind of message (JMSType).")
]
Delay = Annotated[
    float | None,
    typer.Option(
        "--delay", min=0.001, metavar="SECONDS", help="So long it is kept before it is sent."
    ),
]
SendAt = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="TIME", help="When it is sent: ISO 8601, in UTC if it has no zone."
    ),
]
Period = Annotated[
    float | None,
    typer.Option(
        "--period", min=0.001, metavar="SECONDS", help="So far apart are its repetitions."
    ),
]
Repeats = Annotated[
    int | None,
    typer.Option(
        "--repeat", metavar="N", help="So often it is sent again; -1: without end. With --period."
    ),
]
Cron = Annotated[
    str | None,
    typer.Option("--cron", metavar="FIELDS", help='Whenever it matches: "30 6 * * 1-5".'),
]
CronZone = Annotated[
    str | None,
    typer.Option("--cron-zone", metavar="ZONE", help="By which time zone: Europe/Paris."),
]


def said_of_each(
    *,
    group: Group = None,
    priority: Priority = None,
    ttl: Ttl = None,
    expires: Expires = None,
    correlation_id: CorrelationId = None,
    reply_to: ReplyTo = None,
    type: Type = None,
    delay: Delay = None,
    send_at: SendAt = None,
    period: Period = None,
    repeats: Repeats = None,
    cron: Cron = None,
    cron_zone: CronZone = None,
) -> dict[str, Any]:
    """
    Give what is said of each message, as the client library's `Properties`.

    Raises:
        ConfigError: The time is none, or it is said twice how long they live.
    """
    if ttl is not None and expires is not None:
        raise ConfigError(["--ttl and --expires: say one of them"])
    return {
        "group": group or None,
        "priority": priority,
        "ttl": ttl,
        "expires_at": None if expires is None else _moment("expires", expires, "ttl"),
        "correlation_id": correlation_id,
        "reply_to": reply_to,
        "type": type,
        "delay": delay,
        "send_at": None if send_at is None else _moment("at", send_at, "delay"),
        "period": period,
        "repeats": repeats,
        "cron": cron,
        "cron_zone": cron_zone,
    }


def with_properties(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes `properties` an option for each of them."""
    own = inspect.signature(command, eval_str=True)
    options = inspect.signature(said_of_each, eval_str=True).parameters

    @functools.wraps(command)
    def run(**given: Any) -> None:
        said = {name: given.pop(name) for name in options}
        command(**given, properties=said_of_each(**said))

    parameters = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in (*own.parameters.values(), *options.values())
        if each.name != "properties"
    ]
    run.__dict__["__signature__"] = own.replace(parameters=parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _moment(option: str, text: str, instead: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            [f"--{option} {text}: no time; write for example {_EXAMPLE}, or --{instead} SECONDS"]
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
