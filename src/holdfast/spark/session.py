"""
One Spark session for every command and test, set up the way Holdfast wants it.

`local[*]` unless a master is named. The workers run the very interpreter that this runs under: by
default Spark takes whatever `python3` is on the path, and fails without pyarrow.

What a user has set wins over ours: PYSPARK_PYTHON, `spark-defaults.conf`, and all that
`spark-submit` was given. There the master is settled before any code of ours or theirs runs, so a
program that names `local[*]` for trying it out runs where it is submitted to.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULT_LINE: Final = re.compile(r"\s*([^\s#=:]+)\s*[\s=:]\s*(.*?)\s*$")

JAVA_HINT: Final = (
    "Spark needs Java 17 or newer, and there is none on this machine; install it with"
    " 'apt-get install openjdk-17-jre-headless', or set JAVA_HOME"
)

SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.memory": "2g",
}
"""What is set unless the user sets it."""

LOCAL_SETTINGS: Final[Mapping[str, str]] = {"spark.driver.host": "localhost"}
"""Where all of Spark runs in one process: nobody else must reach it, whatever the machine's name
resolves to. On a cluster executors connect to the driver, by the address that Spark finds."""

COMMAND_SETTINGS: Final[Mapping[str, str]] = {
    "spark.master": "local[*,4]",
    "spark.driver.defaultJavaOptions": (
        "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier3DelayOn=0"
        " -XX:Tier4InvocationThreshold=40000 -XX:Tier4MinInvocationThreshold=10000"
        " -XX:Tier4CompileThreshold=80000 -XX:Tier4BackEdgeThreshold=240000"
    ),
}
"""For our own commands. A task whose worker was killed is tried again, as on a cluster: by itself a
local master gives the job up. And their rows pass by Java: it optimizes in full only what has run
eight times as often as it asks by default. On few cores a short job waits for Java's compiler
otherwise."""

DAEMON_SETTINGS: Final[Mapping[str, str]] = {
    "spark.python.daemon.module": "holdfast.spark.worker_daemon"
}
"""For workers on this machine that run this very Python, with this package as it is installed."""

MASTER_DEFAULT: Final = "local[*]"


def spark_session(
    app: str,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    defaults: Mapping[str, str] | None = None,
) -> SparkSession:
    """
    Return the session, with the data source `holdfast` registered.

    Args:
        app: The name shown in Spark's own pages.
        master: `local[*]` by default; under `spark-submit` what that says.
        conf: Spark's settings; they win over ours, and over those of a file.
        defaults: More of ours, which the user's win over.

    Raises:
        ConfigError: There is no Java, or the packages for Spark are missing.
    """
    check_java()
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - the packages are an extra
    except ImportError as error:
        raise ConfigError(
            ["the packages for Spark are missing; install them with pip install 'holdfast[spark]'"]
        ) from error
    from holdfast.spark.source.data_source import HoldfastDataSource  # noqa: PLC0415 - see above

    settings = settings_for(
        app,
        master,
        conf or {},
        given_settings(),
        is_submitted=is_submitted(),
        defaults=defaults or {},
    )
    os.environ.setdefault("PYSPARK_PYTHON", settings.get("spark.pyspark.python", sys.executable))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(HoldfastDataSource)
    return session


def settings_for(
    app: str,
    master: str | None,
    conf: Mapping[str, str],
    given: Mapping[str, str],
    *,
    is_submitted: bool,
    defaults: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """
    Work out what a session is told.

    Args:
        conf: What the program asks for; it wins over `given`, save where it is too late.
        given: What Spark has from elsewhere: from a file, or from `spark-submit`.
        is_submitted: Java runs already, and what `spark-submit` was told stays.
        defaults: More of ours than what is set for all.
    """
    wanted = {"spark.app.name": app, **conf}
    if master is not None:
        wanted["spark.master"] = master
    default = (defaults or {}).get("spark.master", MASTER_DEFAULT)
    wanted.setdefault("spark.master", given.get("spark.master", default))
    if is_submitted and "spark.master" in given:
        wanted["spark.master"] = given["spark.master"]
    is_local = wanted["spark.master"].startswith("local")
    ours = {**SETTINGS, **(defaults or {})}
    if is_local:
        ours |= LOCAL_SETTINGS
        if _has_our_python({**given, **wanted}):
            ours |= DAEMON_SETTINGS
    return {key: value for key, value in ours.items() if key not in given} | wanted


def _has_our_python(known: Mapping[str, str]) -> bool:
    """Whether workers run this interpreter, and no package that comes with the job."""
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    python = known.get("spark.pyspark.python", python)
    return python == sys.executable and not known.get("spark.submit.pyFiles")


def is_submitted() -> bool:
    """Whether `spark-submit` has started this program, so that Java runs already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def given_settings() -> dict[str, str]:
    """Give what Spark was told elsewhere than by this program."""
    if not is_submitted():
        return defaults_in_file()
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - the packages are an extra

    SparkContext._ensure_initialized()  # noqa: SLF001 - as SparkContext itself does before SparkConf
    return dict(SparkConf().getAll())


def defaults_in_file() -> dict[str, str]:
    """Read `spark-defaults.conf` where Spark looks for it: words, an equals sign or a space."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder is None and "SPARK_HOME" in os.environ:
        folder = str(Path(os.environ["SPARK_HOME"]) / "conf")
    file = Path(folder or "") / "spark-defaults.conf"
    if folder is None or not file.is_file():
        return {}
    found = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        match = _DEFAULT_LINE.match(line)
        if match is not None:
            found[match[1]] = match[2]
    return found


def check_java() -> None:
    """
    Make sure that Spark will find Java.

    Raises:
        ConfigError: It will not; the sentence says how to install it.
    """
    home = os.environ.get("JAVA_HOME")
    found = home is not None and (Path(home) / "bin" / "java").exists()
    if not found and shutil.which("java") is None:
        raise ConfigError([JAVA_HINT])
