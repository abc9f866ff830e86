"""
What every command on Spark shares: where Spark runs, who is asked, and how a failure is told.

A fault that one of our own errors names in a worker comes back from Spark wrapped in two tracebacks
of other people's code; here it becomes that one sentence again.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, ParamSpec, TypeVar

import typer

from holdfast.cli.hidden_passwords import OF_PIPELINE
from holdfast.cli.login import token_file
from holdfast.cli.output import write_error
from holdfast.cli.spark_faults import no_spark_room, own_error
from holdfast.cli.spark_words import SparkWords
from holdfast.environment.disk import is_no_room
from holdfast.errors import (
    ConfigError,
    HoldfastError,
)

if TYPE_CHECKING:
    from holdfast.spark.log.client import RemoteLog

MasterOption = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's master; by default this machine."),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write the result as JSON.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="Show what Spark itself writes, too.")
]
SecretFileOption = Annotated[
    Path | None,
    typer.Option(
        "--secret-file",
        envvar="HOLDFAST_SECRET_FILE",
        metavar="FILE",
        help="The cluster's secret; not needed by the node's user on its machine.",
    ),
]

StoresOption = Annotated[
    list[str] | None,
    typer.Option(
        "--store",
        envvar=OF_PIPELINE["--store"],
        show_envvar=False,
        metavar="URL",
        help="A database, or shared:DIR; repeat for each of several that hold the same log.",
    ),
]

PACKAGES: Final = ("numpy", "pandas", "pyarrow", "pyspark")
"""What the extra `spark` installs."""

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def on_spark(command: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """
    Make of a function a command that names the extra it needs where that is not installed.

    Raises:
        ConfigError: When it is called: a package of the extra is missing.
    """

    @functools.wraps(command)
    def run(*arguments: _Parameters.args, **options: _Parameters.kwargs) -> _Result:
        missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
        if missing:
            problem = (
                f"holdfast {command.__name__} runs on Spark, which is not installed"
                f" ({', '.join(missing)}); install it with: pip install 'holdfast[spark]'"
            )
            raise ConfigError([problem])
        return command(*arguments, **options)

    return run


@contextmanager
def open_spark(
    app: str, master: str | None, conf: list[str] | None, *, verbose: bool = False
) -> Iterator[Any]:
    """
    Start Spark for one command, and stop it at the end.

    Raises:
        ConfigError: There is no Java, or a setting makes no sense.
        HoldfastError: What a worker raised, as one sentence.
    """
    with started_spark(app, master, conf, verbose=verbose) as session:
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def started_spark(
    app: str, master: str | None, conf: list[str] | None, *, verbose: bool = False
) -> Iterator[Any]:
    """
    Start Spark for one command; it ends with the process.

    Raises:
        ConfigError: There is no Java, or a setting makes no sense.
        HoldfastError: What a worker raised, as one sentence.
    """
    from holdfast.spark.session import COMMAND_SETTINGS, spark_session

    words = SparkWords()
    try:
        with nullcontext() if verbose else words.heard():
            session = spark_session(
                f"holdfast {app}", master, conf_of(conf), defaults=COMMAND_SETTINGS
            )
        with told_plainly():
            yield session
    except (HoldfastError, OSError, typer.Exit, KeyboardInterrupt):
        raise
    except BaseException:
        for line in words.last():
            write_error(f"Spark: {line}")
        raise


def conf_of(pairs: list[str] | None) -> dict[str, str]:
    """
    Read `KEY=VALUE` pairs.

    Raises:
        ConfigError: One has no `=`.
    """
    found = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError([f"--conf: expected KEY=VALUE, found {pair!r}"])
        found[key.strip()] = value.strip()
    return found


@contextmanager
def told_plainly() -> Iterator[None]:
    """Turn what Spark raises for a worker's fault into the fault itself."""
    try:
        yield
    except (HoldfastError, typer.Exit):
        raise
    except OSError as error:
        # Files of ours are named; what Spark's driver writes for its workers is not.
        if not is_no_room(error) or error.filename is not None:
            raise
        reason = os.strerror(error.errno or 0)
        raise no_spark_room(reason, "on the driver's machine") from error
    except Exception as error:
        found = own_error(str(error))
        if found is None:
            raise
        raise found from error


def remote_log(url: str, secret_file: Path | None) -> RemoteLog:
    """
    Give the log of a cluster by its admin ports.

    Raises:
        ConfigError: The URL, the secret or the token cannot be used.
    """
    from holdfast.spark.log.client import RemoteLog
    from holdfast.spark.source.options import read_options

    given = {"url": url}
    if secret_file is not None:
        given["secret_file"] = str(secret_file)
    if (said := token_file()) is not None:
        given["token_file"] = str(said)
    options = read_options(given)
    return RemoteLog(options.urls, token=options.token)
