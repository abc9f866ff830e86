"""
A class-data archive for the Java of Spark's tests: what a start reads, made ready once.

A start of Spark loads and links some fifteen thousand classes, half of what a short session costs.
Java 13 and later can keep them as they are in memory (JEP 350) and map the file at the next start.
The file fits one Java and one pyspark in one home (`spark_home`), as its name tells; one that does
not fit is passed over by Java, which then starts as without.

Run: python -m trials.pipeline.class_archive, as `make test` does before the tests of Spark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

import pyspark

from holdfast.spark.session import spark_session
from trials.pipeline.operation_log import OperationLog
from trials.pipeline.spark_home import home_path, spark_home
from trials.pipeline.standalone_spark import JAVA_OPTIONS

BUILD: Final = Path(__file__).parents[2] / "build"
MODULE: Final = "trials.pipeline.class_archive"
"""Run as a program it has another name."""

STEPS: Final = 50
QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Java says aloud where an archive does not fit; tests look at what their commands say."""


@cache
def archive_path() -> Path:
    """Where the archive of this Java and this pyspark is, or would be."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    words = [java, "-version"]
    said = subprocess.run(words, capture_output=True, check=False).stderr  # noqa: S603 - Spark's
    place = f"{pyspark.__version__} at {home_path()}".encode()
    return BUILD / f"spark-classes-{sha256(said + place).hexdigest()[:16]}.jsa"


def options_with_archive() -> str:
    """Give the options that use the archive, to be put behind the others; empty without one."""
    path = archive_path()
    return f" -XX:SharedArchiveFile={path} {QUIET}" if path.exists() else ""


def make(java_options: str) -> Path:
    """
    Make the archive by one short session that does a little of everything.

    Args:
        java_options: What the Java that will use it is started with: it must be the same.

    Raises:
        subprocess.CalledProcessError: The session failed; its words are in the error.
        OSError: The archive cannot be written.
    """
    path = archive_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as place:
        draft = Path(place) / "draft.jsa"
        given = f"{java_options} -XX:ArchiveClassesAtExit={draft} {QUIET}"
        # Java writes it at its own end, behind Python's: until then it keeps the pipes open.
        subprocess.run(  # noqa: S603 - ours
            [sys.executable, "-c", f"from {MODULE} import work; work({place!r})"],
            env={**os.environ, "SPARK_SUBMIT_OPTS": given, "SPARK_HOME": str(spark_home())},
            capture_output=True,
            check=True,
        )
        draft.replace(path)
    return path


def work(place: str) -> None:
    """Read a log, count, write and read Parquet: the classes that tests need first."""
    log = OperationLog(Path(place) / "log", seed=1)
    log.run(STEPS)
    spark = spark_session("classes", "local[2]", {"spark.sql.shuffle.partitions": "2"})
    rows = spark.read.format("holdfast").load(str(log.directory))
    rows.groupBy("destination").count().collect()
    rows.write.parquet(f"{place}/rows")
    spark.read.parquet(f"{place}/rows").orderBy("sequence").count()
    spark.stop()


def main() -> None:
    """Make it, if it is not there; without it tests only take longer."""
    if archive_path().exists():
        return
    sys.stdout.write("class archive: Java's classes for the tests of Spark are made ready\n")
    sys.stdout.flush()
    try:
        make(JAVA_OPTIONS)
    except (subprocess.CalledProcessError, OSError) as error:
        words = getattr(error, "stderr", b"") or b""
        tail = words.decode(errors="replace")[-2000:]
        sys.stdout.write(f"class archive: none, {error}\n{tail}\n")


if __name__ == "__main__":
    main()
