"""
How a person on another machine shows a node who he is: `--user NAME`, or `--token-file FILE`.

Every command that takes `--admin` takes these as well; they are added here, to all of them. On the
node's own machine its user needs neither.

Invariants:
    No password and no token stands on a command line, in the environment, or in a log.
    A password is asked for once, however often the node is asked.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from holdfast.authorities.token_files import read_secret, read_token_file
from holdfast.errors import ConfigError
from holdfast.security.passwords import PASSWORD_BYTES_MAX

if TYPE_CHECKING:
    from holdfast.admin.by_password import ByPassword


class _Said(NamedTuple):
    user: str = ""
    token_file: Path | None = None
    secret_file: Path | None = None
    takes_earlier: bool = False


_NOTHING: Final = _Said()
_SAID: Final[ContextVar[_Said]] = ContextVar("holdfast_said")
_LOGIN: Final[ContextVar[str | ByPassword]] = ContextVar("holdfast_login", default="")


def forget() -> None:
    """Begin anew: nobody has said who he is."""
    _SAID.set(_NOTHING)
    _LOGIN.set("")


def _say_user(user: str) -> str:
    if user:
        _SAID.set(_SAID.get(_NOTHING)._replace(user=user))
    return user


def _say_token_file(token_file: Path | None) -> Path | None:
    if token_file is not None:
        _SAID.set(_SAID.get(_NOTHING)._replace(token_file=token_file))
    return token_file


def _hear_secret_file(_context: Any, _parameter: Any, secret_file: Path | None) -> Path | None:
    """Note what a command's own option says: also its questions are asked with it."""
    if secret_file is not None:
        _SAID.set(_SAID.get(_NOTHING)._replace(secret_file=secret_file))
    return secret_file


def _say_earlier(takes_earlier: bool) -> bool:
    if takes_earlier:
        _SAID.set(_SAID.get(_NOTHING)._replace(takes_earlier=True))
    return takes_earlier


def takes_earlier() -> bool:
    """Whether who asks has said that the node may be of a version that proves nothing."""
    return _SAID.get(_NOTHING).takes_earlier


def secret() -> bytes:
    """
    Give the cluster's secret, if its file was named; else nothing.

    Raises:
        ConfigError: It cannot be read, or is empty.
    """
    path = _SAID.get(_NOTHING).secret_file
    return b"" if path is None else read_secret(path)


def _options(
    login_user: Annotated[
        str,
        typer.Option(
            "--user",
            metavar="NAME",
            callback=_say_user,
            expose_value=False,
            help="Who asks, from another machine; the password is asked for.",
        ),
    ] = "",
    login_token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            envvar="HOLDFAST_TOKEN_FILE",
            metavar="FILE",
            callback=_say_token_file,
            expose_value=False,
            help="A file with the token of who asks, instead.",
        ),
    ] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            "--secret-file",
            envvar="HOLDFAST_SECRET_FILE",
            metavar="FILE",
            expose_value=False,
            help="The cluster's secret, instead.",
        ),
    ] = None,
    earlier_version: Annotated[
        bool,
        typer.Option(
            "--earlier-version",
            callback=_say_earlier,
            expose_value=False,
            help="With --secret-file: the node is of an earlier version, send what it takes.",
        ),
    ] = False,
) -> None:
    """Stand for a command, whose options are taken."""


def add_login(command: Any) -> None:
    """Let a command, and all below it, take these options where it takes `--admin`."""
    names = {parameter.name for parameter in command.params}
    if "url" in names:  # It reads by admin ports, with the cluster's secret or as somebody.
        command.params.extend(it for it in _parameters() if it.name == "login_token_file")
    if "admin" in names and "stomp" not in names:  # Else it is a node's own port.
        command.params.extend(it for it in _parameters() if it.name not in names)
        for parameter in command.params:
            if parameter.name == "secret_file":
                parameter.callback = _hear_secret_file
    for inner in getattr(command, "commands", {}).values():
        add_login(inner)


def _parameters() -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_options)
    return list(typer.main.get_command(app).params)


def token_file() -> Path | None:
    """Give the file that was named for the token of who asks, if one was."""
    return _SAID.get(_NOTHING).token_file


def login() -> str | ByPassword:
    """
    Give the header by which a node knows who asks, or his password; empty: nobody said who he is.

    Raises:
        ConfigError: The token cannot be read, or nobody can be asked for the password.
    """
    said = _SAID.get(_NOTHING)
    if not _LOGIN.get() and (said.user or said.token_file is not None):
        _LOGIN.set(_password_of(said.user) if said.user else _bearer(said.token_file))
    return _LOGIN.get()


def new_password(*, from_stdin: bool) -> str:
    """
    Ask for a password twice, or read it from standard input, to the end of its first line.

    Raises:
        ConfigError: There is none there, or it is too long.
    """
    if not from_stdin:
        if not sys.stdin.isatty():
            raise ConfigError(["the password: nobody can be asked for it here; --password-stdin"])
        asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    given = sys.stdin.readline(PASSWORD_BYTES_MAX + 2)
    password = given.removesuffix("\n").removesuffix("\r")
    if not password or len(given) > PASSWORD_BYTES_MAX + 1:
        expected = f"a line of 1 to {PASSWORD_BYTES_MAX:,} bytes is expected on standard input"
        raise ConfigError([f"the password: {expected}"])
    return password


def _password_of(user: str) -> ByPassword:
    if not sys.stdin.isatty():
        raise ConfigError(["--user: nobody can be asked for the password here; use --token-file"])
    from holdfast.admin.by_password import ByPassword

    password = typer.prompt(f"Password of {user}", hide_input=True, err=True)
    return ByPassword(user, password, may_tell=_may_tell)


def _may_tell(place: str) -> bool:
    return typer.confirm(
        f"{place} speaks in clear and does not offer SCRAM, as a node without `scram`, or of an"
        f" earlier version; any user of this machine could listen there while the node is stopped,"
        f" and would be told the password. Send it?",
        err=True,
    )


def _bearer(path: Path | None) -> str:
    assert path is not None, "one of both was said"
    return f"Bearer {read_token_file(path)}"
