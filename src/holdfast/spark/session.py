"""
One Spark session for every command and test, set up the way Holdfast wants it.

`local[*]` unless a master is named. The workers run the very interpreter that this runs under: by
default Spark takes whatever `python3` is on the path, and fails without pyarrow. A user's own
PYSPARK_PYTHON and settings win over ours.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    "spark.driver.host": "localhost",
}
"""What is set unless the user sets it."""


def spark_session(
    app: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """
    Return the session, with the data source `holdfast` registered.

    Args:
        app: The name shown in Spark's own pages.
        master: `local[*]` by default.
        conf: Spark's settings; they win over ours.

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
    from holdfast.spark.data_source import HoldfastDataSource  # noqa: PLC0415 - see above

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app).master(master or "local[*]")
    for key, value in {**SETTINGS, **(conf or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(HoldfastDataSource)
    return session


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
