"""
One Spark session for all tests here: starting one takes longer than most of them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from holdfast.spark.session import spark_session
from holdfast.testing.local_cluster import LocalCluster
from trials.pipeline.class_archive import options_with_archive
from trials.pipeline.spark_home import spark_home
from trials.pipeline.standalone_spark import JAVA_OPTIONS

TIMEOUT_SECONDS = 400
"""Of a test that names none: on a machine with much else to do a query takes minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder the patience that Spark needs."""
    for item in items:
        is_here = item.path.is_relative_to(Path(__file__).parent)
        if is_here and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test that ends in the middle of a call fails alone."""
    try:
        return (yield)
    except BaseException:
        forget_answers()
        raise


def forget_answers() -> None:
    """
    Speak to Java by a new connection: a call that was broken off, as by a timeout, has its answer
    still to come, and each call after it would be given the answer of the one before. A connection
    has a thread of its own in Java, where no session is the active one yet: without that a source
    written in Python is not found when something is written to it.
    """
    gateway = SparkContext._gateway
    connection = gateway and gateway._gateway_client.get_thread_connection()
    if connection is not None:
        connection.close()
    session = SparkSession._instantiatedSession
    if session is not None and session._jvm is not None:
        sessions = SparkSession._get_j_spark_session_class(session._jvm)
        sessions.setActiveSession(session._jsparkSession)


@pytest.fixture(name="forget_answers")
def _forget_answers() -> Callable[[], None]:
    return forget_answers


@pytest.fixture(scope="session", autouse=True)
def _options_of_java(tmp_path_factory: pytest.TempPathFactory) -> None:
    """For every driver that a test starts; what a killed one leaves goes with the run."""
    folder = tmp_path_factory.mktemp("java")
    options = f"{JAVA_OPTIONS} -Djava.io.tmpdir={folder}{options_with_archive()}"
    os.environ.setdefault("SPARK_SUBMIT_OPTS", options)


@contextmanager
def at_home() -> Iterator[None]:
    """Let Spark begin at a home whose Python is compiled; what begins at another one says so."""
    with pytest.MonkeyPatch.context() as patch:
        if "SPARK_HOME" not in os.environ:
            patch.setenv("SPARK_HOME", str(spark_home()))
        yield


@pytest.fixture(scope="module", autouse=True)
def _at_home() -> Iterator[None]:
    """For every driver that a test starts; tests of other folders start theirs as users do."""
    with at_home():
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """
    Two cores in this process's own Java.

    A query here has few rows: Spark goes by its expressions as they are. Compiling them, which it
    does by default and in every test with a Spark of its own, cost a third of Java's time.
    """
    place = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.local.dir": str(place / "local"),
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.sql.streaming.stopTimeout": "20s",
        "spark.sql.streaming.pollingDelay": "100ms",  # Of its own ten it has no rest.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    with at_home():
        session = spark_session("tests", "local[2]", settings)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """
    Three real nodes, for tests that leave all of them running.

    Each file has its own: idle they take 0.15 s of a processor a second, a start takes 3.4 s.
    """
    directory: Path = tmp_path_factory.mktemp("cluster")
    with LocalCluster(directory) as nodes:
        nodes.start()
        yield nodes


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster of one node, for tests to which others are nothing: it costs a third."""
    with LocalCluster(tmp_path_factory.mktemp("one"), "single") as nodes:
        nodes.start()
        yield nodes


@pytest.fixture(autouse=True)
def _warnings_of_spark() -> Iterator[None]:
    """Spark's own Python warns about sockets it leaves to the garbage collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
